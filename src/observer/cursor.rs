//! Cursors: "I have everything of this thread up to here".

use serde::Serialize;
use throughline_parsers::text::Digest;

use super::token::{self, Field};
use crate::chain::{End, Host};
use crate::hosts::Candidate;

const PREFIX: &str = "tlc1.";
const SCHEMA: &str = "throughline.observer_cursor.v1";

/// A place in the history of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// The project had no completed pair.
    Empty,
    /// Up to here in one thread.
    At(Position),
}

/// A place in a thread: behind `length` retained pairs, which come to `prefix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The thread's host.
    pub host: Host,
    /// SHA-256 of the thread's id.
    pub thread: Digest,
    /// The floor of the history when the cursor was made, from 1.
    pub floor: i64,
    /// How many pairs there were, from 1.
    pub length: usize,
    /// The digest over them.
    pub prefix: Digest,
}

#[derive(Serialize)]
struct Spelled {
    schema: &'static str,
    #[serde(serialize_with = "token::hex")]
    project_sha256: Digest,
    host: Option<Host>,
    thread_sha256: Option<String>,
    history_floor: i64,
    length: usize,
    #[serde(serialize_with = "token::hex")]
    prefix_sha256: Digest,
}

impl Cursor {
    /// The end of a thread's chain.
    pub fn end_of(candidate: &Candidate) -> Self {
        let Candidate { host, thread, floor, end: End { length, digest, .. }, .. } = *candidate;
        Self::At(Position { host, thread, floor, length, prefix: digest })
    }

    /// The cursor as a token of this project.
    pub fn write(self, project: Digest) -> String {
        let (host, thread, history_floor, length, prefix) = match self {
            Self::Empty => (None, None, 1, 0, Digest::of("")),
            Self::At(at) => (Some(at.host), Some(at.thread.to_string()), at.floor, at.length, at.prefix),
        };
        let spelled = Spelled {
            schema: SCHEMA,
            project_sha256: project,
            host,
            thread_sha256: thread,
            history_floor,
            length,
            prefix_sha256: prefix,
        };
        token::write(PREFIX, &spelled)
    }

    /// Reads a token of this project; `None` for anything that [`Cursor::write`] would not write for it.
    pub fn read(token: &str, project: Digest) -> Option<Self> {
        let keys = ["host", "thread_sha256", "history_floor", "length", "prefix_sha256"];
        let [host, thread, floor, length, prefix] = token::fields(PREFIX, token, keys)?;
        let cursor = match host {
            Field::Null => Self::Empty,
            host => Self::At(Position {
                host: [Host::Claude, Host::Codex].into_iter().find(|h| host == Field::Text(h.name().to_owned()))?,
                thread: thread.digest()?,
                floor: floor.whole().filter(|floor| *floor >= 1)?,
                length: length.whole().filter(|length| *length >= 1)?.try_into().ok()?,
                prefix: prefix.digest()?,
            }),
        };
        (cursor.write(project) == token).then_some(cursor)
    }
}

impl Position {
    /// Whether the thread still has the history that the cursor describes.
    pub fn holds_in(&self, candidate: &Candidate) -> bool {
        self.is_of(candidate.host, candidate.thread)
            && self.floor >= candidate.floor
            && candidate.prefix(self.length) == Some(self.prefix)
    }

    /// Whether the cursor is one of this thread.
    pub fn is_of(&self, host: Host, thread: Digest) -> bool {
        (self.host, self.thread) == (host, thread)
    }
}
