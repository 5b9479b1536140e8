//! The one error type of the library.
//!
//! A caller acts on the [`Kind`]; the text of an error is fixed per kind, so that no path, id or body can slip into it.
//! What lay behind it stays reachable as the source, for a developer's eyes.

use std::error::Error as StdError;
use std::fmt;

/// Why a read failed.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What a caller can do about a failed read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The project is no absolute, existing directory, or a page token is not of this series.
    Input,
    /// The database has a schema version that is not read.
    DbSchema,
    /// The database says that the session is another project's.
    DbProject,
    /// The database cannot be opened or queried, or stays locked.
    DbIo,
    /// A wait was cancelled.
    Cancelled,
    /// Anything else: a damaged or public receipt store, a rollout that cannot be read.
    Internal,
}

impl Error {
    /// The kind of the failure.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A failure of this kind, caused by `source`.
    pub fn new(kind: Kind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { kind, source: Some(source.into()) }
    }

    /// Anything that is the fault of neither the caller nor the database.
    pub fn internal(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(Kind::Internal, source)
    }
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Self { kind, source: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Input => "the project or page token is invalid",
            Kind::DbSchema => "the database schema is unsupported",
            Kind::DbProject => "the database names another project",
            Kind::DbIo => "the database could not be read",
            Kind::Cancelled => "the wait was cancelled",
            Kind::Internal => "the stores could not be read",
        })
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
