//! How the database is: for those who ask that, and not for a turn.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rusqlite::Connection;

use super::alone::{self, beside};
use super::{Error, projection, schema};
use crate::chain::{Entry, Host};
use crate::paths::Resolved;

/// A larger one is not looked at page by page.
const MOST_CHECKED_BYTES: u64 = 1 << 30;

/// How the database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its version.
    pub version: i64,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many sessions it has.
    pub sessions: usize,
    /// What is wrong with its pages, as SQLite says it; `None` also where it is too large to be looked at page by page.
    pub damage: Option<String>,
}

/// How the database at this path is; `None` if there is none.
///
/// # Errors
///
/// It cannot be read, or has a version that is not known.
pub fn condition(path: &Path) -> Result<Option<Condition>, Error> {
    examine(path, |database, found| {
        let sessions: i64 = database.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0))?;
        // Whatever its version says: these columns are what is read and written.
        database.prepare("SELECT project_path, status, created_at, updated_at, merged_into FROM sessions")?;
        database.prepare(
            "SELECT id, session_id, origin_session_id, turn_number, role, text, token_count, created_at FROM bodies",
        )?;
        let check = || database.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        let verdict = if found.size() > MOST_CHECKED_BYTES { "ok".to_owned() } else { check()? };
        let damage = Some(verdict).filter(|verdict| verdict != "ok");
        Ok(Condition {
            version: schema::version(database)?,
            bytes: found.size(),
            sessions: usize::try_from(sessions).unwrap_or_default(),
            damage,
        })
    })
}

/// When a session of this host was captured last, in milliseconds since the epoch.
///
/// # Errors
///
/// As for [`condition`].
pub fn last_capture(path: &Path, host: Host) -> Result<Option<i64>, Error> {
    let last = examine(path, |database, _| {
        let sessions = "SELECT max(updated_at) FROM sessions WHERE typeof(updated_at) = 'integer'";
        let of_host = if host == Host::Codex { "GLOB" } else { "NOT GLOB" };
        database.query_row(&format!("{sessions} AND session_id {of_host} 'codex:*'"), [], |row| row.get(0))
    });
    Ok(last?.flatten())
}

/// A chain whose bodies are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The session that has them.
    pub session: &'a str,
    /// Its project.
    pub project: &'a Resolved,
    /// The chain.
    pub entries: &'a [Entry],
}

/// Of each chain how many entries, from the first one on, have their bodies. Without a database none has.
///
/// # Errors
///
/// As for [`condition`].
pub fn with_bodies(path: &Path, asked: &[Asked<'_>]) -> Result<Vec<usize>, Error> {
    let counted = examine(path, |database, _| {
        let count = |asked: &Asked<'_>| projection::with_bodies(database, asked.session, asked.project, asked.entries);
        asked.iter().map(count).collect()
    });
    Ok(counted?.unwrap_or_else(|| vec![0; asked.len()]))
}

/// Asks the database at this path; `None` if there is none.
fn examine<T>(path: &Path, ask: impl Fn(&Connection, &Metadata) -> rusqlite::Result<T>) -> Result<Option<T>, Error> {
    let Some(found) = found(path)? else { return Ok(None) };
    alone::read(path, |database| {
        let version = schema::version(database)?;
        if !schema::VERSIONS.contains(&version) {
            return Err(Error::Version(version));
        }
        Ok(Some(ask(database, &found)?))
    })
}

fn found(path: &Path) -> Result<Option<Metadata>, Error> {
    match fs::metadata(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        // One that nobody has written to yet is made by the next writer.
        Ok(found) if found.is_file() && found.size() == 0 && !beside(path, "-wal").exists() => Ok(None),
        // Opening a pipe would wait for somebody to write to it.
        Ok(found) if found.is_file() => Ok(Some(found)),
        _ => Err(rusqlite::Error::InvalidPath(path.to_owned()).into()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::db::capture::{CodexTurn, store_codex_thread};
    use std::ffi::OsString;
    use throughline_parsers::text::Digest;

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    fn turn(turn_number: i64, user: &'static str) -> CodexTurn<'static> {
        CodexTurn { turn_number, user: Some(user), assistant: Some("answer"), completed_at: Some(turn_number) }
    }

    fn entry(user: &str) -> Entry {
        let (origin, source) = (Digest::of_body("codex:t"), Digest::of(""));
        Entry { origin, user: Digest::of(user), assistant: Digest::of("answer"), completed_at: 1, source }
    }

    #[test]
    fn a_look_leaves_no_trace_and_sees_what_is_still_in_the_log() {
        let home = tempfile::tempdir().unwrap();
        // What means something in the name of a database.
        let root = home.path().join("a?b#c%41 d");
        let path = schema::path(&root);
        assert_eq!(condition(&path).unwrap(), None);
        assert!(!root.exists());
        let mut database = schema::open(&path).unwrap();
        store_codex_thread(&mut database, "t", "/p", &[turn(1, "one")], 5).unwrap();
        let log = beside(&path, "-wal");
        for sessions in [1, 2] {
            let before = names(path.parent().unwrap());
            let found = condition(&path).unwrap().unwrap();
            assert_eq!((found.version, found.sessions, found.damage), (9, sessions, None));
            assert_eq!(last_capture(&path, Host::Codex).unwrap(), Some(5));
            assert_eq!(names(path.parent().unwrap()), before);
            if sessions == 1 {
                store_codex_thread(&mut database, "u", "/p", &[turn(1, "one")], 4).unwrap();
                assert!(log.exists());
            }
        }
        drop(database);
        assert!(!log.exists());
        condition(&path).unwrap();
        assert_eq!(names(path.parent().unwrap()), ["throughline.db"]);
    }

    #[test]
    fn bodies_are_counted_up_to_the_first_that_is_missing() {
        let home = tempfile::tempdir().unwrap();
        let path = schema::path(home.path());
        let (project, other) = (Resolved::new(Path::new("/p")).unwrap(), Resolved::new(Path::new("/q")).unwrap());
        let entries = ["one", "two", "lost", "three"].map(entry);
        let asked = |project| Asked { session: "codex:t", project, entries: &entries };
        assert_eq!(with_bodies(&path, &[asked(&project)]).unwrap(), [0]);
        let mut database = schema::open(&path).unwrap();
        let turns = [turn(1, "one"), turn(2, "two"), turn(3, "three")];
        store_codex_thread(&mut database, "t", "/p", &turns, 5).unwrap();
        let nobody = Asked { session: "codex:nobody", ..asked(&project) };
        assert_eq!(with_bodies(&path, &[asked(&project), asked(&other), nobody]).unwrap(), [2, 0, 0]);
    }

    #[test]
    fn what_is_no_database_of_ours_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.db");
        fs::write(&path, "x".repeat(5000)).unwrap();
        assert!(matches!(condition(&path), Err(Error::Sqlite(_))));
        fs::write(&path, "").unwrap();
        assert!(matches!(condition(&path), Ok(None)));
        assert!(matches!(condition(home.path()), Err(Error::Sqlite(_))));
    }
}
