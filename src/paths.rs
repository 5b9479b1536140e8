//! Paths as the contract compares and digests them.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use throughline_parsers::text::Digest;

/// The path with `//`, `.` and `..` collapsed as text, as a path is written into digests: no leading `./`, a relative one
/// stays relative.
///
/// ```
/// use std::path::Path;
/// assert_eq!(throughline::paths::collapsed(Path::new("//a/./b/../c/")), Path::new("/a/c"));
/// assert_eq!(throughline::paths::collapsed(Path::new("./a/../../b")), Path::new("../b"));
/// ```
pub fn collapsed(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => match out.components().next_back() {
                Some(Component::Normal(_)) => drop(out.pop()),
                Some(Component::RootDir) => {}
                _ => out.push(".."),
            },
            part => out.push(part),
        }
    }
    if out.as_os_str().is_empty() { PathBuf::from(".") } else { out }
}

/// The SHA-256 of a path: of its text, where bytes that are no UTF-8 read as U+FFFD.
pub fn digest(path: &Path) -> Digest {
    Digest::of(&path.to_string_lossy())
}

/// An absolute path with links followed in the longest part of it that exists, without a trailing `/` (the root is empty).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved(OsString);

impl Resolved {
    /// Resolves a path; `None` for a relative one and for one with U+0000, which are no project's.
    pub fn new(path: &Path) -> Option<Self> {
        if !path.is_absolute() || path.as_os_str().as_bytes().contains(&0) {
            return None;
        }
        let real = fs::canonicalize(path).unwrap_or_else(|_| follow(path));
        let mut text = real.into_os_string().into_vec();
        while text.last() == Some(&b'/') {
            text.pop();
        }
        Some(Self(OsString::from_vec(text)))
    }

    /// Whether this is `root` or below it, by whole components.
    pub fn is_inside(&self, root: &Resolved) -> bool {
        let below = self.0.as_bytes().strip_prefix(root.0.as_bytes());
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    /// Its text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// It as a path.
    pub fn path(&self) -> PathBuf {
        if self.0.is_empty() { PathBuf::from("/") } else { PathBuf::from(&self.0) }
    }

    /// One that was resolved earlier, from its text.
    pub fn from_saved(text: &[u8]) -> Self {
        Self(OsStr::from_bytes(text).to_owned())
    }

    /// The SHA-256 of its text.
    pub fn digest(&self) -> Digest {
        digest(Path::new(&self.0))
    }
}

/// Follows links as far as the path exists; the rest is taken as text. A loop of links ends the following.
fn follow(path: &Path) -> PathBuf {
    let mut walk = Walk { done: PathBuf::from("/"), seen: HashMap::new() };
    let rest = walk.through(path.as_os_str());
    collapsed(&walk.done.join(rest))
}

struct Walk {
    done: PathBuf,
    /// Where each link led; `None` while it is being followed.
    seen: HashMap<PathBuf, Option<PathBuf>>,
}

impl Walk {
    /// Goes on through `path`; what is left is not empty only behind a loop.
    fn through(&mut self, path: &OsStr) -> PathBuf {
        let mut parts = Path::new(path).components();
        while let Some(part) = parts.next() {
            match part {
                Component::RootDir => self.done = PathBuf::from("/"),
                Component::ParentDir => drop(self.done.pop()),
                Component::Normal(name) => {
                    let next = self.done.join(name);
                    if !self.enter(next) {
                        return parts.as_path().to_path_buf();
                    }
                }
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
        PathBuf::new()
    }

    /// Goes to `next`, through it where it is a link. False when that is a loop: then `next` is kept as text.
    fn enter(&mut self, next: PathBuf) -> bool {
        let Ok(target) = fs::read_link(&next) else {
            self.done = next;
            return true;
        };
        match self.seen.get(&next) {
            Some(Some(led)) => {
                self.done.clone_from(led);
                return true;
            }
            Some(None) => {
                self.done = next;
                return false;
            }
            None => {}
        }
        self.seen.insert(next.clone(), None);
        let rest = self.through(target.as_os_str());
        if !rest.as_os_str().is_empty() {
            self.done.push(rest);
            return false;
        }
        self.seen.insert(next, Some(self.done.clone()));
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn inside_is_by_whole_components() {
        let path = |text: &str| Resolved::new(Path::new(text)).unwrap();
        assert!(path("/no/such/dir").is_inside(&path("/no/such")));
        assert!(path("/no/such/").is_inside(&path("/no//./such")));
        assert!(!path("/no/such-dir").is_inside(&path("/no/such")));
        assert!(path("/no").is_inside(&path("/")));
        assert_eq!(Resolved::new(Path::new("no")), None);
        assert_eq!(Resolved::new(Path::new("/a\0b")), None);
    }

    #[test]
    fn links_are_followed_in_the_part_that_exists() {
        let root = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(root.path()).unwrap();
        fs::create_dir(real.join("dir")).unwrap();
        symlink("dir", real.join("link")).unwrap();
        symlink("loop-b", real.join("loop-a")).unwrap();
        symlink("loop-a", real.join("loop-b")).unwrap();
        let resolved = |below: &str| PathBuf::from(Resolved::new(&real.join(below)).unwrap().0);
        assert_eq!(resolved("link"), real.join("dir"));
        assert_eq!(resolved("link/gone/deeper/"), real.join("dir/gone/deeper"));
        assert_eq!(resolved("gone/../link/x"), real.join("dir/x"));
        assert_eq!(resolved("link/../dir"), real.join("dir"));
        assert!(resolved("loop-a/x/../y").starts_with(&real));
    }
}
