//! The threads of both hosts. Behind a [`Candidate`] nobody asks which host it is.

pub mod claude;
pub mod codex;

use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;

use throughline_parsers::text::Digest;

use crate::chain::{Chain, End, Entry, Host};
use crate::error::Error;
use crate::paths::Resolved;
use crate::scan::file::Mapping;
use crate::stores::Stores;

/// A thread of the project with at least one completed pair.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The program that wrote it.
    pub host: Host,
    /// SHA-256 of the thread's id.
    pub thread: Digest,
    /// Where its chain ends.
    pub end: End,
    /// The position of the first retained pair in the thread's history, from 1.
    pub floor: i64,
    /// The session under which the database has the bodies.
    pub session: String,
    chain: Option<Box<Chain>>,
}

/// What is needed of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It can be left out.
    Nothing,
    /// Where its chain ends.
    End,
    /// The chain: the pairs behind `since` of them, and the digests up to so many pairs or more.
    Chain {
        /// As many pairs.
        since: usize,
    },
}

/// What is needed of a thread of Codex: asked with SHA-256 of its id, where its chain ends, and whether it is the one that
/// completed last.
pub type Needs<'n> = &'n dyn Fn(Digest, &End, bool) -> Need;

impl Candidate {
    /// A thread whose whole chain is known; `None` when it has no pair.
    pub fn whole(chain: Chain, floor: i64, session: String) -> Option<Self> {
        let (host, thread, end) = (chain.host, chain.thread, chain.end()?);
        Some(Self { host, thread, end, floor, session, chain: Some(Box::new(chain)) })
    }

    /// A thread of which no more is known than where its chain ends; all of its history is retained.
    pub fn ending(host: Host, thread: Digest, end: End, session: String) -> Self {
        Self { host, thread, end, floor: 1, session, chain: None }
    }

    /// What orders threads: the latest completion, then the digest of the thread.
    pub fn rank(&self) -> (i64, Digest) {
        self.end.rank(self.thread)
    }

    /// The digest of the first `length` pairs; `None` when there are not so many, or when the chain is not known so far.
    pub fn prefix(&self, length: usize) -> Option<Digest> {
        match &self.chain {
            _ if length == self.end.length => Some(self.end.digest),
            Some(chain) => chain.prefix(length),
            None => None,
        }
    }

    /// Some of the pairs, as far as they are known.
    pub fn entries(&self, range: Range<usize>) -> Vec<Entry> {
        self.chain.as_ref().map_or_else(Vec::new, |chain| chain.entries(range))
    }
}

/// The threads of the project, of both hosts, in no order: Claude's, and Codex' of which something is needed.
///
/// What is to be remembered may still be written when this is done, until [`Stores::finish`].
///
/// # Errors
/// A store is damaged or cannot be read.
pub fn candidates(
    stores: &Stores,
    project: &Resolved,
    mapping: Mapping,
    needs: Needs<'_>,
) -> Result<Vec<Candidate>, Error> {
    Ok(look(stores, project, mapping, needs)?.into_candidates())
}

/// The threads of the project, as one look found them.
#[derive(Debug)]
pub struct Looked {
    claude: Vec<Candidate>,
    codex: codex::Looked,
}

/// Looks at the threads of the project: at Claude's, and at Codex' of which something is needed.
///
/// # Errors
/// A store is damaged or cannot be read.
pub fn look(stores: &Stores, project: &Resolved, mapping: Mapping, needs: Needs<'_>) -> Result<Looked, Error> {
    let claude = OnceLock::new();
    let of_claude = || claude::candidates(stores, project);
    let meanwhile = || {
        claude.get_or_init(of_claude);
    };
    let codex = codex::look(stores, project, mapping, needs, &meanwhile);
    let claude = claude.into_inner().unwrap_or_else(of_claude)?;
    Ok(Looked { claude, codex: codex? })
}

impl Looked {
    /// The rollouts of Codex in which a change can change one of the threads, or make one: their paths, those of the plain
    /// files. No other one matters until it is replaced, or a new one comes.
    pub fn rollouts(&self) -> HashSet<PathBuf> {
        self.codex.rollouts()
    }

    /// The threads, in no order.
    pub fn into_candidates(self) -> Vec<Candidate> {
        let mut found = self.claude;
        found.extend(self.codex.into_candidates());
        found
    }
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
    /// Chooses by the latest completion; a tie inside one host goes to the greater digest.
    pub fn of(candidates: &'c [Candidate]) -> Self {
        let Some(best) = candidates.iter().max_by_key(|candidate| candidate.rank()) else { return Self::None };
        let rival = |other: &Candidate| other.end.completed_at == best.end.completed_at && other.host != best.host;
        if candidates.iter().any(rival) { Self::Ambiguous } else { Self::Thread(best) }
    }
}
