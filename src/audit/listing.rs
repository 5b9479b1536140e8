//! Which logs there are below a root, folder by folder. What cannot be listed is named, and the rest is listed all the same.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustix::fs::{CWD, Mode, OFlags};

use super::Unreadable;
use crate::scan::folders;
use crate::scan::stamps::Stamps;

/// One folder with logs in it.
#[derive(Debug)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// The names of the files, and what they were when they were listed.
    pub files: Vec<(OsString, Stamps)>,
}

/// Names of files, and folders below.
type Inside = (Vec<OsString>, Vec<PathBuf>);

/// The rollouts below a sessions root: by the names of the files that are there.
pub fn rollouts(root: &Path) -> (Vec<Folder>, Vec<Unreadable>) {
    walk(root, |folder| {
        let inside = folders::list(folder)?;
        let name = |listed: folders::Listed| listed.file_name().into_owned();
        Ok((inside.rollouts.into_iter().map(name).collect(), inside.folders))
    })
}

/// The transcripts below Claude's folder of projects.
pub fn transcripts(root: &Path) -> (Vec<Folder>, Vec<Unreadable>) {
    walk(root, |folder| {
        let (mut names, mut folders) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && Path::new(&entry.file_name()).extension().is_some_and(|end| end == "jsonl") {
                names.push(entry.file_name());
            }
        }
        Ok((names, folders))
    })
}

/// Links below the root are not followed. No root is no logs.
fn walk(root: &Path, list: impl Fn(&Path) -> io::Result<Inside> + Sync) -> (Vec<Folder>, Vec<Unreadable>) {
    let (mut found, mut unreadable, mut level) = (Vec::new(), Vec::new(), vec![root.to_path_buf()]);
    while !level.is_empty() {
        let looked_at: Vec<_> = level.into_par_iter().map(|path| (look(&path, &list), path)).collect();
        level = Vec::new();
        for (looked, path) in looked_at {
            match looked {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => unreadable.push(Unreadable::new(&path, error)),
                Ok((mut files, not_looked_at, below)) => {
                    files.sort_unstable_by(|one, other| one.0.cmp(&other.0));
                    unreadable.extend(not_looked_at);
                    level.extend(below);
                    if !files.is_empty() {
                        found.push(Folder { path, files });
                    }
                }
            }
        }
    }
    found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    (found, unreadable)
}

type Looked = (Vec<(OsString, Stamps)>, Vec<Unreadable>, Vec<PathBuf>);

fn look(path: &Path, list: &impl Fn(&Path) -> io::Result<Inside>) -> io::Result<Looked> {
    let (names, below) = list(path)?;
    let (mut files, mut unreadable) = (Vec::new(), Vec::new());
    // By name in an open folder, files cost no walk along their path.
    let folder = rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok();
    for name in names {
        let found = match &folder {
            Some(folder) => Stamps::of_path(folder, Path::new(&name)),
            None => Stamps::of_path(CWD, &path.join(&name)),
        };
        match found {
            Ok(Some(found)) if found.is_file() => files.push((name, found.stamps)),
            Ok(_) => {}
            Err(error) => unreadable.push(Unreadable::new(&path.join(&name), error)),
        }
    }
    Ok((files, unreadable, below))
}
