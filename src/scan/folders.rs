//! Which rollouts there are in one folder.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, FileType};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use memchr::memrchr;
use throughline_parsers::codex::RolloutName;

/// A rollout file that was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its path with the name of the plain file, whether that is there or only the packed one.
    pub path: PathBuf,
    /// What the name says; `packed` when only the packed file is there.
    pub name: RolloutName,
}

impl Listed {
    /// The rollout of this name in a folder; `None` for a name that is no rollout's.
    pub fn named(folder: &Path, file_name: &str) -> Option<Self> {
        let name = RolloutName::parse(file_name)?;
        Some(Self { path: plain(folder.join(file_name)), name })
    }

    /// The name of the file that is there.
    pub fn file_name(&self) -> Cow<'_, OsStr> {
        // A listed path ends in a name, and nothing stands behind that.
        let plain = self.path.as_os_str().as_bytes();
        let name = &plain[memrchr(b'/', plain).map_or(0, |slash| slash + 1)..];
        match self.name.packed {
            true => Cow::Owned(OsString::from_vec([name, b".zst"].concat())),
            false => Cow::Borrowed(OsStr::from_bytes(name)),
        }
    }

    /// The path of the file that is there.
    pub fn file(&self) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        if self.name.packed {
            path.push(".zst");
        }
        PathBuf::from(path)
    }
}

/// The path of the plain rollout, given its own or that of the packed one.
pub fn plain(mut path: PathBuf) -> PathBuf {
    if path.extension().is_some_and(|end| end == "zst") {
        path.set_extension("");
    }
    path
}

/// What is in one folder.
#[derive(Debug, Default)]
pub struct Inside {
    /// The rollouts; a packed file counts only where the plain one is not beside it.
    pub rollouts: Vec<Listed>,
    /// The folders. (Links are neither.)
    pub folders: Vec<PathBuf>,
}

/// Lists one folder; one that has vanished has nothing.
///
/// # Errors
/// It is there and cannot be listed.
pub fn list(path: &Path) -> io::Result<Inside> {
    let mut inside = Inside::default();
    for_each(path, |entry, kind| {
        if kind.is_dir() {
            inside.folders.push(entry.path());
        } else if kind.is_file() {
            inside.rollouts.extend(rollout(path, entry));
        }
    })?;
    if inside.rollouts.iter().any(|listed| listed.name.packed) {
        // Where a rollout is there in both forms, the plain one is to stay.
        inside.rollouts.sort_unstable_by(|a, b| (&a.path, a.name.packed).cmp(&(&b.path, b.name.packed)));
        inside.rollouts.dedup_by(|second, first| second.path == first.path);
    }
    Ok(inside)
}

/// Lists only the folders in one folder.
///
/// # Errors
/// It is there and cannot be listed.
pub fn list_folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for_each(path, |entry, kind| folders.extend(kind.is_dir().then(|| entry.path())))?;
    Ok(folders)
}

fn for_each(path: &Path, mut take: impl FnMut(&DirEntry, FileType)) -> io::Result<()> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        match entry.file_type() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            kind => take(&entry, kind?),
        }
    }
    Ok(())
}

/// Looks for one rollout once more, in its own folder, under both of its names.
///
/// # Errors
/// The folder is there and cannot be listed.
pub fn again(listed: &Listed) -> io::Result<Option<Listed>> {
    let Some(folder) = listed.path.parent() else { return Ok(None) };
    Ok(list(folder)?.rollouts.into_iter().find(|other| other.path == listed.path))
}

fn rollout(folder: &Path, entry: &DirEntry) -> Option<Listed> {
    Listed::named(folder, entry.file_name().to_str()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_rollouts_are_listed_and_a_plain_one_beats_its_packed_one() {
        let root = tempfile::tempdir().unwrap();
        let day = root.path().join("05");
        fs::create_dir_all(&day).unwrap();
        let name = |n: u32| format!("rollout-2026-01-05T10-00-00-019c0000-0000-7000-8000-{n:012}.jsonl");
        for file in [name(1), name(1) + ".zst", name(2) + ".zst", "other.jsonl".to_owned()] {
            fs::write(day.join(file), "").unwrap();
        }
        fs::create_dir(day.join(name(3))).unwrap();
        symlink(day.join(name(1)), day.join(name(4))).unwrap();
        symlink("../..", day.join("loop")).unwrap();
        let inside = list(&day).unwrap();
        assert_eq!(inside.folders, [day.join(name(3))]);
        let mut found: Vec<_> = inside.rollouts.into_iter().map(|listed| (listed.path, listed.name.packed)).collect();
        found.sort();
        assert_eq!(found, [(day.join(name(1)), false), (day.join(name(2)), true)]);
        fs::remove_file(day.join(name(1))).unwrap();
        let listed = Listed::named(&day, &name(1)).unwrap();
        assert_eq!(again(&listed).unwrap().unwrap().file(), day.join(name(1) + ".zst"));
        assert!(list(&day.join("gone")).unwrap().rollouts.is_empty());
        fs::write(day.join("file"), "").unwrap();
        assert!(list(&day.join("file")).is_err());
    }
}
