//! A settings file of an agent: read, and replaced with a backup beside it.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{self, Path, PathBuf};

use super::Error;
use crate::paths::Resolved;
use crate::private_file::{self, Durability};

/// What the name of a backup adds to the file's.
const BACKUP: &str = ".throughline-backup";
/// A byte order mark, which an editor may have put in front.
const MARK: char = '\u{feff}';

/// A settings file as it was read.
#[derive(Debug)]
pub struct SettingsFile {
    /// Where the agent looks for it.
    pub path: PathBuf,
    /// The file itself: where the links on the way lead.
    real: PathBuf,
    text: String,
    /// Absent for a file that is absent.
    found: Option<Metadata>,
}

impl SettingsFile {
    /// Reads it; one that is absent is as an empty one.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no text.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let path = path::absolute(path).map_err(|error| Error::io(path, error))?;
        let real = Resolved::new(&path).map_or_else(|| path.clone(), |real| real.path());
        let (found, bytes) = read(&real).map_err(|error| Error::io(&path, error))?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { path, real, text, found }),
            Err(_) => Err(Error::Unusable { path, why: "it is no text".to_owned() }),
        }
    }

    /// Whether there is such a file.
    pub fn is_there(&self) -> bool {
        self.found.is_some()
    }

    /// What is in it, without a byte order mark.
    pub fn text(&self) -> &str {
        self.text.strip_prefix(MARK).unwrap_or(&self.text)
    }

    /// Where its backup goes: beside it, where the agent looks for it.
    pub fn backup(&self) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(BACKUP);
        PathBuf::from(name)
    }

    /// Replaces it in one step, its mode kept, after a backup; an absent one is made, with its folders, private. Tells
    /// where the backup is, if there was something to keep.
    ///
    /// # Errors
    ///
    /// The system refused, or the file was changed by somebody else meanwhile.
    pub fn replace(&self, text: &str) -> Result<Option<PathBuf>, Error> {
        let failed = |error: private_file::Error| match error {
            private_file::Error::Io(error) => Error::io(&self.path, error),
            other => Error::io(&self.path, io::Error::other(other)),
        };
        if let Some(folder) = self.real.parent() {
            private_file::make_directory(folder, Durability::Synced).map_err(failed)?;
        }
        let backup = self.backup();
        if self.found.is_some() {
            private_file::replace_like(&backup, self.text.as_bytes(), self.found.as_ref()).map_err(failed)?;
        }
        let mark = if self.text.starts_with(MARK) { "\u{feff}" } else { "" };
        let (found, now) = read(&self.real).map_err(|error| Error::io(&self.path, error))?;
        if found.is_some() != self.found.is_some() || now != self.text.as_bytes() {
            return Err(Error::Changed { path: self.path.clone() });
        }
        let content = [mark.as_bytes(), text.as_bytes()].concat();
        private_file::replace_like(&self.real, &content, self.found.as_ref()).map_err(failed)?;
        Ok(self.found.is_some().then_some(backup))
    }
}

/// The file's stamps and content, if it is there. Nothing but a regular file is opened: a pipe would not end.
fn read(path: &Path) -> io::Result<(Option<Metadata>, Vec<u8>)> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok((Some(found), fs::read(path)?)),
        Ok(_) => Err(io::Error::other("it is no regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((None, Vec::new())),
        Err(error) => Err(error),
    }
}
