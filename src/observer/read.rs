//! `observer-read`: the completed turns of a project since a cursor, with their bodies.

use std::path::Path;

use serde::Serialize;
use throughline_parsers::text::{Digest, tail};

use super::Project;
pub use super::feed::MOST_TURNS;
use super::feed::{Asked, Broken, Cursors, Relation, Through};
use super::page::{Page, Series};
use super::token;
use crate::chain::{End, Entry, Host};
use crate::db::projection::{self, Pair};
use crate::error::{Error, Kind};
use crate::hosts::{self, Candidate};
use crate::scan::file::Mapping;
use crate::stores::Stores;

const SCHEMA: &str = "throughline.observer_read.v1";
/// A body is cut to its last so many UTF-16 units.
const BODY_UNITS: usize = 1200;
/// The bodies of a page together to so many.
const PAGE_UNITS: usize = 4000;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// The project's directory.
    pub project: &'r Path,
    /// What the Observer has already.
    pub after: Option<&'r str>,
    /// What the series ends with; without it, the current end of the current thread.
    pub through: Option<&'r str>,
    /// The page of the series; it needs both cursors.
    pub page: Option<&'r str>,
    /// The most turns of one answer, 1 to [`MOST_TURNS`].
    pub limit: usize,
}

impl<'r> Request<'r> {
    /// The newest ten turns of a project.
    pub fn snapshot(project: &'r Path) -> Self {
        Self { project, after: None, through: None, page: None, limit: 10 }
    }
}

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The newest turns, without a cursor to start from.
    Snapshot,
    /// The turns behind the after cursor, in the same thread.
    Delta,
    /// Another thread of the same host is current: its turns from the start.
    ThreadSwitched,
    /// A thread of the other host is current: its turns from the start.
    HostSwitched,
    /// A cursor does not hold any more.
    ResyncRequired,
    /// Threads of both hosts completed last at the same time.
    AmbiguousParent,
    /// The turns have completed, but not all their bodies are in the database yet.
    ProjectionPending,
}

/// The answer, as it is written.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    schema: &'static str,
    /// What this answer is.
    pub status: Status,
    /// The host of the thread that the turns are of.
    pub host: Option<Host>,
    #[serde(serialize_with = "hex_or_null")]
    /// SHA-256 of the id of that thread.
    pub thread_sha256: Option<Digest>,
    /// The cursor that was asked with.
    #[serde(rename = "afterCursor")]
    pub after_cursor: Option<String>,
    /// The cursor to ask with next, once all pages are read.
    #[serde(rename = "throughCursor")]
    pub through_cursor: Option<String>,
    /// The turns of this page, in the order in which they completed.
    pub turns: Vec<Turn>,
    /// There are older turns that are not in this series.
    #[serde(rename = "historyTruncated")]
    pub history_truncated: bool,
    /// Where this page stands in its series.
    pub page: PageState,
}

/// Whether the series goes on.
#[derive(Clone, Debug, Serialize)]
pub struct PageState {
    /// This is the last page.
    pub complete: bool,
    /// The token of the next one.
    #[serde(rename = "nextToken")]
    pub next_token: Option<String>,
}

/// A completed turn with its bodies.
#[derive(Clone, Debug, Serialize)]
pub struct Turn {
    host: Host,
    #[serde(serialize_with = "token::hex")]
    thread_sha256: Digest,
    #[serde(serialize_with = "token::hex")]
    origin_sha256: Digest,
    #[serde(serialize_with = "token::hex")]
    user_sha256: Digest,
    #[serde(serialize_with = "token::hex")]
    assistant_sha256: Digest,
    /// When it completed, in milliseconds since the epoch.
    pub completed_at: i64,
    #[serde(serialize_with = "token::hex")]
    source_sha256: Digest,
    /// The end of the user's text.
    pub user: String,
    /// The end of the assistant's text.
    pub assistant: String,
    /// One of the two was cut.
    pub truncated: bool,
}

fn hex_or_null<S: serde::Serializer>(digest: &Option<Digest>, serializer: S) -> Result<S::Ok, S::Error> {
    match digest {
        Some(digest) => token::hex(digest, serializer),
        None => serializer.serialize_none(),
    }
}

/// Answers a request from the stores.
///
/// # Errors
/// [`Kind::Input`] when the project is no absolute, existing directory, the limit is none, or the page token is not one of
/// this series; the kinds of the database when bodies are needed and it fails; [`Kind::Internal`] when a store cannot be
/// read. Nothing is half answered.
pub fn read(stores: &Stores, request: &Request<'_>, mapping: Mapping) -> Result<Answer, Error> {
    let answer = answer(stores, request, mapping);
    stores.finish();
    answer
}

fn answer(stores: &Stores, request: &Request<'_>, mapping: Mapping) -> Result<Answer, Error> {
    if !(1..=MOST_TURNS).contains(&request.limit) {
        return Err(Kind::Input.into());
    }
    let project = Project::open(request.project)?;
    let asked = Asked::of(&project, request.cursors());
    let needs = |thread, end: &End, current| asked.needs(thread, end, current);
    let candidates = hosts::candidates(stores, &project.resolved, mapping, &needs)?;
    let page = request.page_of(&project)?;
    let feed = match Feed::choose(&project, &candidates, request) {
        Ok(feed) => feed,
        Err(broken) => return Ok(Answer::without_turns(broken.into(), request)),
    };
    let selection = feed.select(&project, request, page)?;
    let Some(candidate) = feed.through.candidate.filter(|_| !selection.entries.is_empty()) else {
        return Ok(feed.answer(request, selection.next, Vec::new()));
    };
    let bodies = projection::pairs(&stores.database(), &candidate.session, &project.resolved, &selection.entries)?;
    Ok(match bodies {
        Some(bodies) => {
            let turns = turns(candidate, &selection.entries, bodies);
            feed.answer(request, selection.next, turns)
        }
        None => feed.answer(request, None, Vec::new()).pending(),
    })
}

impl From<Broken> for Status {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Resync => Self::ResyncRequired,
            Broken::Ambiguous => Self::AmbiguousParent,
        }
    }
}

impl Request<'_> {
    fn cursors(&self) -> Cursors<'_> {
        Cursors { after: self.after, through: self.through }
    }

    /// The page that is asked for; it has to be one of the series that the cursors name.
    fn page_of(&self, project: &Project) -> Result<Option<Page>, Error> {
        let Some(token) = self.page else { return Ok(None) };
        let (Some(after), Some(through)) = (self.after, self.through) else { return Err(Kind::Input.into()) };
        Ok(Some(Series::new(project.digest, after, through).read(token).ok_or(Kind::Input)?))
    }
}

/// The chain that an answer is about, and from where on.
struct Feed<'c> {
    status: Status,
    through: Through<'c>,
    /// How many entries of the chain are in front of the series.
    start: usize,
    history_truncated: bool,
}

impl<'c> Feed<'c> {
    /// Chooses the chain.
    fn choose(project: &Project, candidates: &'c [Candidate], request: &Request<'_>) -> Result<Self, Broken> {
        let through = Through::choose(project, candidates, request.through)?;
        let Some(after) = request.after else {
            let start = through.length.saturating_sub(request.limit);
            return Ok(Self { status: Status::Snapshot, through, start, history_truncated: start > 0 });
        };
        let (relation, start) = through.follow(project, candidates, after)?;
        let status = match relation {
            Relation::Same => Status::Delta,
            Relation::OtherThread => Status::ThreadSwitched,
            Relation::OtherHost => Status::HostSwitched,
        };
        // A cursor of this thread has at least one entry in front of it, so at 0 the chain is told from its start.
        let history_truncated = start == 0 && through.candidate.is_some_and(|candidate| candidate.floor > 1);
        Ok(Self { status, through, start, history_truncated })
    }

    /// The entries of the page, and what follows it.
    fn select(&self, project: &Project, request: &Request<'_>, page: Option<Page>) -> Result<Selection, Error> {
        let (start, length) = (self.start, self.through.length - self.start);
        let mut offset = 0;
        if let Some(page) = page {
            offset = page.offset();
            if offset > length || self.through.digest_of(start..start + offset) != page.prefix() {
                return Err(Kind::Input.into());
            }
        }
        let end = length.min(offset + request.limit);
        let next = request.after.filter(|_| end < length).map(|after| {
            let id = Series::new(project.digest, after, &self.through.token);
            id.page(end, self.through.digest_of(start..start + end)).write()
        });
        Ok(Selection { entries: self.through.entries(start + offset..start + end), next })
    }

    fn answer(self, request: &Request<'_>, next_token: Option<String>, turns: Vec<Turn>) -> Answer {
        let candidate = self.through.candidate;
        Answer {
            schema: SCHEMA,
            status: self.status,
            host: candidate.map(|candidate| candidate.host),
            thread_sha256: candidate.map(|candidate| candidate.thread),
            after_cursor: request.after.map(str::to_owned),
            through_cursor: Some(self.through.token),
            turns,
            history_truncated: self.history_truncated,
            page: PageState { complete: next_token.is_none(), next_token },
        }
    }
}

struct Selection {
    entries: Vec<Entry>,
    next: Option<String>,
}

impl Answer {
    fn without_turns(status: Status, request: &Request<'_>) -> Self {
        Self {
            schema: SCHEMA,
            status,
            host: None,
            thread_sha256: None,
            after_cursor: request.after.map(str::to_owned),
            through_cursor: None,
            turns: Vec::new(),
            history_truncated: false,
            page: PageState { complete: true, next_token: None },
        }
    }

    /// The same while bodies are missing.
    fn pending(self) -> Self {
        let page = PageState { complete: false, next_token: None };
        Self { status: Status::ProjectionPending, through_cursor: None, page, ..self }
    }
}

/// The records of a page: bodies cut to what a page may hold, spent in order, user first.
fn turns(candidate: &Candidate, entries: &[Entry], bodies: Vec<Pair>) -> Vec<Turn> {
    let mut left = PAGE_UNITS;
    let mut cut = |body: String| {
        let (end, units) = tail(&body, BODY_UNITS.min(left));
        left -= units;
        if end.len() == body.len() { (body, false) } else { (end.to_owned(), true) }
    };
    let turn = |(entry, pair): (&Entry, Pair)| {
        let ((user, user_cut), (assistant, assistant_cut)) = (cut(pair.user), cut(pair.assistant));
        Turn {
            host: candidate.host,
            thread_sha256: candidate.thread,
            origin_sha256: entry.origin,
            user_sha256: entry.user,
            assistant_sha256: entry.assistant,
            completed_at: entry.completed_at,
            source_sha256: entry.source,
            user,
            assistant,
            truncated: user_cut || assistant_cut,
        }
    };
    entries.iter().zip(bodies).map(turn).collect()
}
