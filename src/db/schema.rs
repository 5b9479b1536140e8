//! Where the database is, how it is made, and which versions of it are known.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::Error;
use crate::private_file::{self, Durability};

/// The versions whose `sessions` and `bodies` are those of this program.
pub const VERSIONS: RangeInclusive<i64> = 9..=12;

const BUSY_WAIT: Duration = Duration::from_secs(5);

/// The path of the database in this home directory.
#[must_use]
pub fn path(home: &Path) -> PathBuf {
    home.join(".throughline/throughline.db")
}

/// Opens the database at this path for writing, and makes it if it is absent.
///
/// # Errors
///
/// It cannot be made or opened, or has a version that is not known.
pub fn open(path: &Path) -> Result<Connection, Error> {
    if let Some(directory) = path.parent() {
        private_file::make_directory(directory, Durability::Synced)?;
    }
    private_file::create_file(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_WAIT)?;
    // A statement keeps its plan. Without that it would be prepared again for each value that is bound.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if is_empty(&connection)? {
        create(&mut connection)?;
    }
    let version = version(&connection)?;
    if !VERSIONS.contains(&version) {
        return Err(Error::Version(version));
    }
    keep_log(&connection)?;
    Ok(connection)
}

/// The version of an open database.
///
/// # Errors
///
/// It cannot be read.
pub fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Whether nobody has made anything in the file yet.
fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    Ok(objects == 0 && version(connection)? == 0)
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Somebody else may have been quicker.
    if is_empty(&transaction)? {
        transaction.execute_batch(SCHEMA_9)?;
    }
    transaction.commit()
}

/// Bodies have to be on disk before anything refers to them, and readers must not wait for writers.
fn keep_log(connection: &Connection) -> rusqlite::Result<()> {
    let deadline = Instant::now() + BUSY_WAIT;
    // Where several want the switch to a log at once, SQLite gives up without its busy wait.
    while let Err(error) = connection.execute_batch("PRAGMA journal_mode = WAL") {
        if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) || Instant::now() >= deadline {
            return Err(error);
        }
        thread::sleep(Duration::from_millis(5));
    }
    // Sums over a long session look at each page once: memory for more of them would be filled and not used again.
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA cache_size = 100")
}

const SCHEMA_9: &str = "
CREATE TABLE sessions (
  session_id TEXT PRIMARY KEY,
  project_path TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'active',
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  merged_into TEXT
);
CREATE TABLE bodies (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL,
  origin_session_id TEXT NOT NULL,
  turn_number INTEGER NOT NULL,
  role TEXT NOT NULL,
  text TEXT NOT NULL,
  token_count INTEGER,
  created_at INTEGER NOT NULL,
  UNIQUE (session_id, origin_session_id, turn_number, role)
);
CREATE INDEX idx_bodies_session_created ON bodies (session_id, created_at);
CREATE TABLE skeletons (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL,
  turn_number INTEGER NOT NULL,
  role TEXT NOT NULL,
  summary TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  origin_session_id TEXT
);
CREATE UNIQUE INDEX uq_skeletons_turn_v3 ON skeletons (session_id, origin_session_id, turn_number, role);
CREATE INDEX idx_skeletons_session ON skeletons (session_id, created_at);
CREATE TABLE details (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL,
  turn_number INTEGER,
  tool_name TEXT NOT NULL,
  input_text TEXT,
  output_text TEXT,
  token_count INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  origin_session_id TEXT,
  kind TEXT NOT NULL DEFAULT 'tool_input',
  source_id TEXT
);
CREATE UNIQUE INDEX uq_details_source ON details (session_id, origin_session_id, source_id)
  WHERE source_id IS NOT NULL;
CREATE INDEX idx_details_session_kind ON details (session_id, kind, created_at);
CREATE TABLE injection_log (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL,
  event_type TEXT NOT NULL,
  turns_injected INTEGER NOT NULL DEFAULT 0,
  tokens_saved INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL
);
CREATE TABLE handoff_batons (
  project_path TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  created_at INTEGER NOT NULL
);
CREATE TABLE pending_handoffs (
  session_id TEXT PRIMARY KEY,
  project_path TEXT NOT NULL,
  source TEXT,
  auto_predecessor_id TEXT,
  created_at INTEGER NOT NULL
);
PRAGMA user_version = 9;
";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    fn home() -> (TempDir, PathBuf) {
        let home = TempDir::new().unwrap();
        let path = path(home.path());
        (home, path)
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn strings(database: &Connection, query: &str) -> Vec<String> {
        let mut query = database.prepare(query).unwrap();
        query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn a_new_database_is_private_logged_and_durable() {
        let (_home, path) = home();
        let database = open(&path).unwrap();
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(mode(&path), 0o600);
        let journal: String = database.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        let synchronous: i64 = database.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
        assert_eq!((journal.as_str(), synchronous, version(&database).unwrap()), ("wal", 2, 9));
    }

    #[test]
    fn the_tables_have_the_columns_of_version_9() {
        let (_home, path) = home();
        let database = open(&path).unwrap();
        let columns = strings(
            &database,
            "SELECT m.name || '.' || c.name || ' ' || c.type || iif(c.pk, ' key', '') || iif(c.\"notnull\", ' not null', '')
               || coalesce(' = ' || c.dflt_value, '')
             FROM sqlite_master m, pragma_table_info(m.name) c
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.rowid, c.cid",
        );
        assert_eq!(columns.join("\n"), COLUMNS.trim());
    }

    #[test]
    fn the_indexes_are_those_of_version_9() {
        let (_home, path) = home();
        let database = open(&path).unwrap();
        let indexes = strings(
            &database,
            "SELECT m.name || ': ' || l.name || iif(l.\"unique\", ' unique', '') || iif(l.partial, ' partial', '') || ' '
               || (SELECT group_concat(i.name) FROM pragma_index_info(l.name) i)
             FROM sqlite_master m, pragma_index_list(m.name) l
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.rowid, l.name",
        );
        assert_eq!(indexes.join("\n"), INDEXES.trim());
        assert_eq!(strings(&database, "SELECT sql FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'").len(), 4);
    }

    #[test]
    fn an_existing_database_is_taken_as_it_is() {
        let (_home, path) = home();
        for known in VERSIONS {
            let database = open(&path).unwrap();
            database.execute_batch("CREATE TABLE IF NOT EXISTS more (x)").unwrap();
            database.pragma_update(None, "user_version", known).unwrap();
            drop(database);
            assert_eq!(version(&open(&path).unwrap()).unwrap(), known);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        open(&path).unwrap();
        assert_eq!(mode(&path), 0o644);
    }

    #[test]
    fn other_versions_are_refused_by_their_number() {
        for unknown in [0, 1, 8, 13, -1] {
            let (_home, path) = home();
            open(&path).unwrap().pragma_update(None, "user_version", unknown).unwrap();
            let error = open(&path).unwrap_err();
            assert!(matches!(error, Error::Version(version) if version == unknown));
            assert_eq!(error.to_string(), format!("database version {unknown} is not supported"));
        }
    }

    #[test]
    fn a_file_that_is_no_database_is_an_error_without_a_path() {
        let (_home, path) = home();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x".repeat(5000)).unwrap();
        assert_eq!(open(&path).unwrap_err().to_string(), "the database could not be used");
    }

    #[test]
    fn many_may_make_it_at_once() {
        for _ in 0..5 {
            let (_home, path) = home();
            std::thread::scope(|scope| {
                let openers: Vec<_> =
                    (0..8).map(|_| scope.spawn(|| open(&path).map(|db| version(&db).unwrap()))).collect();
                for opener in openers {
                    assert_eq!(opener.join().unwrap().unwrap(), 9);
                }
            });
        }
    }

    const COLUMNS: &str = "
sessions.session_id TEXT key
sessions.project_path TEXT not null
sessions.status TEXT not null = 'active'
sessions.created_at INTEGER not null
sessions.updated_at INTEGER not null
sessions.merged_into TEXT
bodies.id INTEGER key
bodies.session_id TEXT not null
bodies.origin_session_id TEXT not null
bodies.turn_number INTEGER not null
bodies.role TEXT not null
bodies.text TEXT not null
bodies.token_count INTEGER
bodies.created_at INTEGER not null
skeletons.id INTEGER key
skeletons.session_id TEXT not null
skeletons.turn_number INTEGER not null
skeletons.role TEXT not null
skeletons.summary TEXT not null
skeletons.created_at INTEGER not null
skeletons.origin_session_id TEXT
details.id INTEGER key
details.session_id TEXT not null
details.turn_number INTEGER
details.tool_name TEXT not null
details.input_text TEXT
details.output_text TEXT
details.token_count INTEGER not null = 0
details.created_at INTEGER not null
details.origin_session_id TEXT
details.kind TEXT not null = 'tool_input'
details.source_id TEXT
injection_log.id INTEGER key
injection_log.session_id TEXT not null
injection_log.event_type TEXT not null
injection_log.turns_injected INTEGER not null = 0
injection_log.tokens_saved INTEGER not null = 0
injection_log.created_at INTEGER not null
handoff_batons.project_path TEXT key
handoff_batons.session_id TEXT not null
handoff_batons.created_at INTEGER not null
pending_handoffs.session_id TEXT key
pending_handoffs.project_path TEXT not null
pending_handoffs.source TEXT
pending_handoffs.auto_predecessor_id TEXT
pending_handoffs.created_at INTEGER not null
";

    const INDEXES: &str = "
sessions: sqlite_autoindex_sessions_1 unique session_id
bodies: idx_bodies_session_created session_id,created_at
bodies: sqlite_autoindex_bodies_1 unique session_id,origin_session_id,turn_number,role
skeletons: idx_skeletons_session session_id,created_at
skeletons: uq_skeletons_turn_v3 unique session_id,origin_session_id,turn_number,role
details: idx_details_session_kind session_id,kind,created_at
details: uq_details_source unique partial session_id,origin_session_id,source_id
handoff_batons: sqlite_autoindex_handoff_batons_1 unique project_path
pending_handoffs: sqlite_autoindex_pending_handoffs_1 unique session_id
";
}
