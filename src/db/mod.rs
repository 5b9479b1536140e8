//! The database of captured turns, which this program shares with the Node tool.
//!
//! [`schema`] makes it and opens it for writing, [`capture`] puts the texts of turns into it, [`projection`] takes the
//! bodies of completed turns from it, [`sessions`] tells what there is of many sessions at once, and [`examining`] looks how it
//! is. Whoever only reads opens it as [`alone`] says.

pub mod alone;
pub mod capture;
pub mod examining;
pub mod projection;
pub mod schema;
pub mod sessions;

/// Why the database could not be used. The text never holds a path, an id or a body.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It has a schema that this program does not know. Schemas are never altered here.
    #[error("database version {0} is not supported")]
    Version(i64),
    /// The file or its directory could not be made.
    #[error("the database file could not be made")]
    File(#[from] crate::private_file::Error),
    /// SQLite failed. What it says may hold a path, so it is kept out of the text and of the chain of sources.
    #[error("the database could not be used")]
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        Error::Sqlite(error)
    }
}
