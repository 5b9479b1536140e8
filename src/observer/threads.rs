//! `observer-threads`: every thread of a project with a cursor to its end.

use std::cmp::Reverse;
use std::path::Path;

use serde::Serialize;
use throughline_parsers::text::Digest;

use super::Project;
use super::cursor::Cursor;
use super::token;
use crate::chain::Host;
use crate::error::Error;
use crate::hosts::{self, Need};
use crate::scan::file::Mapping;
use crate::stores::Stores;

/// The threads of a project, as they are written: the latest completion first.
#[derive(Clone, Debug, Serialize)]
pub struct Threads {
    schema: &'static str,
    /// The cursor of the project without pairs: a thread that is seen for the first time is read whole after it.
    #[serde(rename = "emptyCursor")]
    pub empty_cursor: String,
    /// One record per thread.
    pub threads: Vec<Thread>,
}

/// One thread.
#[derive(Clone, Debug, Serialize)]
pub struct Thread {
    /// The program that wrote it.
    pub host: Host,
    /// SHA-256 of its id.
    #[serde(serialize_with = "token::hex")]
    pub thread_sha256: Digest,
    /// When its last pair completed, in milliseconds since the epoch.
    pub last_completed_at: i64,
    /// The end of its chain.
    #[serde(rename = "throughCursor")]
    pub through_cursor: String,
}

/// Lists the threads of the project in this directory.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) when it is no absolute, existing directory;
/// [`Kind::Internal`](crate::error::Kind::Internal) when a store cannot be read.
pub fn threads(stores: &Stores, project: &Path, mapping: Mapping) -> Result<Threads, Error> {
    let project = Project::open(project)?;
    let candidates = hosts::candidates(stores, &project.resolved, mapping, &|_, _, _| Need::End);
    stores.finish();
    let mut candidates = candidates?;
    candidates.sort_by_key(|candidate| Reverse(candidate.rank()));
    let threads = candidates.iter().map(|candidate| Thread {
        host: candidate.host,
        thread_sha256: candidate.thread,
        last_completed_at: candidate.end.completed_at,
        through_cursor: Cursor::end_of(candidate).write(project.digest),
    });
    Ok(Threads {
        schema: "throughline.observer_threads.v1",
        empty_cursor: Cursor::Empty.write(project.digest),
        threads: threads.collect(),
    })
}
