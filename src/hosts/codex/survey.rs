//! Every rollout, those that cannot be read too: for those who ask whether all is well.
//!
//! A read fails at the first file that it cannot read, since that could be the one that matters. This goes on, and tells
//! which ones they are. Nothing is remembered.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rayon::prelude::*;
use throughline_parsers::codex::{Meta, Uuid};

use super::super::Candidate;
use super::threads::{Failure, File, Line, session};
use crate::paths::Resolved;
use crate::scan::checkpoint::Reader;
use crate::scan::file::{Mapping, Rollout};
use crate::scan::folders::{self, Listed};
use crate::scan::tree::{Identity, Known};

/// What there is below a sessions root.
#[derive(Debug, Default)]
pub struct Survey {
    /// How many rollouts there are.
    pub rollouts: usize,
    /// The files and folders that cannot be read, and why.
    pub unreadable: Vec<(PathBuf, io::Error)>,
    /// The threads of which a file says that a person began it, those first that were written to last.
    pub threads: Vec<Thread>,
}

/// A thread that may be a project's.
#[derive(Debug)]
pub struct Thread {
    id: Uuid,
    files: Vec<File>,
    /// When one of its files was written to last.
    written: SystemTime,
}

/// What the files of a thread come to.
#[derive(Debug)]
pub struct Read {
    /// Where the thread is at work.
    pub project: Resolved,
    /// Its chain.
    pub candidate: Candidate,
}

impl Survey {
    /// Looks at the first row of every rollout below a root.
    pub fn look(root: &Path) -> Self {
        let mut survey = Self::default();
        let mut to_list = vec![root.to_path_buf()];
        let mut threads: HashMap<Uuid, Vec<File>> = HashMap::new();
        while let Some(folder) = to_list.pop() {
            let inside = match folders::list(&folder) {
                Ok(inside) => inside,
                Err(error) => {
                    survey.unreadable.push((folder, error));
                    continue;
                }
            };
            to_list.extend(inside.folders);
            survey.rollouts += inside.rollouts.len();
            let looked = inside.rollouts.into_par_iter().map(|listed| (listed.file(), file(listed)));
            for (path, file) in looked.collect::<Vec<_>>() {
                match file {
                    Ok(Some(file)) => threads.entry(file.thread()).or_default().push(file),
                    // It is gone, or no thread's, or not begun yet.
                    Ok(None) => {}
                    Err(error) => survey.unreadable.push((path, error)),
                }
            }
        }
        let is_wanted = |file: &File| file.meta.root && file.meta.cwd.is_some();
        threads.retain(|_, files| files.iter().any(is_wanted));
        survey.threads.extend(threads.into_iter().map(|(id, files)| Thread::new(id, files)));
        survey.threads.sort_unstable_by_key(|thread| (std::cmp::Reverse(thread.written), thread.id));
        survey
    }
}

impl Thread {
    fn new(id: Uuid, files: Vec<File>) -> Self {
        let written = files.iter().filter_map(|file| fs::metadata(file.listed.file()).ok()?.modified().ok()).max();
        Self { id, files, written: written.unwrap_or(SystemTime::UNIX_EPOCH) }
    }

    /// The size of its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.stamps.size).sum()
    }

    /// Its files.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|file| file.listed.file())
    }

    /// Reads it; `None` when it has no completed pair, is a sub-agent's or no project's, or changes just now.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&self, mapping: Mapping) -> io::Result<Option<Read>> {
        match self.read_now(Reader::new(None, mapping)) {
            Err(Failure::Io(error)) => Err(error),
            Err(Failure::Changed) => Ok(None),
            Ok(read) => Ok(read),
        }
    }

    fn read_now(&self, reader: Reader<'_>) -> Result<Option<Read>, Failure> {
        let Some(line) = Line::current(self.id, &self.files, reader)? else { return Ok(None) };
        let Meta { root: true, cwd: Some(cwd), .. } = &line.file().meta else { return Ok(None) };
        let Some(project) = Resolved::new(Path::new(cwd)) else { return Ok(None) };
        let chain = line.read(reader, false, 0)?.chain;
        Ok(Candidate::whole(chain, 1, session(self.id)).map(|candidate| Read { project, candidate }))
    }
}

/// A rollout as it says it is; `None` when it does not say, or is gone.
fn file(listed: Listed) -> io::Result<Option<File>> {
    let Some(rollout) = Rollout::open(&listed)? else { return Ok(None) };
    let known = Known::read(&rollout, listed, Reader::new(None, Mapping::Never).now)?;
    Ok(match known.identity {
        Identity::Thread(meta) => Some(File { listed: known.listed, meta, stamps: known.stamps, taken: known.taken }),
        Identity::Unknown | Identity::None => None,
    })
}
