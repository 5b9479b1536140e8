//! The read side: the bodies of chain entries, returned only when every one of them is proven equal to what completed.
//!
//! The database may hold turns that never completed and lack turns that did, so nothing is taken from it but texts whose
//! digests stand in the chain.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row};
use throughline_parsers::json::MAX_WHOLE;
use throughline_parsers::text::{Digest, body};

use super::schema;
use crate::chain::Entry;
use crate::error::{Error, Kind};
use crate::paths::Resolved;

/// How long a lock of somebody else is waited for.
const BUSY: Duration = Duration::from_secs(1);

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
    match std::fs::metadata(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(Error::new(Kind::DbIo, error)),
        Ok(_) => {}
    }
    let database = open(path).map_err(db_io)?;
    let Some(stored) = stored(&database, session, project)? else { return Ok(None) };
    Ok(match_in_order(stored, entries))
}

fn db_io(error: rusqlite::Error) -> Error {
    Error::new(Kind::DbIo, error)
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags)?;
    database.busy_timeout(BUSY)?;
    Ok(database)
}

/// All pairs of the session, the oldest first; `None` when there is no such session.
fn stored(database: &Connection, session: &str, project: &Resolved) -> Result<Option<Vec<Stored>>, Error> {
    // One transaction, so that all is read of one moment.
    let moment = database.unchecked_transaction().map_err(db_io)?;
    if !schema::VERSIONS.contains(&schema::version(&moment).map_err(db_io)?) {
        return Err(Kind::DbSchema.into());
    }
    let session_row = moment
        .query_row("SELECT project_path FROM sessions WHERE session_id = ?", [session], |row| {
            Ok(text_in(row, 0).map(Cow::into_owned))
        })
        .optional()
        .map_err(db_io)?;
    let Some(path) = session_row else { return Ok(None) };
    let of_project = path.and_then(|path| Resolved::new(Path::new(&path))).is_some_and(|path| path.is_inside(project));
    if !of_project {
        return Err(Kind::DbProject.into());
    }
    read_pairs(&moment, session).map(Some).map_err(db_io)
}

/// A pair with where it stands among the others.
struct Stored {
    order: (i64, i64),
    origin: Digest,
    user: String,
    assistant: String,
}

#[derive(Default)]
struct Group {
    order: (i64, i64),
    user: Option<String>,
    assistant: Option<String>,
}

fn read_pairs(moment: &Connection, session: &str) -> rusqlite::Result<Vec<Stored>> {
    let mut statement = moment.prepare(
        "SELECT id, origin_session_id, turn_number, role, text, created_at FROM bodies
         WHERE session_id = ? AND role IN ('user', 'assistant') ORDER BY created_at, id",
    )?;
    let mut rows = statement.query([session])?;
    let mut groups: HashMap<(String, i64), Group> = HashMap::new();
    while let Some(row) = rows.next()? {
        let (Some(turn), Some(created_at)) = (whole_in(row, 2), whole_in(row, 5)) else { continue };
        let (Some(origin), Some(text)) = (text_in(row, 1).filter(|origin| !origin.is_empty()), text_in(row, 4)) else {
            continue;
        };
        let id = row.get(0)?;
        let group = groups.entry((origin.into_owned(), turn)).or_default();
        group.order = (group.order.0.max(created_at), group.order.1.max(id));
        let side = if row.get_ref(3)? == ValueRef::Text(b"user") { &mut group.user } else { &mut group.assistant };
        side.get_or_insert_with(|| body(&text).into_owned());
    }
    let mut pairs: Vec<_> = groups.into_iter().filter_map(|((origin, _), group)| group.pair(&origin)).collect();
    pairs.sort_unstable_by_key(|pair| pair.order);
    Ok(pairs)
}

/// The column if it is text; bytes that are no UTF-8 read as U+FFFD.
fn text_in<'r>(row: &'r Row<'_>, column: usize) -> Option<Cow<'r, str>> {
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

impl Group {
    fn pair(self, origin: &str) -> Option<Stored> {
        Some(Stored {
            order: self.order,
            origin: Digest::of_body(origin),
            user: self.user?,
            assistant: self.assistant?,
        })
    }
}

/// The texts of the entries, each from a pair of its own, in order.
fn match_in_order(stored: Vec<Stored>, entries: &[Entry]) -> Option<Vec<Pair>> {
    let mut stored = stored.into_iter();
    let matching = |entry: &Entry| {
        let found = stored.find(|pair| {
            pair.origin == entry.origin
                && Digest::of(&pair.user) == entry.user
                && Digest::of(&pair.assistant) == entry.assistant
        })?;
        Some(Pair { user: found.user, assistant: found.assistant })
    };
    entries.iter().map(matching).collect()
}
