//! `throughline cache`: what is remembered between reads, shown, compared and removed.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use throughline::Stores;
use throughline::remembered::{self, Checked, Cleared, Entry, Report, State, Status, Subject, Verdict};

use super::size;

/// Show, compare or remove what is remembered between reads
///
/// A read remembers what it learned of the rollouts, so that the next one costs what has changed. No text is kept. With
/// THROUGHLINE_CACHE=off in its environment a read does without; these commands look at the cache all the same.
#[derive(Debug, Args)]
#[command(arg_required_else_help = false)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(StatusArguments),
    Verify(VerifyArguments),
    Clear(ClearArguments),
}

/// Show where the cache is and what it holds
///
/// JSON (throughline.cache_status.v1): directory, on, bytes, mostBytes; kinds: about, files, bytes; entries: file, about,
/// bytes, usedAt (milliseconds since the epoch), state (whole, damaged, temporary), and by what it is about: root; project
/// and root; rollout, cutAt, readTo and size; transcript, readTo and size; log and turns (what the database has of it).
/// audits: directory, files, bytes and mostBytes of what audits remember.
#[derive(Debug, Args)]
struct StatusArguments {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Compare everything that is remembered with a full read
///
/// Exit code 0 when nothing is different, 1 when something is: answers can be wrong until `throughline cache clear`. It is
/// 1 as well when a file cannot be read to compare it. What a read would not rely on, since files have changed, is
/// outdated, and no difference. Nothing is written.
///
/// JSON (throughline.cache_verify.v1): directory; equal, outdated, damaged, unreadable, different (numbers of files);
/// files: file, verdict (one of these words), differing (paths), and what it is about, as in `cache status`.
#[derive(Debug, Args)]
struct VerifyArguments {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Remove the cache
///
/// Only files of its own are removed, those of audits too, and then the directory, if nothing else is in it. Nothing is
/// lost: the next read takes longer.
#[derive(Debug, Args)]
struct ClearArguments {}

/// Runs one of the three.
pub fn run(arguments: &Arguments) -> ExitCode {
    let Some(stores) = Stores::from_env() else {
        super::complain("throughline: there is no home directory");
        return ExitCode::FAILURE;
    };
    match &arguments.command {
        Command::Status(StatusArguments { json }) => {
            let status = remembered::status(&stores);
            super::print(&if *json { super::line(&status) } else { of_status(&status) })
        }
        Command::Verify(VerifyArguments { json }) => {
            let report = remembered::verify(&stores);
            let printed = super::print(&if *json { super::line(&report) } else { of_report(&report) });
            if report.is_sound() { printed } else { ExitCode::FAILURE }
        }
        Command::Clear(ClearArguments {}) => match remembered::clear(&stores) {
            Ok(cleared) => super::print(&of_cleared(&cleared)),
            Err(error) => {
                super::complain(&format!("throughline: the cache could not be removed: {error}"));
                ExitCode::FAILURE
            }
        },
    }
}

fn of_status(status: &Status) -> String {
    let Status { directory, on, bytes, most_bytes, kinds, entries, audits, .. } = status;
    let off = if *on { "" } else { ", which THROUGHLINE_CACHE=off keeps reads from using" };
    let mut out = format!("The cache is {}{off}.\n", directory.display());
    let all = format!("{} of at most {} in {}", size(*bytes), size(*most_bytes), files(entries.len()));
    let kinds = kinds.map(|kind| format!("{} {}, {}", kind.files, kind.about, size(kind.bytes)));
    // Writing into a string does not fail.
    let _written = writeln!(out, "{all}: {}.", kinds.join("; "));
    if !entries.is_empty() {
        let _written = writeln!(out, "\n{:>12}  {:>10}  {:7}  what", "last used", "size", "about");
    }
    for entry in entries {
        let Entry { about, bytes, used_at, .. } = entry;
        let _written =
            writeln!(out, "{:>12}  {:>10}  {about:10}  {}", super::age(*used_at), size(*bytes), of_entry(entry));
    }
    if audits.files > 0 {
        let of_audits =
            format!("{} of at most {} in {}", size(audits.bytes), size(audits.most_bytes), files(audits.files));
        let _written = writeln!(out, "\nWhat audits remember is in {}: {of_audits}.", audits.directory.display());
    }
    out
}

fn of_entry(entry: &Entry) -> String {
    match (&entry.subject, entry.state) {
        (_, State::Temporary) => format!("{} (being written, or left behind)", entry.file),
        (Some(Subject::Rollout { read_to, size, .. } | Subject::Transcript { read_to, size, .. }), _) => {
            format!("{}, up to {read_to} of {size} bytes", of_subject(entry.subject.as_ref(), &entry.file))
        }
        (Some(subject), _) => of_subject(Some(subject), &entry.file),
        (None, _) => format!("{} (damaged, not used)", entry.file),
    }
}

/// What a file is about; its own name, where that cannot be told.
fn of_subject(subject: Option<&Subject>, file: &str) -> String {
    match subject {
        Some(Subject::Root { root }) => root.display().to_string(),
        Some(Subject::Project { project, root }) => format!("{} in {}", project.display(), root.display()),
        Some(Subject::Rollout { rollout, cut_at: None, .. }) => rollout.display().to_string(),
        Some(Subject::Rollout { rollout, cut_at: Some(end), .. }) => format!("{} cut at {end}", rollout.display()),
        Some(Subject::Transcript { transcript, .. }) => transcript.display().to_string(),
        Some(Subject::Captured { log, turns }) => format!("{turns} turns of {}", log.display()),
        None => file.to_owned(),
    }
}

fn of_report(report: &Report) -> String {
    let Report { directory, equal, outdated, damaged, unreadable, different, files: checked, .. } = report;
    let mut out = String::new();
    for file in checked.iter().filter(|file| file.verdict != Verdict::Equal) {
        out += &of_checked(file);
    }
    let counts = format!("{equal} equal, {outdated} outdated, {damaged} damaged");
    let unreadable = if *unreadable > 0 { format!(", {unreadable} unreadable") } else { String::new() };
    let count = files(checked.len());
    let _written = writeln!(out, "{count} in {}: {counts}{unreadable}, {different} different.", directory.display());
    if *different > 0 {
        out += "Answers can be wrong. To have everything read anew: throughline cache clear\n";
    }
    out
}

fn of_checked(checked: &Checked) -> String {
    let Checked { file, verdict, differing, subject } = checked;
    let subject = of_subject(subject.as_ref(), file);
    let mut out = match verdict {
        Verdict::Equal => format!("equal: {subject}\n"),
        Verdict::Outdated => format!("outdated, to be read anew: {subject}\n"),
        Verdict::Damaged => format!("damaged, not used: {subject}\n"),
        Verdict::Unreadable => format!("cannot be read: {subject}\n"),
        Verdict::Different => format!("DIFFERENT: {subject}\n  remembered in {file}\n"),
    };
    for path in differing {
        let _written = writeln!(out, "  not as remembered: {}", path.display());
    }
    out
}

fn of_cleared(cleared: &Cleared) -> String {
    let Cleared { directory, files: count, bytes, has_others, of_audits } = cleared;
    let directory = directory.display();
    let others = if *has_others { " What else is there was left." } else { "" };
    let of_audits = match of_audits {
        (0, _) => String::new(),
        (count, bytes) => format!("Removed {} of {} that audits remembered.\n", files(*count), size(*bytes)),
    };
    match count {
        0 => format!("There was nothing to remove in {directory}.{others}\n{of_audits}"),
        _ => format!("Removed {} of {} in {directory}.{others}\n{of_audits}", files(*count), size(*bytes)),
    }
}

fn files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}
