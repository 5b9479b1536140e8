//! What the [`Cache`] holds, told to people: the files, what each is about, and whether it is still true.
//!
//! ```
//! use throughline::{Stores, remembered};
//! # let home = tempfile::tempdir()?;
//! let stores = Stores::below(home.path());
//! let status = remembered::status(&stores);
//! assert!(status.on && status.entries.is_empty());
//! assert!(remembered::verify(&stores).is_sound());
//! # Ok::<_, std::io::Error>(())
//! ```

mod verify;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

use throughline_parsers::claude::{NameScan, Turns};

pub use self::verify::{Checked, Report, Verdict, verify};
use crate::cache::{About, Blocks, Cache, MOST_BYTES, MOST_BYTES_OF_AUDITS};
use crate::hooks::claude::captured::Captured;
use crate::hosts::codex::{self, Members};
use crate::paths::Resolved;
use crate::scan::checkpoint::Checkpoint;
use crate::scan::followed::Followed;
use crate::scan::tree::{Table, Tree};
use crate::stores::Stores;

/// What the cache holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// `throughline.cache_status.v1`
    pub schema: &'static str,
    /// Where it is.
    #[serde(serialize_with = "as_text")]
    pub directory: PathBuf,
    /// Whether reads use it: `THROUGHLINE_CACHE=off` has not been set.
    pub on: bool,
    /// The size of all files in bytes.
    pub bytes: u64,
    /// The most that they may take.
    pub most_bytes: u64,
    /// How many files there are of each kind, and of what size.
    pub kinds: [Kind; About::OF_READS.len()],
    /// The files, those first that were used last.
    pub entries: Vec<Entry>,
    /// What audits remember, which is apart from this.
    pub audits: Audits,
}

/// What audits remember.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audits {
    /// Where it is.
    #[serde(serialize_with = "as_text")]
    pub directory: PathBuf,
    /// How many files there are.
    pub files: usize,
    /// The size of all of them in bytes.
    pub bytes: u64,
    /// The most that they may take.
    pub most_bytes: u64,
}

impl Audits {
    fn look(cache: &Cache) -> Self {
        let files = cache.files();
        Self {
            directory: cache.directory().to_owned(),
            files: files.len(),
            bytes: files.iter().map(|file| file.1).sum(),
            most_bytes: MOST_BYTES_OF_AUDITS,
        }
    }
}

/// The files of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// What they are about: `root`, `project`, `rollout`, `transcript` or `captured`.
    pub about: &'static str,
    /// How many there are.
    pub files: usize,
    /// The size of all of them in bytes.
    pub bytes: u64,
}

/// A file of the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its name in the directory.
    pub file: String,
    /// What it is about: `root`, `project`, `rollout`, `transcript` or `captured`.
    pub about: &'static str,
    /// Its size.
    pub bytes: u64,
    /// When it was used last, in milliseconds since the epoch, to ten minutes or so.
    pub used_at: u64,
    /// How it is.
    pub state: State,
    /// What it is about, if it is whole.
    #[serde(flatten)]
    pub subject: Option<Subject>,
}

/// How a file of the cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it was written.
    Whole,
    /// Not as it was written, of another version, or not private: it is not used.
    Damaged,
    /// Being written, or left behind by a process that was killed.
    Temporary,
}

/// What a file of the cache is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Subject {
    /// The rollouts below a sessions root.
    Root {
        /// The root.
        #[serde(serialize_with = "as_text")]
        root: PathBuf,
    },
    /// The threads of a project.
    Project {
        /// The project.
        #[serde(serialize_with = "as_text")]
        project: PathBuf,
        /// The sessions root.
        #[serde(serialize_with = "as_text")]
        root: PathBuf,
    },
    /// A rollout.
    Rollout {
        /// Its path, without `.zst`.
        #[serde(serialize_with = "as_text")]
        rollout: PathBuf,
        /// It is read as if it ended here: another file of its thread goes on from there.
        cut_at: Option<u64>,
        /// What is in front of this byte is remembered.
        read_to: u64,
        /// The size of the file then.
        size: u64,
    },
    /// A transcript.
    Transcript {
        /// Its path.
        #[serde(serialize_with = "as_text")]
        transcript: PathBuf,
        /// What is in front of this byte is remembered.
        read_to: u64,
        /// The size of the file then.
        size: u64,
    },
    /// What the database has of a log.
    Captured {
        /// The path of the log.
        #[serde(serialize_with = "as_text")]
        log: PathBuf,
        /// How many of its turns need no other look while the database stays as it is.
        turns: u64,
    },
}

/// Looks at the files of the cache, whether or not reads use it.
pub fn status(stores: &Stores) -> Status {
    let cache = cache_of(stores);
    let mut files = cache.files();
    files.sort_by(|a, b| (b.2, &a.0).cmp(&(a.2, &b.0)));
    let entries: Vec<Entry> = files.into_iter().filter_map(|(path, size, used)| entry(&path, size, used)).collect();
    let kind = |about: About| {
        let of_it = entries.iter().filter(|entry| entry.about == about.word());
        Kind { about: about.word(), files: of_it.clone().count(), bytes: of_it.map(|entry| entry.bytes).sum() }
    };
    Status {
        schema: "throughline.cache_status.v1",
        directory: cache.directory().to_owned(),
        on: stores.cache.is_some(),
        bytes: entries.iter().map(|entry| entry.bytes).sum(),
        most_bytes: MOST_BYTES,
        kinds: About::OF_READS.map(kind),
        entries,
        audits: Audits::look(&cache.of_audits(&stores.cache_home)),
    }
}

/// What was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// Where the cache was.
    pub directory: PathBuf,
    /// How many files it had.
    pub files: usize,
    /// The size of all of them in bytes.
    pub bytes: u64,
    /// The directory is still there: something else is in it.
    pub has_others: bool,
    /// How many files audits had, and the size of all of them.
    pub of_audits: (usize, u64),
}

/// Removes the cache, whether or not reads use it. Nothing is lost: the next read takes longer.
///
/// # Errors
/// A file cannot be removed.
pub fn clear(stores: &Stores) -> std::io::Result<Cleared> {
    let cache = cache_of(stores);
    let (files, bytes) = cache.clear()?;
    let directory = cache.directory().to_owned();
    let of_audits = cache.of_audits(&stores.cache_home).clear()?;
    Ok(Cleared { files, bytes, has_others: directory.exists(), of_audits, directory })
}

/// The cache, whether or not reads use it.
fn cache_of(stores: &Stores) -> Cache {
    stores.cache.clone().unwrap_or_else(|| Cache::below(&stores.cache_home))
}

/// What a file holds, as it is compared.
enum Content {
    Root(PathBuf, Tree),
    Project(PathBuf, Resolved, Vec<u8>),
    Rollout(Box<Checkpoint>),
    Turns(Box<Followed<Turns>>),
    Names(Box<Followed<NameScan>>),
    Captured(PathBuf, u64),
}

fn of_transcript<S>(followed: &Followed<S>) -> Subject {
    Subject::Transcript { transcript: followed.path.clone(), read_to: followed.offset, size: followed.stamps.size }
}

impl Content {
    /// Reads the rest of a file; `None` when it is not whole.
    fn of(about: About, mut blocks: Blocks) -> Option<Self> {
        match about {
            About::Root => {
                let (table, rest) = (blocks.next_block()?, blocks.next_block()?);
                let root = Table::root(&table)?;
                let tree = Tree::take_up(&root, table, &rest)?;
                Some(Self::Root(root, tree))
            }
            About::Project => {
                let saved = blocks.next_block()?;
                let (root, project) = Members::of(&saved)?;
                Some(Self::Project(root, project, saved))
            }
            About::Rollout => {
                Checkpoint::unpack(&mut blocks).and_then(Checkpoint::joined).map(Box::new).map(Self::Rollout)
            }
            About::Transcript => {
                let block = blocks.next_block()?;
                let turns = || Followed::unpack(&block).map(Box::new).map(Self::Turns);
                turns().or_else(|| Followed::unpack(&block).map(Box::new).map(Self::Names))
            }
            About::Captured => {
                let first = blocks.next_block()?;
                // A transcript's has one block, a thread's more.
                let (log, turns) = codex::captured::Captured::about(&mut blocks).or_else(|| Captured::about(&first))?;
                Some(Self::Captured(log, turns))
            }
            // It is not in this cache.
            About::Audit => None,
        }
    }

    fn subject(&self) -> Subject {
        match self {
            Self::Root(root, _) => Subject::Root { root: root.clone() },
            Self::Project(root, project, _) => Subject::Project { project: project.path(), root: root.clone() },
            Self::Rollout(checkpoint) => Subject::Rollout {
                rollout: checkpoint.of.path.clone(),
                cut_at: checkpoint.of.end,
                read_to: checkpoint.state.offset,
                size: checkpoint.stamps.size,
            },
            Self::Turns(followed) => of_transcript(followed),
            Self::Names(followed) => of_transcript(followed),
            Self::Captured(log, turns) => Subject::Captured { log: log.clone(), turns: *turns },
        }
    }
}

fn entry(path: &Path, bytes: u64, used: SystemTime) -> Option<Entry> {
    let (about, blocks) = Cache::open(path)?;
    let is_temporary = path.extension().is_some_and(|end| end == "tmp");
    let content = blocks.filter(|_| !is_temporary).and_then(|blocks| Content::of(about, blocks));
    let state = match &content {
        _ if is_temporary => State::Temporary,
        Some(_) => State::Whole,
        None => State::Damaged,
    };
    let since = used.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(Entry {
        file: path.file_name()?.to_str()?.to_owned(),
        about: about.word(),
        bytes,
        used_at: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        state,
        subject: content.map(|content| content.subject()),
    })
}

/// A path as text; bytes that are no UTF-8 read as U+FFFD.
fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
