//! The observer contract: which completed turns a project has, and which of them are new.
//!
//! A reader of the code can start at [`read`]; it meets each stage once.

pub mod cancel;
pub mod cursor;
mod feed;
pub mod page;
pub mod read;
pub mod threads;
pub(crate) mod token;
pub mod wait;

use std::fs;
use std::path::Path;

use throughline_parsers::text::Digest;

use crate::error::{Error, Kind};
use crate::paths::{self, Resolved};

/// The project directory that a read is about.
#[derive(Clone, Debug)]
pub struct Project {
    /// What working directories are compared with.
    pub resolved: Resolved,
    /// SHA-256 of its real path: what binds tokens to it.
    pub digest: Digest,
}

impl Project {
    /// The project in this directory.
    ///
    /// # Errors
    /// [`Kind::Input`] unless it is an absolute path of an existing directory.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if !path.is_absolute() {
            return Err(Kind::Input.into());
        }
        let real = fs::canonicalize(path).map_err(|error| Error::new(Kind::Input, error))?;
        if !real.is_dir() {
            return Err(Kind::Input.into());
        }
        let resolved = Resolved::new(&real).ok_or(Kind::Input)?;
        Ok(Self { resolved, digest: paths::digest(&real) })
    }
}
