//! The chain that an answer is about, and how one goes on to its end from what an Observer has: what `observer-read` and
//! `observer-wait` have in common.

use std::ops::Range;

use throughline_parsers::text::Digest;

use super::Project;
use super::cursor::{Cursor, Position};
use crate::chain::{self, End, Entry, Host};
use crate::hosts::{Candidate, Current, Need};

/// The most turns of one answer.
pub const MOST_TURNS: usize = 100;

/// Two cursors as they were given: what the Observer has, and what the series ends with.
#[derive(Clone, Copy, Debug)]
pub struct Cursors<'r> {
    /// What the Observer has already.
    pub after: Option<&'r str>,
    /// What the series ends with; without it, the current end of the current thread.
    pub through: Option<&'r str>,
}

/// Why there is no chain to tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A cursor does not hold any more.
    Resync,
    /// Threads of both hosts completed last at the same time.
    Ambiguous,
}

/// How the chain stands to what the Observer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It is the same thread's, or the project had none.
    Same,
    /// It is another thread's of the same host.
    OtherThread,
    /// It is a thread's of the other host.
    OtherHost,
}

/// The places that the cursors of a request name.
pub struct Asked {
    after: Option<Position>,
    through: Option<Position>,
    has_after: bool,
    has_through: bool,
}

impl Asked {
    /// The places that these cursors name; those of another project, and what is no cursor, name none.
    pub fn of(project: &Project, cursors: Cursors<'_>) -> Self {
        let position = |token: Option<&str>| match Cursor::read(token?, project.digest)? {
            Cursor::At(position) => Some(position),
            Cursor::Empty => None,
        };
        let (after, through) = (position(cursors.after), position(cursors.through));
        let [has_after, has_through] = [cursors.after, cursors.through].map(|cursor| cursor.is_some());
        Self { after, through, has_after, has_through }
    }

    /// What is asked of a thread of Codex: of those that a cursor names, and of the current one, more than where the chain
    /// ends is needed for entries, and for a digest in front of the end.
    pub fn needs(&self, thread: Digest, end: &End, current: bool) -> Need {
        let named = |position: Option<Position>| position.filter(|position| position.is_of(Host::Codex, thread));
        let is_at_end = |position: Position| position.length == end.length;
        let (after, through) = (named(self.after), named(self.through));
        let nothing_new = after.is_some_and(is_at_end) && through.is_none_or(is_at_end);
        let is_read = through.is_some() || (current && !self.has_through);
        if (is_read && !nothing_new) || after.is_some_and(|after| !is_at_end(after)) {
            let since = match after {
                Some(after) => after.length,
                // A switch is told from the start.
                None if self.has_after => 0,
                None => through.map_or(end.length, |through| through.length).saturating_sub(MOST_TURNS),
            };
            Need::Chain { since: through.map_or(since, |through| through.length.min(since)) }
        } else if current || after.is_some() || through.is_some() {
            Need::End
        } else {
            Need::Nothing
        }
    }
}

/// A chain up to a cursor.
pub struct Through<'c> {
    /// `None` where the project has no completed pair.
    pub candidate: Option<&'c Candidate>,
    /// How many entries it has.
    pub length: usize,
    /// The cursor.
    pub token: String,
}

impl<'c> Through<'c> {
    /// The chain up to the given cursor, else the current thread's whole chain.
    pub fn choose(project: &Project, candidates: &'c [Candidate], token: Option<&str>) -> Result<Self, Broken> {
        let Some(token) = token else {
            let (cursor, candidate) = match Current::of(candidates) {
                Current::Ambiguous => return Err(Broken::Ambiguous),
                Current::None => (Cursor::Empty, None),
                Current::Thread(candidate) => (Cursor::end_of(candidate), Some(candidate)),
            };
            let length = candidate.map_or(0, |candidate| candidate.end.length);
            return Ok(Self { candidate, length, token: cursor.write(project.digest) });
        };
        let cursor = Cursor::read(token, project.digest).ok_or(Broken::Resync)?;
        let (candidate, length) = match cursor {
            Cursor::Empty => (None, 0),
            Cursor::At(at) => (Some(holding(at, candidates).ok_or(Broken::Resync)?), at.length),
        };
        Ok(Self { candidate, length, token: token.to_owned() })
    }

    /// How one goes on to here from a cursor, and how many entries are already known; an error where one cannot.
    pub fn follow(
        &self,
        project: &Project,
        candidates: &[Candidate],
        after: &str,
    ) -> Result<(Relation, usize), Broken> {
        let after = match Cursor::read(after, project.digest).ok_or(Broken::Resync)? {
            Cursor::Empty => return Ok((Relation::Same, 0)),
            Cursor::At(after) => after,
        };
        // Its own thread is looked at before any switch is told: it may be gone, or rolled back.
        holding(after, candidates).ok_or(Broken::Resync)?;
        let candidate = self.candidate.ok_or(Broken::Resync)?;
        if after.host != candidate.host {
            Ok((Relation::OtherHost, 0))
        } else if after.thread != candidate.thread {
            Ok((Relation::OtherThread, 0))
        } else if after.length <= self.length {
            Ok((Relation::Same, after.length))
        } else {
            Err(Broken::Resync)
        }
    }

    /// Some of its entries.
    pub fn entries(&self, range: Range<usize>) -> Vec<Entry> {
        self.candidate.map_or_else(Vec::new, |candidate| candidate.entries(range))
    }

    /// The digest over some of its entries.
    pub fn digest_of(&self, range: Range<usize>) -> Digest {
        let of = |candidate: &Candidate| chain::digest_of(candidate.host, candidate.thread, &candidate.entries(range));
        self.candidate.map_or_else(|| Digest::of(""), of)
    }
}

/// The thread whose history is still as the cursor describes it.
fn holding(at: Position, candidates: &[Candidate]) -> Option<&Candidate> {
    candidates.iter().find(|candidate| at.holds_in(candidate))
}
