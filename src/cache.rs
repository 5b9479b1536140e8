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
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Timespec, Timestamps};
use throughline_parsers::text::Digest;
use xxhash_rust::xxh3::xxh3_64;

use crate::cores::elsewhere;
use crate::private_file::{self, Durability, Part};
use crate::scan::stamps::Moment;

/// The directory of this program among those of other caches.
const DIRECTORY: &str = "throughline";
/// What every file begins with. Another format has another one, and so has another release: it may make something else of
/// the same rows, and what is remembered would hide that for ever.
const MAGIC: &[u8] = concat!("tl-mem05 ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();
/// All files together take at most so many bytes.
pub const MOST_BYTES: u64 = 64 << 20;
/// A larger file is not kept: it would push out too many others.
const LARGEST: u64 = 16 << 20;
/// Audits look at whole stores: what they remember is apart, so that it pushes out nothing that a poll needs.
const OF_AUDITS: &str = "throughline-audit";
/// What audits remember takes at most so many bytes.
pub const MOST_BYTES_OF_AUDITS: u64 = 256 << 20;
const LARGEST_OF_AUDITS: u64 = 64 << 20;
/// Of a long rollout so many turns stay at hand: many pages of them, and few enough for a poll.
const RECENT_TURNS: usize = 256;
/// A file that is used is marked as such once in so long, and as often what was left behind is looked for.
const PERIOD: Duration = Duration::from_secs(600);
/// Of what is left of the room one process takes at most this part before it looks again: others take theirs meanwhile.
const SHARE: u64 = 16;
/// What is older was left behind by a process that was killed.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// The cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    directory: PathBuf,
    ahead: Duration,
    most_bytes: u64,
    largest: u64,
    recent_turns: usize,
    room: Room,
    aside: Aside,
}

/// The threads that write for a read while it goes on.
#[derive(Clone, Debug, Default)]
struct Aside(Arc<Mutex<Vec<JoinHandle<()>>>>);

/// Who writes makes no other cache of it.
impl PartialEq for Aside {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Aside {}

/// How many bytes this process may yet store before it looks whether there is room; `None` before the first look. What
/// one has looked at makes no other cache of it.
#[derive(Clone, Debug, Default)]
struct Room(Arc<Mutex<Option<u64>>>);

impl PartialEq for Room {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Room {}

/// What a file of the cache is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Which rollouts there are below a sessions root, and what they are.
    Root,
    /// The threads of one project below a sessions root.
    Project,
    /// What one rollout holds.
    Rollout,
    /// What was made of one transcript.
    Transcript,
    /// What the database has of one transcript, or of one thread.
    Captured,
    /// What an audit made of the logs of a folder, of the database, or of a large log up to a place in it.
    Audit,
}

impl About {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Root, Self::Project, Self::Rollout, Self::Transcript, Self::Captured, Self::Audit];
    /// Those that reads and hooks remember.
    pub const OF_READS: [Self; 5] = [Self::Root, Self::Project, Self::Rollout, Self::Transcript, Self::Captured];

    /// How its files' names begin.
    pub fn word(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Project => "project",
            Self::Rollout => "rollout",
            Self::Transcript => "transcript",
            Self::Captured => "captured",
            Self::Audit => "audit",
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
        Self::in_directory(caches.as_ref().join(DIRECTORY))
    }

    fn in_directory(directory: PathBuf) -> Self {
        Self {
            directory,
            ahead: Duration::ZERO,
            most_bytes: MOST_BYTES,
            largest: LARGEST,
            recent_turns: RECENT_TURNS,
            room: Room::default(),
            aside: Aside::default(),
        }
    }

    /// What audits remember beside this cache, in the same directory of caches.
    #[must_use]
    pub fn of_audits(&self, caches: impl AsRef<Path>) -> Self {
        let directory = caches.as_ref().join(OF_AUDITS);
        let (most_bytes, largest) = (MOST_BYTES_OF_AUDITS, LARGEST_OF_AUDITS);
        Self { most_bytes, largest, ahead: self.ahead, ..Self::in_directory(directory) }
    }

    /// The same as if the clock stood so much later: for tests of what time changes.
    pub fn ahead_by(self, ahead: Duration) -> Self {
        Self { ahead, ..self }
    }

    /// The same cache with so many turns of a long rollout at hand.
    #[must_use]
    pub fn with_recent_turns(self, recent_turns: usize) -> Self {
        Self { recent_turns, ..self }
    }

    /// How many turns of a long rollout stay at hand.
    pub fn recent_turns(&self) -> usize {
        self.recent_turns
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
        if mark_used(&file) && self.takes_room(0, true) {
            self.make_room(&path);
        }
        Blocks::open(name.about, file)
    }

    /// Stores blocks under a name, as well as that can be done.
    pub fn store(&self, name: &Name, blocks: &[Vec<u8>]) {
        self.store_with(name, blocks, None);
    }

    /// The same, and behind them blocks as they stand in another file about the same.
    pub fn store_with(&self, name: &Name, blocks: &[Vec<u8>], stored: Option<&Stored>) {
        let heads: Vec<Vec<u8>> = blocks.iter().enumerate().map(|(n, block)| head(name.about, n == 0, block)).collect();
        let parts = heads.iter().zip(blocks).flat_map(|(head, block)| [&head[..], block]).map(Part::Bytes);
        let stored = stored.map(|stored| Part::Of(&stored.file, stored.start, stored.len));
        let parts: Vec<Part<'_>> = parts.chain(stored).collect();
        let size = parts.iter().map(Part::size).sum();
        if size > self.largest {
            return self.forget(name);
        }
        let path = self.directory.join(name.file());
        let before = fs::symlink_metadata(&path).ok();
        let replace = || private_file::replace_with_parts(&path, &parts, Durability::Unsynced);
        let stored = match replace() {
            Err(_) if !self.directory.exists() => {
                private_file::make_directory(&self.directory, Durability::Unsynced).and_then(|()| replace())
            }
            stored => stored,
        };
        let room_before = before.as_ref().map_or(0, |found| room_of(found.len()));
        let first_in_period =
            before.and_then(|found| found.modified().ok()).is_some_and(|then| !is_in_period_of_now(then));
        let grown = room_of(size).saturating_sub(room_before);
        if stored.is_ok() && self.takes_room(grown, first_in_period) {
            self.make_room(&path);
        }
    }

    /// Does a large piece of work with the cache on a thread of its own, until [`finish`](Self::finish).
    pub fn aside(&self, work: impl FnOnce(&Self) + Send + 'static) {
        let cache = Self { aside: Aside::default(), ..self.clone() };
        let handle = thread::spawn(elsewhere(move || work(&cache)));
        self.aside.0.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }

    /// Waits for what is done aside. A program that ends without that loses what was to be stored.
    pub fn finish(&self) {
        for handle in std::mem::take(&mut *self.aside.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            // What it could not do is as if it had not been tried.
            drop(handle.join());
        }
    }

    /// Takes so much of the room; true when somebody has to look how much of it there is. `seldom` asks for that too, once
    /// in this process.
    fn takes_room(&self, bytes: u64, seldom: bool) -> bool {
        let mut left = self.room.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (looked, enough) = (left.is_some(), left.and_then(|left| left.checked_sub(bytes)));
        match (bytes, enough) {
            (0, _) => seldom && !looked,
            (_, None) => true,
            (_, enough) => {
                *left = enough;
                false
            }
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

    /// Removes what was left behind, and where the rest takes too much, the files that were used longest ago.
    fn make_room(&self, keep: &Path) {
        let mut files = self.files();
        files.sort_by_key(|file| file.2);
        let mut room: u64 = files.iter().map(|file| room_of(file.1)).sum();
        // Some more than is needed, so that the next file finds room.
        let most = if room > self.most_bytes { self.most_bytes - self.most_bytes / 8 } else { self.most_bytes };
        for (path, size, used) in files {
            if is_left_behind(&path, used) || (room > most && path != keep) {
                room -= room_of(size);
                // Another reader may have done it.
                drop(fs::remove_file(path));
            }
        }
        let left = self.most_bytes.saturating_sub(room) / SHARE;
        *self.room.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
    }
}

/// Whether a process that was killed has left this file behind while it was written.
fn is_left_behind(path: &Path, used: SystemTime) -> bool {
    let old = used.elapsed().is_ok_and(|age| age > LEFT_BEHIND);
    old && path.extension().is_some_and(|end| end == "tmp")
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

/// Whether it is the same period of some minutes as now.
fn is_in_period_of_now(then: SystemTime) -> bool {
    let period = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / PERIOD.as_secs();
    period(then) == period(SystemTime::now())
}

/// Marks a file as used now and gives true, unless that was done not long ago. What was used longest ago goes first.
fn mark_used(file: &fs::File) -> bool {
    let stale = |used: SystemTime| used.elapsed().is_ok_and(|age| age > PERIOD);
    let is_stale = file.metadata().and_then(|found| found.modified()).is_ok_and(stale);
    if is_stale {
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        // A mark that cannot be set lets the file go sooner, no more.
        let _ = rustix::fs::futimens(file.as_fd(), &Timestamps { last_access: now, last_modification: now });
    }
    is_stale
}

/// What stands in front of a block; in front of the first one, what kind of file it is, too.
fn head(about: About, first: bool, block: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    if first {
        head.extend_from_slice(MAGIC);
        head.push(about as u8);
    }
    head.extend_from_slice(&(block.len() as u64).to_le_bytes());
    head.extend_from_slice(&checksum(about, block).to_le_bytes());
    head
}

fn checksum(about: About, block: &[u8]) -> u64 {
    xxh3_64(block) ^ about as u64
}

/// Blocks as they stand in a file of the cache.
#[derive(Clone, Debug)]
pub struct Stored {
    about: About,
    file: Arc<fs::File>,
    start: u64,
    len: u64,
}

impl Stored {
    /// The block whose head stands so many bytes behind the first one's, if it is whole.
    pub fn block(&self, at: u64) -> Option<Vec<u8>> {
        let (about, file, size) = (self.about, Arc::clone(&self.file), self.start + self.len);
        Blocks { about, file, size, next: self.start.checked_add(at)? }.next_block()
    }
}

/// What a block of so many bytes takes in a file.
pub fn stored_len(block: u64) -> u64 {
    block.saturating_add(HEAD)
}

/// What stands in front of a block takes so many bytes.
const HEAD: u64 = 16;

/// The blocks of one file, one after the other: each is read and checked when it is asked for.
#[derive(Debug)]
pub struct Blocks {
    about: About,
    file: Arc<fs::File>,
    size: u64,
    next: u64,
}

impl Blocks {
    fn open(about: About, file: fs::File) -> Option<Self> {
        // A larger one is not ours, and must not ask for memory.
        let size = file.metadata().ok()?.len().min(LARGEST_OF_AUDITS);
        let mut begin = [0; MAGIC.len() + 1];
        file.read_exact_at(&mut begin, 0).ok()?;
        let next = begin.len() as u64;
        (begin.starts_with(MAGIC) && begin.ends_with(&[about as u8])).then(|| Self {
            about,
            file: Arc::new(file),
            size,
            next,
        })
    }

    /// What follows, so many bytes of blocks, to be read later; `None` when there is not so much.
    pub fn stored(&self, len: u64) -> Option<Stored> {
        let fits = self.next.checked_add(len).is_some_and(|end| end <= self.size);
        fits.then(|| Stored { about: self.about, file: Arc::clone(&self.file), start: self.next, len })
    }

    /// The next block, if it is whole.
    pub fn next_block(&mut self) -> Option<Vec<u8>> {
        let mut head = [0; HEAD as usize];
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn name(n: u64) -> Name {
        Name::of(About::Rollout, &[&n.to_le_bytes()])
    }

    fn path(cache: &Cache, name: &Name) -> PathBuf {
        cache.directory.join(name.file())
    }

    #[test]
    fn what_another_release_has_remembered_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::below(folder.path());
        cache.store(&name(1), &[vec![1; 10]]);
        let path = path(&cache, &name(1));
        let bytes = fs::read(&path).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        assert!(bytes.starts_with(format!("tl-mem05 {version}\n").as_bytes()));
        let mut other = format!("tl-mem05 {version}0\n").into_bytes();
        other.extend_from_slice(&bytes[MAGIC.len()..]);
        fs::write(path, other).unwrap();
        assert!(cache.load(&name(1)).is_none());
    }

    fn set_used(path: &Path, seconds_ago: u64) {
        let used = SystemTime::now() - Duration::from_secs(seconds_ago);
        fs::File::open(path).unwrap().set_modified(used).unwrap();
    }

    #[test]
    fn the_files_used_longest_ago_go_and_the_rest_fits() {
        // Many small files or some large ones; stored by one process, or each by one of its own.
        for (size, count, together) in [(100, 600, true), (100, 300, false), (30_000, 60, true), (30_000, 60, false)] {
            let folder = tempfile::tempdir().unwrap();
            let limited = |cache: Cache| Cache { most_bytes: 1 << 20, ..cache };
            let mut cache = limited(Cache::below(folder.path()));
            for n in 0..count {
                if !together {
                    cache = limited(Cache::below(folder.path()));
                }
                cache.store(&name(n), &[vec![7; size]]);
                assert!(cache.load(&name(n)).unwrap().next_block().is_some(), "the one just written stays");
                // Sorted by when they were used, though they were written in one moment.
                set_used(&path(&cache, &name(n)), 500 - n * 400 / count);
                let used: u64 = cache.files().iter().map(|file| room_of(file.1)).sum();
                assert!(used <= cache.most_bytes, "{used} bytes after {n} of {size}");
            }
            let kept: Vec<bool> = (0..count).map(|n| cache.load(&name(n)).is_some()).collect();
            let gone = kept.iter().position(|kept| *kept).unwrap();
            assert!(gone > 0 && kept[gone..].iter().all(|kept| *kept), "{kept:?}");
            assert!(cache.files().len() as u64 * room_of(size as u64) > (1 << 20) / 4 * 3, "no more go than have to");
        }
    }

    #[test]
    fn one_that_is_too_large_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::below(folder.path());
        cache.store(&name(1), &[vec![1; 10]]);
        cache.store(&name(1), &[vec![1; LARGEST as usize]]);
        assert!(cache.load(&name(1)).is_none() && cache.files().is_empty());
        // One that has come to be as large by damage asks for no memory.
        cache.store(&name(1), &[vec![1; 10]]);
        let file = fs::OpenOptions::new().write(true).open(path(&cache, &name(1))).unwrap();
        file.write_all_at(&(1_u64 << 40).to_le_bytes(), MAGIC.len() as u64 + 1).unwrap();
        file.set_len(1 << 41).unwrap();
        assert!(cache.load(&name(1)).unwrap().next_block().is_none());
    }

    #[test]
    fn what_a_killed_process_left_goes_in_some_minutes_whether_files_are_stored_or_only_used() {
        let folder = tempfile::tempdir().unwrap();
        let cache = || Cache::below(folder.path());
        for n in 0..3 {
            cache().store(&name(n), &[vec![1; 10]]);
        }
        let left_behind = |seconds_ago| {
            let left = cache().directory.join(format!("{}.{seconds_ago}.0.tmp", name(9).file()));
            fs::write(&left, "half").unwrap();
            set_used(&left, seconds_ago);
            left
        };
        let (old, new) = (left_behind(61), left_behind(0));
        // Used after a while.
        cache().load(&name(0)).unwrap();
        assert!(old.exists(), "not each time");
        set_used(&path(&cache(), &name(0)), 601);
        cache().load(&name(0)).unwrap();
        assert!(!old.exists() && new.exists());
        // Stored once more, a while after it was.
        left_behind(61);
        set_used(&path(&cache(), &name(1)), 601);
        cache().store(&name(1), &[vec![2; 10]]);
        assert!(!old.exists() && new.exists());
        // A new one.
        left_behind(61);
        cache().store(&name(4), &[vec![2; 10]]);
        assert!(!old.exists() && new.exists());
    }
}
