//! Which rollouts there are.

use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use throughline_parsers::codex::RolloutName;

/// A rollout file that was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its path with the name of the plain file, whether that is there or only the packed one.
    pub path: PathBuf,
    /// What the name says; `packed` when only the packed file is there.
    pub name: RolloutName,
}

/// The rollouts of one folder.
#[derive(Debug, Default)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// What is in it.
    pub rollouts: Vec<Listed>,
}

/// All rollouts below `root`, folder by folder, in no order. Links below it are not followed; a packed file counts only where the plain one
/// is not beside it. No root is no rollouts.
///
/// # Errors
/// The root cannot be looked at, or a folder cannot be listed: leaving it out could hide the rollout that matters.
pub fn rollouts(root: &Path) -> io::Result<Vec<Folder>> {
    match fs::metadata(root) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    let mut found = Vec::new();
    // Level by level: the folders of one level are listed at once.
    let mut level = vec![root.to_path_buf()];
    while !level.is_empty() {
        let listed: Vec<_> = level.into_par_iter().map(list).collect::<io::Result<_>>()?;
        level = Vec::new();
        for (folder, below) in listed {
            found.extend(Some(folder).filter(|folder| !folder.rollouts.is_empty()));
            level.extend(below);
        }
    }
    Ok(found)
}

/// Looks for one rollout once more, in its own folder, under both of its names.
///
/// # Errors
/// The folder is there and cannot be listed.
pub fn again(listed: &Listed) -> io::Result<Option<Listed>> {
    let Some(folder) = listed.path.parent() else { return Ok(None) };
    Ok(list(folder.to_path_buf())?.0.rollouts.into_iter().find(|other| other.path == listed.path))
}

/// Lists one folder: its rollouts, and the folders in it. One that has vanished has nothing.
fn list(path: PathBuf) -> io::Result<(Folder, Vec<PathBuf>)> {
    let (mut folder, mut below) = (Folder { path, rollouts: Vec::new() }, Vec::new());
    let entries = match fs::read_dir(&folder.path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((folder, below)),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let kind = match entry.file_type() {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            kind => kind?,
        };
        if kind.is_dir() {
            below.push(entry.path());
        } else if kind.is_file() {
            folder.rollouts.extend(rollout(&folder.path, &entry));
        }
    }
    if folder.rollouts.iter().any(|listed| listed.name.packed) {
        // Where a rollout is there in both forms, the plain one is to stay.
        folder.rollouts.sort_unstable_by(|a, b| (&a.path, a.name.packed).cmp(&(&b.path, b.name.packed)));
        folder.rollouts.dedup_by(|second, first| second.path == first.path);
    }
    Ok((folder, below))
}

fn rollout(folder: &Path, entry: &DirEntry) -> Option<Listed> {
    let file_name = entry.file_name();
    let file_name = file_name.to_str()?;
    let name = RolloutName::parse(file_name)?;
    Some(Listed { path: folder.join(file_name.strip_suffix(".zst").unwrap_or(file_name)), name })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_rollouts_are_listed_and_a_plain_one_beats_its_packed_one() {
        let root = tempfile::tempdir().unwrap();
        let day = root.path().join("2026/01/05");
        fs::create_dir_all(&day).unwrap();
        let name = |n: u32| format!("rollout-2026-01-05T10-00-00-019c0000-0000-7000-8000-{n:012}.jsonl");
        for file in [name(1), name(1) + ".zst", name(2) + ".zst", "other.jsonl".to_owned()] {
            fs::write(day.join(file), "").unwrap();
        }
        fs::create_dir(day.join(name(3))).unwrap();
        symlink(day.join(name(1)), day.join(name(4))).unwrap();
        symlink("../..", day.join("loop")).unwrap();
        let mut found: Vec<_> = rollouts(root.path()).unwrap().into_iter().flat_map(|folder| folder.rollouts).collect();
        found.sort_by_key(|listed| listed.path.clone());
        let found: Vec<_> = found.into_iter().map(|listed| (listed.path, listed.name.packed)).collect();
        assert_eq!(found, [(day.join(name(1)), false), (day.join(name(2)), true)]);
        fs::remove_file(day.join(name(1))).unwrap();
        let listed = Listed { path: day.join(name(1)), name: RolloutName::parse(&name(1)).unwrap() };
        assert!(again(&listed).unwrap().unwrap().name.packed);
    }

    #[test]
    fn no_root_is_no_rollouts_and_a_file_in_its_place_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(rollouts(&root.path().join("sessions")).unwrap().len(), 0);
        fs::write(root.path().join("sessions"), "").unwrap();
        assert!(rollouts(&root.path().join("sessions")).is_err());
    }
}
