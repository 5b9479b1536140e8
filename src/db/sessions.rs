//! What the database knows of many sessions at once: where they belong, and which bodies it has of them.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rusqlite::{Connection, Row};
use throughline_parsers::text::Digest;

use super::projection::{self, text_in};
use crate::error::Error;

/// How often a session can have been merged into another one.
const DEPTH: usize = 10;

/// The sessions of the database.
#[derive(Clone, Debug, Default)]
pub struct Sessions(HashMap<String, Session>);

/// One session.
#[derive(Clone, Debug)]
struct Session {
    project_path: Option<String>,
    merged_into: Option<String>,
}

impl Sessions {
    /// The project that a session is of, as it is written.
    pub fn project_path(&self, session: &str) -> Option<&str> {
        self.0.get(session)?.project_path.as_deref()
    }

    /// All project paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.values().filter_map(|session| session.project_path.as_deref())
    }

    /// The session that this one was merged into in the end; `None` where that is not known, or goes in a circle.
    pub fn target<'s>(&'s self, session: &'s str) -> Option<&'s str> {
        let mut at = session;
        for _ in 0..=DEPTH {
            match &self.0.get(at)?.merged_into {
                Some(into) => at = into,
                None => return Some(at),
            }
        }
        None
    }
}

/// Reads all sessions; none without a database.
///
/// # Errors
/// As for [`projection::pairs`].
pub fn sessions(path: &Path) -> Result<Sessions, Error> {
    let found = projection::look(path, |moment| {
        let mut statement = moment.prepare("SELECT session_id, project_path, merged_into FROM sessions")?;
        let session = |row: &Row<'_>| {
            let text = |column| text_in(row, column).map(|text| text.into_owned()).filter(|text| !text.is_empty());
            Ok((text(0), Session { project_path: text(1), merged_into: text(2) }))
        };
        let all = statement.query_map([], session)?.collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(Sessions(all.into_iter().filter_map(|(id, session)| Some((id?, session))).collect()))
    })?;
    Ok(found.unwrap_or_default())
}

/// How many of the pairs of each session have their bodies in the database. A pair is told by what `key` makes of the
/// digests of its origin session and of both texts; one pair in the database stands for one of them.
///
/// # Errors
/// As for [`projection::pairs`].
pub fn present(
    path: &Path,
    wanted: &[(String, Vec<u64>)],
    key: impl Fn(Digest, Digest, Digest) -> u64,
) -> Result<Vec<u64>, Error> {
    let found = projection::look(path, |moment| {
        // Of most sessions of a machine it may know nothing.
        let mut statement = moment.prepare("SELECT session_id FROM sessions")?;
        let known = statement.query_map([], |row| Ok(text_in(row, 0).map(|id| id.into_owned())))?;
        let known: HashSet<String> = known.filter_map(Result::transpose).collect::<rusqlite::Result<_>>()?;
        let present = |(session, keys): &(String, Vec<u64>)| match known.contains(session) {
            true => count(moment, session, keys, &key),
            false => Ok(0),
        };
        wanted.iter().map(present).collect()
    })?;
    Ok(found.unwrap_or_else(|| vec![0; wanted.len()]))
}

fn count(
    moment: &Connection,
    session: &str,
    keys: &[u64],
    key: &impl Fn(Digest, Digest, Digest) -> u64,
) -> rusqlite::Result<u64> {
    if keys.is_empty() {
        return Ok(0);
    }
    let mut stored: HashMap<u64, u64> = HashMap::new();
    projection::for_each_pair(moment, session, |origin, user, assistant| {
        *stored.entry(key(origin, user, assistant)).or_default() += 1;
    })?;
    let mut present = 0;
    for key in keys {
        if let Some(left) = stored.get_mut(key).filter(|left| **left > 0) {
            *left -= 1;
            present += 1;
        }
    }
    Ok(present)
}
