//! The read side: the bodies of chain entries, returned only when every one of them is proven equal to what completed.
//!
//! The database may hold turns that never completed and lack turns that did, so nothing is taken from it but texts whose
//! digests stand in the chain.

use std::borrow::Cow;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};
use rustix::fs::Access;
use throughline_parsers::json::MAX_WHOLE;
use throughline_parsers::text::{Digest, body};

use super::{alone, schema};
use crate::chain::Entry;
use crate::error::{Error, Kind};
use crate::paths::Resolved;

/// The canonical bodies of one completed turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The user's text.
    pub user: String,
    /// The assistant's text.
    pub assistant: String,
}

/// The bodies of these chain entries of a session, all of them in order; `None` while one is missing. Other pairs may
/// stand between them.
///
/// # Errors
/// [`Kind::DbSchema`] for a version that is not read, [`Kind::DbProject`] when the session is another project's,
/// [`Kind::DbIo`] when the database cannot be read or stays locked.
pub fn pairs(path: &Path, session: &str, project: &Resolved, entries: &[Entry]) -> Result<Option<Vec<Pair>>, Error> {
    let found = look(path, |moment| match session_project(moment, session)? {
        None => Ok(Ok(None)),
        Some(path) if path.as_ref().is_some_and(|path| path.is_inside(project)) => {
            Ok(Ok(find(moment, session, entries)?))
        }
        Some(_) => Ok(Err(Kind::DbProject.into())),
    })?;
    found.unwrap_or(Ok(None))
}

/// Looks at the database as it is at one moment; `None` without one. It may be looked at twice, and then the second time
/// counts.
///
/// # Errors
/// [`Kind::DbSchema`] for a version that is not read, [`Kind::DbIo`] when the database cannot be read or stays locked.
pub fn look<T>(path: &Path, with: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<Option<T>, Error> {
    match std::fs::metadata(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(Error::new(Kind::DbIo, error)),
        // Opening a pipe would wait for somebody to write to it.
        Ok(found) if !found.is_file() => return Err(Kind::DbIo.into()),
        Ok(_) => {}
    }
    let read = |database: &mut Connection| {
        // One transaction, so that all is read of one moment.
        let moment = database.transaction()?;
        match schema::VERSIONS.contains(&schema::version(&moment)?) {
            true => with(&moment).map(Some),
            false => Ok(None),
        }
    };
    // The contract knows only readers that can make an index of the log.
    let is_writable = path.parent().is_some_and(|folder| rustix::fs::access(folder, Access::WRITE_OK).is_ok());
    let found = if is_writable { alone::read(path, read) } else { alone::read_among_others(path, read) };
    found
        .map_err(|error: rusqlite::Error| Error::new(Kind::DbIo, error))?
        .map(Some)
        .ok_or_else(|| Kind::DbSchema.into())
}

/// Calls `each` with the digests of every pair of a session: of its origin session, and of the texts of both sides.
///
/// # Errors
/// SQLite's.
pub fn for_each_pair(
    moment: &Connection,
    session: &str,
    mut each: impl FnMut(Digest, Digest, Digest),
) -> rusqlite::Result<()> {
    let mut statement = moment.prepare_cached(
        "SELECT id, origin_session_id, turn_number, role, text, created_at FROM bodies
         WHERE session_id = ?1 AND role IN ('user', 'assistant') ORDER BY created_at, id",
    )?;
    let mut rows = statement.query([session])?;
    let mut groups: HashMap<(String, i64), Group> = HashMap::new();
    while let Some(row) = rows.next()? {
        let Some(body) = Body::read(row)? else { continue };
        let group = groups
            .entry((body.origin.clone(), body.turn))
            .or_insert_with_key(|(origin, _)| Group { origin: origin.clone(), ..Group::default() });
        group.add(body);
        if let Some((_, Stored { origin, user, assistant })) = group.take_pair() {
            each(Digest::of_body(&origin), Digest::of_body(&user), Digest::of_body(&assistant));
        }
    }
    Ok(())
}

/// How many of the chain entries of a session, from the first one on, have their bodies; none while the session is another
/// project's.
///
/// # Errors
/// The database cannot be read.
pub(super) fn with_bodies(
    moment: &Connection,
    session: &str,
    project: &Resolved,
    entries: &[Entry],
) -> rusqlite::Result<usize> {
    match session_project(moment, session)? {
        Some(Some(path)) if path.is_inside(project) => Ok(find_since(moment, session, entries, i64::MIN)?.found.len()),
        _ => Ok(0),
    }
}

/// The project of the session, if there is such a session; the inner `None` is no path.
fn session_project(moment: &Connection, session: &str) -> rusqlite::Result<Option<Option<Resolved>>> {
    let path = |row: &Row<'_>| Ok(text_in(row, 0).and_then(|path| Resolved::new(Path::new(&*path))));
    moment.query_row("SELECT project_path FROM sessions WHERE session_id = ?", [session], path).optional()
}

/// Looks for the entries first where their bodies were most likely written, from the moment on when they completed, so
/// that a page of a long session does not cost the session; then among all bodies. Both is right: all that counts is that
/// the pairs are there, in this order.
fn find(moment: &Connection, session: &str, entries: &[Entry]) -> rusqlite::Result<Option<Vec<Pair>>> {
    let since = entries.iter().map(|entry| entry.completed_at).min().unwrap_or(0);
    let mut matching = find_since(moment, session, entries, since)?;
    if !matching.is_complete() {
        matching = find_since(moment, session, entries, i64::MIN)?;
    }
    Ok(matching.is_complete().then_some(matching.found))
}

/// Looks for the entries among the pairs that are not older than `since`, oldest first. A pair is as old as the younger of
/// its two rows.
fn find_since<'e>(
    moment: &Connection,
    session: &str,
    entries: &'e [Entry],
    since: i64,
) -> rusqlite::Result<Matching<'e>> {
    let mut statement = moment.prepare(
        "SELECT id, origin_session_id, turn_number, role, text, created_at FROM bodies
         WHERE session_id = ?1 AND created_at >= ?2 AND role IN ('user', 'assistant') ORDER BY created_at, id",
    )?;
    let mut rows = statement.query(params![session, since])?;
    let mut matching = Matching { entries, found: Vec::new() };
    let mut groups: HashMap<(String, i64), Group> = HashMap::new();
    // Whole pairs by their age. One is offered when no row of its age can follow any more.
    let mut waiting: BTreeMap<(i64, i64), Stored> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let Some(body) = Body::read(row)? else { continue };
        while let Some(oldest) = waiting.first_entry().filter(|oldest| oldest.key().0 < body.created_at) {
            matching.offer(oldest.remove());
        }
        if matching.is_complete() {
            break;
        }
        let group = match groups.entry((body.origin.clone(), body.turn)) {
            Occupied(group) => group.into_mut(),
            Vacant(vacant) => {
                let (origin, turn) = vacant.key().clone();
                let older = older_half(moment, session, &origin, turn, since)?;
                let group = vacant.insert(Group { origin, ..Group::default() });
                older.into_iter().for_each(|body| group.add(body));
                group
            }
        };
        group.add(body);
        if let Some((order, pair)) = group.take_pair() {
            waiting.insert(order, pair);
        }
    }
    waiting.into_values().for_each(|pair| matching.offer(pair));
    Ok(matching)
}

/// The row of this turn that is older than `since`, if that says anything.
fn older_half(
    moment: &Connection,
    session: &str,
    origin: &str,
    turn: i64,
    since: i64,
) -> rusqlite::Result<Option<Body>> {
    if since == i64::MIN {
        return Ok(None);
    }
    // The plus keeps SQLite from looking for it by its time among all that is older.
    let mut statement = moment.prepare_cached(
        "SELECT id, origin_session_id, turn_number, role, text, created_at FROM bodies
         WHERE session_id = ?1 AND origin_session_id = ?2 AND turn_number = ?3 AND role IN ('user', 'assistant')
         AND +created_at < ?4",
    )?;
    let mut rows = statement.query(params![session, origin, turn, since])?;
    rows.next()?.map_or(Ok(None), Body::read)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
}

/// A row that counts.
struct Body {
    id: i64,
    origin: String,
    turn: i64,
    role: Role,
    text: String,
    created_at: i64,
}

impl Body {
    /// Reads a row; `None` when a column is of another kind than it should be.
    fn read(row: &Row<'_>) -> rusqlite::Result<Option<Self>> {
        let (Some(turn), Some(created_at)) = (whole_in(row, 2), whole_in(row, 5)) else { return Ok(None) };
        let (Some(origin), Some(text)) = (text_in(row, 1), text_in(row, 4)) else { return Ok(None) };
        let role = if row.get_ref(3)? == ValueRef::Text(b"user") { Role::User } else { Role::Assistant };
        let (origin, text) = (origin.into_owned(), text.into_owned());
        Ok((!origin.is_empty()).then_some(Self { id: row.get(0)?, origin, turn, role, text, created_at }))
    }
}

/// The column if it is text; bytes that are no UTF-8 read as U+FFFD.
pub(super) fn text_in<'r>(row: &'r Row<'_>, column: usize) -> Option<Cow<'r, str>> {
    match row.get_ref(column) {
        Ok(ValueRef::Text(text)) => Some(String::from_utf8_lossy(text)),
        _ => None,
    }
}

/// The column if it is a whole number that JSON can hold.
fn whole_in(row: &Row<'_>, column: usize) -> Option<i64> {
    match row.get_ref(column) {
        Ok(ValueRef::Integer(n)) => Some(n).filter(|n| (-MAX_WHOLE..=MAX_WHOLE).contains(n)),
        _ => None,
    }
}

/// The rows of one turn so far.
#[derive(Default)]
struct Group {
    origin: String,
    order: (i64, i64),
    user: Option<String>,
    assistant: Option<String>,
    taken: bool,
}

impl Group {
    fn add(&mut self, body: Body) {
        self.order = (self.order.0.max(body.created_at), self.order.1.max(body.id));
        let side = if body.role == Role::User { &mut self.user } else { &mut self.assistant };
        side.get_or_insert(body.text);
    }

    /// The pair, as soon as it is whole, once.
    fn take_pair(&mut self) -> Option<((i64, i64), Stored)> {
        if self.taken || self.user.is_none() || self.assistant.is_none() {
            return None;
        }
        self.taken = true;
        let origin = std::mem::take(&mut self.origin);
        Some((self.order, Stored { origin, user: self.user.take()?, assistant: self.assistant.take()? }))
    }
}

/// A pair as it is stored.
struct Stored {
    origin: String,
    user: String,
    assistant: String,
}

/// The texts of the entries, each from a pair of its own, in order.
struct Matching<'e> {
    entries: &'e [Entry],
    found: Vec<Pair>,
}

/// The canonical body of a text if it has this digest.
fn equal(text: &str, digest: Digest) -> Option<Cow<'_, str>> {
    Some(body(text)).filter(|body| Digest::of(body) == digest)
}

impl Matching<'_> {
    fn is_complete(&self) -> bool {
        self.found.len() == self.entries.len()
    }

    /// Takes the pair if it is the next entry's.
    fn offer(&mut self, stored: Stored) {
        let Some(entry) = self.entries.get(self.found.len()) else { return };
        if let Some(user) = equal(&stored.user, entry.user)
            && let Some(assistant) = equal(&stored.assistant, entry.assistant)
            && Digest::of_body(&stored.origin) == entry.origin
        {
            self.found.push(Pair { user: user.into_owned(), assistant: assistant.into_owned() });
        }
    }
}
