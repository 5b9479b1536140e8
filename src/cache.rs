//! What is remembered between reads, so that the next one costs what changed: small files in a private directory.
//!
//! Nothing here is ever needed for an answer. A file that is missing, damaged, of another version or not private is as if
//! it was not there; one that cannot be written is not. Files are replaced in one step and without waiting for the disk:
//! of many readers at once each finds an older file or a newer one, whole, and the last writer wins. There is no text of
//! anybody in them.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Timespec, Timestamps};
use throughline_parsers::text::Digest;
use xxhash_rust::xxh3::xxh3_64;

use crate::private_file::{self, Durability};
use crate::scan::stamps::Moment;

/// The directory of this program among those of other caches.
const DIRECTORY: &str = "throughline";
/// What every file begins with; another format has another one.
const MAGIC: &[u8; 8] = b"tl-mem01";
/// All files together take at most so many bytes.
pub const MOST_BYTES: u64 = 64 << 20;
/// A larger file is not kept: it would push out too many others.
const LARGEST: usize = 16 << 20;
/// A file that is used is marked as such once in so long.
const MARK_USE: Duration = Duration::from_secs(600);
/// What is older was left behind by a process that was killed.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// The cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    directory: PathBuf,
    ahead: Duration,
}

/// What a file of the cache is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Which rollouts there are below a sessions root, and what they are.
    Root,
    /// The threads of one project below a sessions root.
    Project,
    /// What one rollout holds.
    Rollout,
}

impl About {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Root, Self::Project, Self::Rollout];

    /// How its files' names begin.
    pub fn word(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Project => "project",
            Self::Rollout => "rollout",
        }
    }
}

/// The name of one file of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    about: About,
    digest: Digest,
}

impl Name {
    /// Of the file about this subject.
    pub fn of(about: About, subject: &[&[u8]]) -> Self {
        let mut bytes = Vec::new();
        for part in subject {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        Self { about, digest: Digest::of_bytes(&bytes) }
    }

    fn file(&self) -> String {
        format!("{}-{}", self.about.word(), self.digest)
    }
}

impl Cache {
    /// The cache in this directory of caches; absent ones are made when something is stored.
    pub fn below(caches: impl AsRef<Path>) -> Self {
        Self { directory: caches.as_ref().join(DIRECTORY), ahead: Duration::ZERO }
    }

    /// The same as if the clock stood so much later: for tests of what time changes.
    pub fn ahead_by(self, ahead: Duration) -> Self {
        Self { ahead, ..self }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        Moment::now(self.ahead)
    }

    /// The blocks of a file, if it is there and whole.
    pub fn load(&self, name: &Name) -> Option<Blocks> {
        let path = self.directory.join(name.file());
        let file = private_file::open_private(&path).ok()??;
        mark_used(&file);
        Blocks::open(name.about, file)
    }

    /// Stores blocks under a name, as well as that can be done.
    pub fn store(&self, name: &Name, blocks: &[Vec<u8>]) {
        let bytes = sealed(name.about, blocks);
        if bytes.len() > LARGEST {
            return self.forget(name);
        }
        let path = self.directory.join(name.file());
        let before = fs::symlink_metadata(&path).map_or(0, |found| found.len());
        let stored = match private_file::replace(&path, &bytes, Durability::Unsynced) {
            Err(_) if !self.directory.exists() => private_file::make_directory(&self.directory, Durability::Unsynced)
                .and_then(|()| private_file::replace(&path, &bytes, Durability::Unsynced)),
            stored => stored,
        };
        // Whether there is room is looked at when a file has come to take much more of it.
        if stored.is_ok() && room_of(bytes.len() as u64) > room_of(before) {
            self.make_room(&path);
        }
    }

    /// Removes a file.
    pub fn forget(&self, name: &Name) {
        // One that cannot be removed will not be whole, or not fit.
        drop(fs::remove_file(self.directory.join(name.file())));
    }

    /// Where the file of this name is.
    pub fn path(&self, name: &Name) -> PathBuf {
        self.directory.join(name.file())
    }

    /// All files of the cache: the name, the size in bytes, and when each was used last.
    pub fn files(&self) -> Vec<(PathBuf, u64, SystemTime)> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let file = |entry: fs::DirEntry| {
            let found = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((entry.path(), found.len(), found.modified().ok()?))
        };
        entries.flatten().filter_map(file).filter(|file| is_ours(&file.0)).collect()
    }

    /// Reads a file of the cache by its path: what it is about, and its blocks if it is whole.
    pub fn open(path: &Path) -> Option<(About, Option<Blocks>)> {
        let name = path.file_name()?.to_str()?;
        let about = About::ALL.into_iter().find(|about| name.starts_with(about.word()))?;
        let file = private_file::open_private(path).ok().flatten();
        Some((about, file.and_then(|file| Blocks::open(about, file))))
    }

    /// Removes all files of the cache, those too that were to become one, and then the directory, unless something else is
    /// in it. Tells how many files there were, and of how many bytes.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear(&self) -> io::Result<(usize, u64)> {
        let (mut files, mut bytes) = (0, 0);
        for (path, size, _) in self.files() {
            match fs::remove_file(path) {
                // Another process may have done it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => {
                    removed?;
                    (files, bytes) = (files + 1, bytes + size);
                }
            }
        }
        // Only an empty directory can be removed so.
        drop(fs::remove_dir(&self.directory));
        Ok((files, bytes))
    }

    /// Removes the files that were used longest ago, until the rest has room; and what was left behind.
    fn make_room(&self, keep: &Path) {
        let mut files = self.files();
        let is_left_behind = |path: &Path, used: SystemTime| {
            let old = used.elapsed().is_ok_and(|age| age > LEFT_BEHIND);
            old && path.extension().is_some_and(|end| end == "tmp")
        };
        files.sort_by_key(|file| file.2);
        let mut room: u64 = files.iter().map(|file| room_of(file.1)).sum();
        for (path, size, used) in files {
            if is_left_behind(&path, used) || (room > MOST_BYTES && path != keep) {
                room -= room_of(size);
                // Another reader may have done it.
                drop(fs::remove_file(path));
            }
        }
    }
}

/// Whether a file in the cache's directory is one of the cache's, or was to become one.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    About::ALL.into_iter().any(|about| {
        let rest = name.strip_prefix(about.word()).and_then(|rest| rest.strip_prefix('-'));
        rest.and_then(|rest| rest.split_at_checked(64)).is_some_and(|(digest, end)| {
            let is_digest = digest.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
            is_digest && (end.is_empty() || end.ends_with(".tmp"))
        })
    })
}

/// The room that a file is counted with: it may grow to that without a look at all the others.
fn room_of(size: u64) -> u64 {
    size.max(4096).next_power_of_two()
}

/// Marks a file as used now, unless that was done not long ago. What was used longest ago goes first.
fn mark_used(file: &fs::File) {
    let stale = |used: SystemTime| used.elapsed().is_ok_and(|age| age > MARK_USE);
    if file.metadata().and_then(|found| found.modified()).is_ok_and(stale) {
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        // A mark that cannot be set lets the file go sooner, no more.
        let _ = rustix::fs::futimens(file.as_fd(), &Timestamps { last_access: now, last_modification: now });
    }
}

fn sealed(about: About, blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + blocks.iter().map(|block| block.len() + 16).sum::<usize>());
    bytes.extend_from_slice(MAGIC);
    bytes.push(about as u8);
    for block in blocks {
        bytes.extend_from_slice(&(block.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&checksum(about, block).to_le_bytes());
        bytes.extend_from_slice(block);
    }
    bytes
}

fn checksum(about: About, block: &[u8]) -> u64 {
    xxh3_64(block) ^ about as u64
}

/// The blocks of one file, one after the other: each is read and checked when it is asked for.
#[derive(Debug)]
pub struct Blocks {
    about: About,
    file: fs::File,
    size: u64,
    next: u64,
}

impl Blocks {
    fn open(about: About, file: fs::File) -> Option<Self> {
        let size = file.metadata().ok()?.len();
        let mut begin = [0; MAGIC.len() + 1];
        file.read_exact_at(&mut begin, 0).ok()?;
        let next = begin.len() as u64;
        (begin.starts_with(MAGIC) && begin.ends_with(&[about as u8])).then_some(Self { about, file, size, next })
    }

    /// The next block, if it is whole.
    pub fn next_block(&mut self) -> Option<Vec<u8>> {
        let mut head = [0; 16];
        self.file.read_exact_at(&mut head, self.next).ok()?;
        let [len, sum] = [0, 8].map(|at| u64::from_le_bytes(*head[at..].first_chunk().unwrap_or(&[0; 8])));
        let start = self.next + head.len() as u64;
        // A length that is damaged must not ask for memory.
        let end = start.checked_add(len).filter(|end| *end <= self.size)?;
        let mut block = vec![0; usize::try_from(len).ok()?];
        self.file.read_exact_at(&mut block, start).ok()?;
        self.next = end;
        (checksum(self.about, &block) == sum).then_some(block)
    }
}
