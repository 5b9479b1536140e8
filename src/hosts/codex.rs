//! Codex' threads, from the rollouts below the sessions root.
//!
//! Of every rollout the first row is read; only the files that the chains of the project's threads are made of are read
//! further. A thread can have several files (reverts, copies), so what a file's own first row says is not the last word:
//! the thread's current file decides.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use rayon::prelude::*;
use throughline_parsers::codex::{Completed, Meta, Uuid};
use throughline_parsers::text::Digest;

use super::Candidate;
use crate::chain::{Chain, Entry, Host};
use crate::error::Error;
use crate::paths::Resolved;
use crate::scan::file::{Contents, Mapping, Rollout};
use crate::scan::folders::{self, Listed};
use crate::stores::Stores;

/// How often a store is read anew that changes in ways that logs do not: files replaced between two looks at them.
const TRIES: usize = 5;

/// The root threads of the project that have completed pairs.
///
/// # Errors
/// A folder cannot be listed or a rollout cannot be read.
pub fn candidates(stores: &Stores, project: &Resolved, mapping: Mapping) -> Result<Vec<Candidate>, Error> {
    let root = stores.sessions_root();
    for _ in 0..TRIES {
        match read(&root, project, mapping) {
            Err(Failure::Changed) => {}
            Err(Failure::Io(error)) => return Err(Error::internal(error)),
            Ok(candidates) => return Ok(candidates),
        }
    }
    Err(Error::internal("the rollouts are replaced faster than they can be read"))
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
    let threads: Vec<_> = threads(&files)
        .into_iter()
        .filter_map(|thread| thread.with_current(mapping).transpose())
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .filter(|thread| thread.is_root_of(&mut projects))
        .collect();
    let chains = threads.par_iter().map_init(Vec::new, |buffer, thread| thread.candidate(mapping, buffer));
    chains.filter_map(Result::transpose).collect()
}

/// A rollout that says what it is.
struct File {
    listed: Listed,
    meta: Meta,
}

impl File {
    fn rollout(&self) -> Uuid {
        self.listed.name.rollout
    }

    fn path(&self) -> &Path {
        &self.listed.path
    }

    /// Reads the file, up to `end`. Its identity has to be the one that it was chosen by, unless the end cuts it off.
    fn contents(&self, end: Option<u64>, mapping: Mapping, buffer: &mut Vec<u8>) -> Result<Contents, Failure> {
        let rollout = Rollout::open(&self.listed)?.ok_or(Failure::Changed)?;
        let contents = rollout.contents(end, mapping, buffer)?;
        match &contents.meta {
            Some(meta) if *meta != self.meta => Err(Failure::Changed),
            None if end.is_none() => Err(Failure::Changed),
            _ => Ok(contents),
        }
    }
}

/// The files among the listed ones that have an identity.
fn identified(listed: Vec<Listed>) -> io::Result<Vec<File>> {
    let identify = |buffer: &mut Vec<u8>, listed: Listed| {
        let Some(rollout) = Rollout::open(&listed)? else { return Ok(None) };
        Ok(rollout.meta(buffer)?.map(|meta| File { listed, meta }))
    };
    listed.into_par_iter().map_init(Vec::new, identify).filter_map(Result::transpose).collect()
}

/// The files of one thread.
struct Files<'f> {
    id: Uuid,
    files: Vec<&'f File>,
}

fn threads(files: &[File]) -> Vec<Files<'_>> {
    let mut threads: HashMap<Uuid, Vec<&File>> = HashMap::new();
    for file in files {
        threads.entry(file.meta.thread().unwrap_or(file.listed.name.thread)).or_default().push(file);
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
            let thread = Thread { current: file, id: self.id, parts: self.parts_of(file) };
            // One file needs no reading to be the latest.
            let latest = if rest.len() == 1 { 0 } else { thread.latest(mapping)? };
            if best.is_none_or(|(other, than)| (latest, file.path()) > (other, than.path())) {
                best = Some((latest, file));
            }
        }
        Ok(best.map(|(_, current)| Thread { current, id: self.id, parts: self.parts_of(current) }))
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
    fn parts_of(&self, current: &'f File) -> Vec<(&'f File, Option<u64>)> {
        let mut parts = vec![(current, None)];
        let (mut file, mut seen) = (current, vec![current.path()]);
        while let (Some(base), Some(cut)) = (self.base_of(file, &seen), file.meta.base.as_ref()) {
            parts.push((base, Some(cut.end)));
            seen.push(base.path());
            file = base;
        }
        parts
    }
}

/// A thread with its current file.
struct Thread<'f> {
    current: &'f File,
    id: Uuid,
    /// The current file and behind it its bases, each read up to the given offset.
    parts: Vec<(&'f File, Option<u64>)>,
}

impl Thread<'_> {
    fn is_root_of(&self, projects: &mut Projects<'_>) -> bool {
        self.current.meta.root && self.current.meta.cwd.as_deref().is_some_and(|cwd| projects.has(cwd))
    }

    fn latest(&self, mapping: Mapping) -> Result<i64, Failure> {
        let candidate = self.candidate(mapping, &mut Vec::new())?;
        Ok(candidate.map_or(-1, |candidate| candidate.latest()))
    }

    /// The thread's chain, if it has a pair: that of its bases, then that of its current file.
    fn candidate(&self, mapping: Mapping, buffer: &mut Vec<u8>) -> Result<Option<Candidate>, Failure> {
        let mut parts = Vec::new();
        for (file, end) in &self.parts {
            let contents = file.contents(*end, mapping, buffer)?;
            let (identified, completed) = (contents.meta.is_some(), self.completed(contents));
            parts.push((file.path(), completed));
            if !identified {
                // Cut off in its first row it says neither what it is nor what it continues.
                break;
            }
        }
        let session = format!("codex:{}", self.id);
        let origin = Digest::of_body(&session);
        let mut chain = Chain::new(Host::Codex, Digest::of(&self.id.to_string()));
        for (path, completed) in parts.into_iter().rev() {
            completed.iter().filter_map(|turn| entry(path, origin, turn)).for_each(|entry| chain.push(entry));
        }
        Ok((!chain.entries().is_empty()).then_some(Candidate { chain, floor: 1, session }))
    }

    fn completed(&self, Contents { meta, copied, turns }: Contents) -> Vec<Completed> {
        match meta {
            Some(meta) => turns.completed_in(self.id, copied || meta.forked),
            None => Vec::new(),
        }
    }
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
    fn has(&mut self, cwd: &str) -> bool {
        if let Some(known) = self.known.get(cwd) {
            return *known;
        }
        let inside = Resolved::new(Path::new(cwd)).is_some_and(|cwd| cwd.is_inside(self.project));
        self.known.insert(cwd.to_owned(), inside);
        inside
    }
}
