//! The threads of both hosts. Behind a [`Candidate`] nobody asks which host it is.

pub mod claude;
pub mod codex;

use throughline_parsers::text::Digest;

use crate::chain::{Chain, Entry};
use crate::error::Error;
use crate::paths::Resolved;
use crate::scan::file::Mapping;
use crate::stores::Stores;

/// A thread of the project with at least one completed pair.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its completed pairs; never empty.
    pub chain: Chain,
    /// The position of the first retained pair in the thread's history, from 1.
    pub floor: i64,
    /// The session under which the database has the bodies.
    pub session: String,
}

impl Candidate {
    /// When its last pair completed, in milliseconds since the epoch.
    pub fn latest(&self) -> i64 {
        self.last().map_or(-1, |entry| entry.completed_at)
    }

    /// What orders threads: the latest completion, then the digests of thread and source.
    pub fn rank(&self) -> (i64, Digest, Option<Digest>) {
        (self.latest(), self.chain.thread, self.last().map(|entry| entry.source))
    }

    fn last(&self) -> Option<&Entry> {
        self.chain.entries().last()
    }
}

/// All threads of the project, of both hosts, in no order.
///
/// # Errors
/// A store is damaged or cannot be read.
pub fn candidates(stores: &Stores, project: &Resolved, mapping: Mapping) -> Result<Vec<Candidate>, Error> {
    let mut found = claude::candidates(stores, project)?;
    found.extend(codex::candidates(stores, project, mapping)?);
    Ok(found)
}

/// The current parent among the threads of a project.
#[derive(Clone, Copy, Debug)]
pub enum Current<'c> {
    /// No thread has a completed pair.
    None,
    /// The thread with the latest completion.
    Thread(&'c Candidate),
    /// Threads of both hosts completed at the same latest moment.
    Ambiguous,
}

impl<'c> Current<'c> {
    /// Chooses by the latest completion; a tie inside one host goes to the greater digests.
    pub fn of(candidates: &'c [Candidate]) -> Self {
        let Some(best) = candidates.iter().max_by_key(|candidate| candidate.rank()) else { return Self::None };
        let rival = |other: &Candidate| other.latest() == best.latest() && other.chain.host != best.chain.host;
        if candidates.iter().any(rival) { Self::Ambiguous } else { Self::Thread(best) }
    }
}
