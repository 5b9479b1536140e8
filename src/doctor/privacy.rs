//! That nobody else can read or write what is the user's.
//!
//! Receipts are refused when they are not private, since they are proofs. What the cache remembers is not used then. The
//! database is used as it is; but everything that was said is in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Check, Finding, Surroundings, quoted, some_of};
use crate::cache::Cache;
use crate::db::{alone, schema};
use crate::private_file::{Flaw, Kind};
use crate::receipts::Place;

/// Looks at the directories and files of this program.
pub fn check(around: &Surroundings) -> Vec<Finding> {
    let (mut looked_at, mut findings) = (0, Vec::new());
    for (path, kind, may_be_link) in files(around) {
        let found = if may_be_link { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        match found {
            Ok(found) => {
                looked_at += 1;
                findings.extend(Flaw::of(&found, kind).map(|flaw| of_flaw(flaw, kind, &path)));
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => {
                let what = format!("{} cannot be looked at: {error}", path.display());
                findings.push(Finding::problem(Check::Privacy, what, "make it yours").about(path));
            }
        }
    }
    if findings.is_empty() && looked_at > 0 {
        findings.push(Finding::fine(Check::Privacy, "what throughline has stored is private").counting(looked_at));
    }
    some_of(findings, |left| {
        let what = format!("{left} more are not private");
        Finding::problem(Check::Privacy, what, "mode 0700 for the directories, 0600 for the files, yours, no links")
    })
}

/// What should be private, and whether it may be a link to that.
fn files(around: &Surroundings) -> Vec<(PathBuf, Kind, bool)> {
    let receipts = Place::directory(&around.stores.state_home);
    let database = schema::path(&around.stores.home);
    let cache = around.stores.cache.clone().unwrap_or_else(|| Cache::below(&around.stores.cache_home));
    let mut files = vec![(receipts, Kind::Directory, false)];
    files.extend(Place::files(&around.stores.state_home).into_iter().map(|file| (file, Kind::File, false)));
    files.extend(database.parent().map(|folder| (folder.to_owned(), Kind::Directory, true)));
    for end in ["", "-wal", "-shm"] {
        files.push((alone::beside(&database, end), Kind::File, true));
    }
    files.push((cache.directory().to_owned(), Kind::Directory, false));
    files.extend(cache.files().into_iter().map(|(file, ..)| (file, Kind::File, false)));
    files
}

fn of_flaw(flaw: Flaw, kind: Kind, path: &Path) -> Finding {
    let name = path.display();
    let (what, advice) = match flaw {
        Flaw::Link => (
            format!("{name} is a link, which is not followed"),
            format!("put what it leads to in its place: {}", quoted(path)),
        ),
        Flaw::Kind => {
            let should = if kind == Kind::Directory { "a directory" } else { "a regular file" };
            (format!("{name} is not {should}"), format!("move it away: {}", quoted(path)))
        }
        Flaw::Owner(owner) => (
            format!("{name} belongs to another user, number {owner}"),
            format!("sudo chown \"$(id -u)\" {}", quoted(path)),
        ),
        Flaw::Mode(mode) => (
            format!("{name} has mode {mode:04o}, not {:04o}", kind.mode()),
            format!("chmod {:o} {}", kind.mode(), quoted(path)),
        ),
    };
    Finding::problem(Check::Privacy, what, advice).about(path)
}
