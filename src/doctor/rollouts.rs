//! Codex' rollouts: those that cannot be read, and the threads whose completed turns an Observer waits for in vain.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::{Check, Finding, Surroundings, number, quoted, some_of};
use crate::chain::{Entry, Host};
use crate::db::examining::{self, Asked};
use crate::db::schema;
use crate::hosts::codex::survey::{Read, Survey, Thread};
use crate::scan::file::Mapping;

/// Of the threads those are read that were written to last, up to so many bytes together.
const MOST_BYTES: u64 = 2 << 30;

/// Looks at every rollout, and compares what completed lately with the database.
pub fn check(around: &Surroundings) -> Vec<Finding> {
    let survey = Survey::look(&around.stores.sessions_root());
    let mut bytes = 0;
    let looked_at = survey.threads.iter().take_while(|thread| {
        bytes += thread.bytes();
        bytes <= MOST_BYTES
    });
    let looked_at = looked_at.count();
    // What is not mapped raises no signal when an agent cuts it.
    let read = survey.threads[..looked_at].par_iter().map(|thread| (thread, thread.read(Mapping::Never)));
    let (mut threads, mut unreadable) = (Vec::new(), Vec::new());
    for (thread, read) in read.collect::<Vec<_>>() {
        match read {
            Ok(read) => threads.extend(read),
            Err(error) => unreadable.extend(thread.paths().map(|path| unread(&path, &error))),
        }
    }
    unreadable.extend(survey.unreadable.iter().map(|(path, error)| unread(path, error)));
    let mut findings = some_of(unreadable, |left| {
        Finding::problem(
            Check::Rollouts,
            format!("{left} more cannot be read"),
            "make them readable, or move them away",
        )
    });
    // What keeps the database from being read is told where that is looked at.
    if let Some(waiting) = waiting(&threads, &schema::path(&around.stores.home)) {
        findings.extend(of_waiting(&waiting));
        if waiting.is_empty() && survey.rollouts > 0 {
            let (rollouts, threads) = (number(survey.rollouts, "rollout"), number(threads.len(), "thread"));
            let what = format!("{rollouts}; every completed turn of {threads} has its bodies");
            findings.push(Finding::fine(Check::Rollouts, what).counting(survey.rollouts));
        }
    }
    findings.extend(left_out(&survey.threads[looked_at..]));
    findings.into_iter().map(|finding| finding.of(Host::Codex)).collect()
}

fn unread(path: &Path, error: &std::io::Error) -> Finding {
    let what = format!("{} cannot be read: {error}; every read fails until it can", path.display());
    let advice = format!("make it readable, or move it out of the sessions: {}", quoted(path));
    Finding::problem(Check::Rollouts, what, advice).about(path)
}

/// What waits in one project.
#[derive(Default)]
struct Waiting {
    threads: usize,
    turns: usize,
}

/// By project the threads that have completed turns without bodies, and how many turns wait for them; `None` when the
/// database does not tell.
fn waiting(threads: &[Read], database: &Path) -> Option<BTreeMap<PathBuf, Waiting>> {
    let chains: Vec<Vec<Entry>> =
        threads.iter().map(|thread| thread.candidate.entries(0..thread.candidate.end.length)).collect();
    let asked = threads.iter().zip(&chains).map(|(Read { project, candidate }, entries)| Asked {
        session: &candidate.session,
        project,
        entries,
    });
    let counts = examining::with_bodies(database, &asked.collect::<Vec<_>>()).ok()?;
    let mut waiting: BTreeMap<PathBuf, Waiting> = BTreeMap::new();
    for ((thread, chain), count) in threads.iter().zip(&chains).zip(counts) {
        if count < chain.len() {
            let of_project = waiting.entry(thread.project.path()).or_default();
            of_project.threads += 1;
            of_project.turns += chain.len() - count;
        }
    }
    Some(waiting)
}

fn of_waiting(waiting: &BTreeMap<PathBuf, Waiting>) -> Vec<Finding> {
    let finding = |(project, Waiting { threads, turns }): (&PathBuf, &Waiting)| {
        let what = format!(
            "{} of {} in {} without bodies: an Observer waits for them",
            number(*turns, "completed turn"),
            number(*threads, "thread"),
            project.display()
        );
        let advice = match project.is_dir() {
            true => format!("throughline capture --project {}", quoted(project)),
            // It is gone, but a project around it may be read.
            false => "throughline capture --all".to_owned(),
        };
        Finding::problem(Check::Rollouts, what, advice).about(project).counting(*threads)
    };
    some_of(waiting.iter().map(finding).collect(), |left| {
        let what = format!("{left} more projects have threads without bodies");
        Finding::problem(Check::Rollouts, what, "throughline capture --all")
    })
}

fn left_out(threads: &[Thread]) -> Option<Finding> {
    let what = format!("{} were not compared with the database", number(threads.len(), "older thread"));
    let advice = Some("throughline capture --all stores what may be missing".to_owned());
    let note = Finding { advice, ..Finding::note(Check::Rollouts, what).counting(threads.len()) };
    (!threads.is_empty()).then_some(note)
}
