//! Codex' threads, from the rollouts below the sessions root.
//!
//! Of every rollout the first row is read; only the files that the chains of the project's threads are made of are read
//! further. A thread can have several files (reverts, copies), so what a file's own first row says is not the last word:
//! the thread's current file decides.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use rayon::prelude::*;
use throughline_parsers::codex::{Completed, Meta, Role, Turn, Turns, Uuid};
use throughline_parsers::text::Digest;

use super::Candidate;
use crate::chain::{Chain, Entry, Host};
use crate::error::Error;
use crate::paths::Resolved;
use crate::scan::buffer::Buffer;
use crate::scan::file::{self, Mapping, Rollout};
use crate::scan::folders::{self, Folder, Listed};
use crate::scan::reading::Contents;
use crate::stores::Stores;

/// How often a store is read anew that changes in ways that logs do not: files replaced between two looks at them.
const TRIES: usize = 5;

/// The root threads of the project that have completed pairs.
///
/// # Errors
/// A folder cannot be listed or a rollout cannot be read.
pub fn candidates(stores: &Stores, project: &Resolved, mapping: Mapping) -> Result<Vec<Candidate>, Error> {
    let root = stores.sessions_root();
    consistently(|| read(&root, project, mapping))
}

/// Reads until what was read of one file fits what was read of it before.
fn consistently<T>(read: impl Fn() -> Result<T, Failure>) -> Result<T, Error> {
    for _ in 0..TRIES {
        match read() {
            Err(Failure::Changed) => {}
            Err(Failure::Io(error)) => return Err(Error::internal(error)),
            Ok(found) => return Ok(found),
        }
    }
    Err(Error::internal("the rollouts are replaced faster than they can be read"))
}

/// What capture stores of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    /// The thread.
    pub thread: Uuid,
    /// The working directory that its current file names; absolute.
    pub cwd: String,
    /// Its turns: the completed ones in the order of the chain, then the others; none without any text.
    pub turns: Vec<TurnTexts>,
}

/// The texts of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnTexts {
    /// Its ordinal among the numbered turns of the thread, those of its bases first; from 1.
    pub number: i64,
    /// The user's joined text.
    pub user: Option<String>,
    /// The assistant's joined text.
    pub assistant: Option<String>,
    /// When it completed, in milliseconds since the epoch; `None` while it has not.
    pub completed_at: Option<i64>,
}

/// The texts of a thread; `None` when there is no such thread, or when it is a sub-agent's, or names no absolute working
/// directory.
///
/// # Errors
/// A folder cannot be listed or a rollout cannot be read.
pub fn texts(stores: &Stores, thread: Uuid, mapping: Mapping) -> Result<Option<Texts>, Error> {
    consistently(|| {
        let files = identified(folders::rollouts(&stores.sessions_root())?)?;
        let files = Files { id: thread, files: files.iter().flatten().filter(|file| file.thread == thread).collect() };
        let Some(thread) = files.with_current(mapping)? else { return Ok(None) };
        thread.texts(mapping)
    })
}

enum Failure {
    /// A file is not what it was at the first look.
    Changed,
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn read(root: &Path, project: &Resolved, mapping: Mapping) -> Result<Vec<Candidate>, Failure> {
    let files = identified(folders::rollouts(root)?)?;
    let mut projects = Projects { project, known: HashMap::new() };
    let threads: Vec<_> = threads(&files, &mut projects)
        .into_iter()
        .filter_map(|thread| thread.with_current(mapping).transpose())
        .filter(|thread| thread.as_ref().map_or(true, |thread| projects.has_root(thread.current)))
        .collect::<Result<_, _>>()?;
    let chains = threads.par_iter().map_init(Buffer::default, |buffer, thread| thread.candidate(mapping, buffer));
    chains.filter_map(Result::transpose).collect()
}

/// A rollout that says what it is.
struct File {
    listed: Listed,
    meta: Meta,
    thread: Uuid,
}

impl File {
    fn rollout(&self) -> Uuid {
        self.listed.name.rollout
    }

    fn path(&self) -> &Path {
        &self.listed.path
    }

    /// Reads the file, up to `end`. Its identity has to be the one that it was chosen by, unless the end cuts it off.
    fn contents(
        &self,
        end: Option<u64>,
        turns: Turns,
        mapping: Mapping,
        buffer: &mut Buffer,
    ) -> Result<Contents, Failure> {
        let rollout = Rollout::open(&self.listed)?.ok_or(Failure::Changed)?;
        let contents = rollout.contents(end, turns, mapping, buffer)?;
        match &contents.meta {
            Some(meta) if *meta != self.meta => Err(Failure::Changed),
            None if end.is_none() => Err(Failure::Changed),
            _ => Ok(contents),
        }
    }
}

/// The files that have an identity, folder by folder.
fn identified(folders: Vec<Folder>) -> io::Result<Vec<Vec<File>>> {
    let file = |(listed, meta): (Listed, Meta)| {
        let thread = meta.thread().unwrap_or(listed.name.thread);
        File { listed, meta, thread }
    };
    let identify = |folder| Ok(file::identities(folder)?.into_iter().map(file).collect());
    folders.into_par_iter().map(identify).collect()
}

/// The files of one thread.
struct Files<'f> {
    id: Uuid,
    files: Vec<&'f File>,
}

/// The threads that can be the project's: one of their files says so.
fn threads<'f>(files: &'f [Vec<File>], projects: &mut Projects<'_>) -> Vec<Files<'f>> {
    let files = || files.iter().flatten();
    let mut threads: HashMap<Uuid, Vec<&File>> =
        files().filter(|file| projects.has_root(file)).map(|file| (file.thread, Vec::new())).collect();
    for file in files() {
        if let Some(of_thread) = threads.get_mut(&file.thread) {
            of_thread.push(file);
        }
    }
    threads.into_iter().map(|(id, files)| Files { id, files }).collect()
}

impl<'f> Files<'f> {
    /// Chooses the current file: one that no other names as its base; of these the greatest rollout id, then the latest
    /// completion, then the path.
    fn with_current(self, mapping: Mapping) -> Result<Option<Thread<'f>>, Failure> {
        let bases: Vec<&Path> = self.files.iter().filter_map(|file| self.base_of(file, &[])).map(File::path).collect();
        let mut rest: Vec<&File> = self.files.iter().copied().filter(|file| !bases.contains(&file.path())).collect();
        if rest.is_empty() {
            rest.clone_from(&self.files);
        }
        let Some(greatest) = rest.iter().map(|file| file.rollout()).max() else { return Ok(None) };
        rest.retain(|file| file.rollout() == greatest);
        let mut best: Option<(i64, &File)> = None;
        for file in &rest {
            let thread = Thread { current: file, id: self.id, files: self.chain_of(file) };
            // One file needs no reading to be the latest.
            let latest = if rest.len() == 1 { 0 } else { thread.latest(mapping)? };
            if best.is_none_or(|(other, than)| (latest, file.path()) > (other, than.path())) {
                best = Some((latest, file));
            }
        }
        Ok(best.map(|(_, current)| Thread { current, id: self.id, files: self.chain_of(current) }))
    }

    /// The file of this thread that `file` continues, if it is none of `seen`.
    fn base_of(&self, file: &File, seen: &[&Path]) -> Option<&'f File> {
        let base = file.meta.base.as_ref()?;
        let fits = |other: &&&'f File| {
            other.rollout() == base.rollout && other.path() != file.path() && !seen.contains(&other.path())
        };
        self.files.iter().filter(fits).copied().max_by_key(|other| other.path())
    }

    /// The files that a chain with this current file is made of, the current one first, each with where it is cut.
    fn chain_of(&self, current: &'f File) -> Vec<(&'f File, Option<u64>)> {
        let mut files = vec![(current, None)];
        let (mut file, mut seen) = (current, vec![current.path()]);
        while let (Some(base), Some(cut)) = (self.base_of(file, &seen), file.meta.base.as_ref()) {
            files.push((base, Some(cut.end)));
            seen.push(base.path());
            file = base;
        }
        files
    }
}

/// A thread with its current file.
struct Thread<'f> {
    current: &'f File,
    id: Uuid,
    /// The current file and behind it its bases, each read up to the given offset.
    files: Vec<(&'f File, Option<u64>)>,
}

impl Thread<'_> {
    /// The latest of all completions; where a clock went back it is not the last one.
    fn latest(&self, mapping: Mapping) -> Result<i64, Failure> {
        let candidate = self.candidate(mapping, &mut Buffer::default())?;
        let times = candidate.iter().flat_map(|candidate| candidate.chain.entries()).map(|entry| entry.completed_at);
        Ok(times.max().unwrap_or(-1))
    }

    /// The thread's chain, if it has a pair: that of its bases, then that of its current file.
    fn candidate(&self, mapping: Mapping, buffer: &mut Buffer) -> Result<Option<Candidate>, Failure> {
        let session = format!("codex:{}", self.id);
        let origin = Digest::of_body(&session);
        let mut chain = Chain::new(Host::Codex, Digest::of(&self.id.to_string()));
        for Part { file, turns, copied } in self.parts(&Turns::default(), mapping, buffer)? {
            let completed = turns.completed_in(self.id, copied);
            completed.iter().filter_map(|turn| entry(file.path(), origin, turn)).for_each(|entry| chain.push(entry));
        }
        Ok((!chain.entries().is_empty()).then_some(Candidate { chain, floor: 1, session }))
    }

    fn texts(&self, mapping: Mapping) -> Result<Option<Texts>, Failure> {
        let Meta { root: true, cwd: Some(cwd), .. } = &self.current.meta else { return Ok(None) };
        if !Path::new(cwd).is_absolute() {
            return Ok(None);
        }
        let (mut completed, mut others, mut numbered) = (Vec::new(), Vec::new(), 1..);
        let parts = self.parts(&Turns::keeping_texts(), mapping, &mut Buffer::default())?;
        for Part { turns, copied, .. } in &parts {
            let (mut ended, open): (Vec<_>, Vec<_>) = turns
                .own(self.id, *copied)
                .filter(|turn| turn.number.is_some())
                .zip(numbered.by_ref())
                .partition(|(turn, _)| turn.completed().is_some());
            ended.sort_by_key(|(turn, _)| turn.completed().map(|completed| completed.order));
            completed.extend(ended);
            others.extend(open);
        }
        let with_text = |(turn, number): (&Turn, i64)| {
            let [user, assistant] = [Role::User, Role::Assistant].map(|role| turn.text(role));
            let completed_at = turn.completed().map(|completed| completed.at);
            (user.is_some() || assistant.is_some()).then_some(TurnTexts { number, user, assistant, completed_at })
        };
        let turns = completed.into_iter().chain(others).filter_map(with_text).collect();
        Ok(Some(Texts { thread: self.id, cwd: cwd.clone(), turns }))
    }

    /// What the files of the chain hold, the first base first.
    fn parts(&self, turns: &Turns, mapping: Mapping, buffer: &mut Buffer) -> Result<Vec<Part<'_>>, Failure> {
        let mut parts = Vec::new();
        for (file, end) in &self.files {
            let Contents { meta, copied, turns } = file.contents(*end, turns.clone(), mapping, buffer)?;
            // Cut off in its first row it says neither what it is nor what it continues.
            let Some(meta) = meta else { break };
            parts.push(Part { file, turns, copied: copied || meta.forked });
        }
        parts.reverse();
        Ok(parts)
    }
}

/// One file of a chain.
struct Part<'f> {
    file: &'f File,
    turns: Turns,
    /// Turns older than the thread are copies of another one's.
    copied: bool,
}

/// The chain entry of a completed turn, if it is a pair.
fn entry(path: &Path, origin: Digest, turn: &Completed) -> Option<Entry> {
    let source = Digest::of(&format!("{}\0{}", path.to_string_lossy(), turn.number));
    Some(Entry { origin, user: turn.user?, assistant: turn.assistant?, completed_at: turn.at, source })
}

/// Which working directories are the project's, each resolved once.
struct Projects<'p> {
    project: &'p Resolved,
    known: HashMap<String, bool>,
}

impl Projects<'_> {
    /// Whether the file is of a root thread in the project.
    fn has_root(&mut self, file: &File) -> bool {
        file.meta.root && file.meta.cwd.as_deref().is_some_and(|cwd| self.has(cwd))
    }

    fn has(&mut self, cwd: &str) -> bool {
        if let Some(known) = self.known.get(cwd) {
            return *known;
        }
        let inside = Resolved::new(Path::new(cwd)).is_some_and(|cwd| cwd.is_inside(self.project));
        self.known.insert(cwd.to_owned(), inside);
        inside
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    const THREAD: &str = "019c0000-0000-7000-8000-000000000001";

    /// Writes a rollout of `project` with a turn that completes in each of these seconds.
    fn write(folder: &Path, project: &Path, seconds: &[u32]) {
        let row = |kind: &str, payload: String, second: u32| {
            let time = format!("2026-07-01T00:00:{second:02}.000Z");
            format!("{{\"timestamp\":\"{time}\",\"type\":\"{kind}\",\"payload\":{payload}}}\n")
        };
        let mut text = row("session_meta", format!("{{\"id\":\"{THREAD}\",\"cwd\":{:?}}}", project), 0);
        for second in seconds {
            for event in [
                "task_started\"",
                "user_message\",\"message\":\"a\"",
                "agent_message\",\"message\":\"b\"",
                "task_complete\"",
            ] {
                text += &row("event_msg", format!("{{\"type\":\"{event}}}"), *second);
            }
        }
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(format!("rollout-2026-07-01T00-00-00-{THREAD}.jsonl")), text).unwrap();
    }

    #[test]
    fn of_copies_the_one_with_the_latest_completion_is_current() {
        let home = tempfile::tempdir().unwrap();
        let stores = Stores::below(home.path());
        let sessions = stores.sessions_root();
        write(&sessions.join("a"), home.path(), &[10, 5]);
        write(&sessions.join("b"), home.path(), &[7]);
        let project = Resolved::new(home.path()).unwrap();
        let found = candidates(&stores, &project, Mapping::Never).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].chain.entries().len(), 2);
    }
}
