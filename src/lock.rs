//! A lock that one process holds at a time, for files that several change.
//!
//! It is a transaction in a database of its own beside the file: other implementations of the receipt store wait for the
//! same one, and the system lets go of it when its holder dies.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::private_file;

/// How long another holder is waited for.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its file is not private, or the system refused.
    #[error(transparent)]
    File(#[from] private_file::Error),
    /// Another process kept it for too long, or it cannot be had.
    #[error("a file could not be locked")]
    Held,
}

/// The right to change a file, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    /// Holds an open transaction; closing it lets the next one in.
    _open: Connection,
}

impl Lock {
    /// Waits for the right to change the file at `path`, at most five seconds. Its directory has to be there.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn of(path: &Path) -> Result<Self, Error> {
        let mut name = OsString::from(path);
        name.push(".lock.sqlite");
        let beside = PathBuf::from(name);
        // Before SQLite opens it, which would make it with another mode.
        private_file::create_file(&beside)?;
        private_file::check_file(&beside)?;
        begin_immediate(&beside).map(|open| Self { _open: open }).map_err(|_| Error::Held)
    }
}

fn begin_immediate(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let lock = Connection::open_with_flags(path, flags)?;
    lock.busy_timeout(BUSY_WAIT)?;
    lock.execute_batch("BEGIN IMMEDIATE")?;
    Ok(lock)
}
