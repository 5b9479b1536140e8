//! The threads that can be the project's, each with what is known of it: what its files were at the last look, and where
//! its chain ends. That is all that the choice of the parent needs.

use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use smallvec::SmallVec;
use throughline_parsers::codex::{Meta, Uuid};
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use throughline_parsers::text::Digest;

use super::super::{Candidate, Needs};
use super::threads::{File, session};
use crate::chain::{Chain, End, Host};
use crate::paths::Resolved;
use crate::scan::folders::Listed;
use crate::scan::stamps::{Moment, Stamps};
use crate::scan::tree::Tree;

/// The members of one project below one root.
#[derive(Debug, Default)]
pub struct Members {
    /// The content of the tree that they were gathered from.
    pub content: u64,
    /// The working directories of the project that rollouts name, in order.
    pub cwds: Vec<String>,
    /// The threads, in no order.
    pub members: Vec<Member>,
    /// What the remembered ones stand in.
    bytes: Vec<u8>,
}

/// One thread.
#[derive(Debug)]
pub enum Member {
    /// As it is remembered.
    Remembered(Remembered),
    /// To be read.
    Unread {
        /// Its files.
        files: Vec<File>,
        /// It was read before.
        again: bool,
    },
    /// As it was read.
    Read {
        /// Its files.
        files: Vec<File>,
        /// Its chain; without pairs where it is not the project's.
        chain: Chain,
    },
}

/// A thread as it is remembered. Places are those in the bytes of all.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// SHA-256 of the thread's id.
    pub digest: Digest,
    /// The thread.
    pub thread: Uuid,
    /// Where its chain ends; `None` when it has no pair, or is not the project's.
    pub end: Option<End>,
    files: SmallVec<[Looked; 1]>,
    /// All of it.
    whole: Range<usize>,
    /// The part that says which files, and what they say.
    said: Range<usize>,
}

#[derive(Clone, Debug)]
struct Looked {
    /// Below the root, with the name of the file that is there.
    path: Range<usize>,
    stamps: Stamps,
    taken: Moment,
}

impl Members {
    /// The members of the project in a tree. What an `earlier` look remembers of a thread stays, if its files are the same
    /// and say the same.
    pub fn gather(root: &Path, tree: &Tree, content: u64, project: &Resolved, earlier: Option<Self>) -> Self {
        let mut threads: HashMap<Uuid, Vec<File>> = HashMap::new();
        let is_inside: HashMap<&str, bool> =
            tree.places().map(|(cwd, place)| (cwd, place.is_some_and(|place| place.is_inside(project)))).collect();
        let ours = |meta: &Meta| meta.root && meta.cwd.as_deref().is_some_and(|cwd| is_inside.get(cwd) == Some(&true));
        for (known, meta) in tree.threads().filter(|(_, meta)| ours(meta)) {
            threads.entry(meta.thread().unwrap_or(known.listed.name.thread)).or_default();
        }
        for (known, meta) in tree.threads() {
            if let Some(files) = threads.get_mut(&meta.thread().unwrap_or(known.listed.name.thread)) {
                let (listed, meta) = (known.listed.clone(), meta.clone());
                files.push(File { listed, meta, stamps: known.stamps, taken: known.taken });
            }
        }
        let inside = is_inside.iter().filter(|(_, inside)| **inside);
        let mut cwds: Vec<String> = inside.map(|(cwd, _)| (*cwd).to_owned()).collect();
        cwds.sort_unstable();
        let earlier = earlier.unwrap_or_default();
        let remembered = earlier.members.into_iter().filter_map(|member| match member {
            Member::Remembered(remembered) => Some((remembered.thread, remembered)),
            _ => None,
        });
        let mut remembered: HashMap<Uuid, Remembered> = remembered.collect();
        let bytes = earlier.bytes;
        let member = |(thread, mut files): (Uuid, Vec<File>)| {
            files.sort_unstable_by(|a, b| a.listed.path.cmp(&b.listed.path));
            let same = |known: &Remembered| bytes[known.said.clone()] == said(root, &files);
            match remembered.remove(&thread) {
                Some(known) if same(&known) => Member::Remembered(known),
                known => Member::Unread { files, again: known.is_some() },
            }
        };
        let members = threads.into_iter().map(member).collect();
        Self { content, cwds, members, bytes }
    }

    /// The files of a remembered thread, each as it was at the last look.
    pub fn files(&self, root: &Path, member: &Remembered) -> Option<Vec<File>> {
        let mut unpacker = Unpacker::new(&self.bytes[member.said.clone()]);
        let mut files = Vec::new();
        unpacker.number()?;
        for Looked { stamps, taken, .. } in &member.files {
            let path = root.join(Path::new(std::ffi::OsStr::from_bytes(unpacker.counted()?)));
            let listed = Listed::named(path.parent()?, path.file_name()?.to_str()?)?;
            let meta = Meta::unpack(&mut Unpacker::new(unpacker.counted()?))?;
            files.push(File { listed, meta, stamps: *stamps, taken: *taken });
        }
        Some(files)
    }

    /// Whether none of the files of a remembered thread can have changed since the last look.
    pub fn is_unchanged(&self, root: &Root, member: &Remembered) -> bool {
        member.files.iter().all(|looked| {
            looked.stamps.settled(looked.taken)
                && root.stamps(&self.bytes[looked.path.clone()]).is_some_and(|stamps| stamps == looked.stamps)
        })
    }

    /// A member of which the whole chain is needed and is not known.
    pub fn lacking(&self, needs: Needs<'_>) -> Option<usize> {
        let ends = || self.members.iter().enumerate().filter_map(|(n, member)| Some((n, member, member.end()?)));
        let (current, ..) = ends().max_by_key(|(_, member, end)| end.rank(member.digest()))?;
        let lacks = |(n, member, end): (usize, &Member, End)| {
            let known = matches!(member, Member::Read { .. });
            (!known && needs(member.digest(), &end, n == current)).then_some(n)
        };
        ends().find_map(lacks)
    }

    /// The members that have a pair.
    pub fn into_candidates(self) -> Vec<Candidate> {
        let candidate = |member| match member {
            Member::Remembered(Remembered { thread, digest, end, .. }) => {
                Some(Candidate::ending(Host::Codex, digest, end?, session(thread)))
            }
            Member::Read { files, chain } => Candidate::whole(chain, 1, session(files.first()?.thread())),
            Member::Unread { .. } => None,
        };
        self.members.into_iter().filter_map(candidate).collect()
    }

    /// The members as they are saved.
    pub fn save(&self, root: &Path, project: &Resolved) -> Vec<u8> {
        let mut packer = Packer::default();
        packer.counted(root.as_os_str().as_bytes());
        packer.counted(project.as_bytes());
        packer.number(self.content);
        packer.all(&self.cwds);
        packer.number(self.members.len() as u64);
        for member in &self.members {
            match member {
                Member::Remembered(remembered) => packer.counted(&self.bytes[remembered.whole.clone()]),
                Member::Unread { .. } => packer.counted(&[]),
                Member::Read { files, chain } => packer.counted(&record(root, files, chain)),
            }
        }
        packer.finish()
    }

    /// Takes members up again; `None` when they are not this project's below this root.
    pub fn take_up(root: &Path, project: &Resolved, bytes: Vec<u8>) -> Option<Self> {
        let mut unpacker = Unpacker::new(&bytes);
        let same = unpacker.counted()? == root.as_os_str().as_bytes() && unpacker.counted()? == project.as_bytes();
        if !same {
            return None;
        }
        let (content, cwds) = (unpacker.number()?, unpacker.all()?);
        let mut members = Vec::new();
        for _ in 0..unpacker.number()? {
            let record = unpacker.counted()?;
            let start = bytes.len() - unpacker.left() - record.len();
            if !record.is_empty() {
                members.push(Member::Remembered(Remembered::unpack(record, start)?));
            }
        }
        Some(Self { content, cwds, members, bytes })
    }

    /// The root and the project that saved members are of.
    pub fn of(bytes: &[u8]) -> Option<(PathBuf, Resolved)> {
        let mut unpacker = Unpacker::new(bytes);
        let root = PathBuf::from(std::ffi::OsStr::from_bytes(unpacker.counted()?));
        Some((root, Resolved::from_saved(unpacker.counted()?)))
    }
}

impl Member {
    /// Where its chain ends, if it is known to have a pair.
    pub fn end(&self) -> Option<End> {
        match self {
            Self::Remembered(remembered) => remembered.end,
            Self::Unread { .. } => None,
            Self::Read { chain, .. } => chain.end(),
        }
    }

    /// SHA-256 of the thread's id, if it has an end.
    fn digest(&self) -> Digest {
        match self {
            Self::Remembered(remembered) => remembered.digest,
            Self::Unread { .. } => Digest::of(""),
            Self::Read { chain, .. } => chain.thread,
        }
    }
}

/// What the files of a thread are, and what they say.
fn said(root: &Path, files: &[File]) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.number(files.len() as u64);
    for File { listed, meta, .. } in files {
        let path = listed.file();
        packer.counted(path.strip_prefix(root).unwrap_or(&path).as_os_str().as_bytes());
        let mut said = Packer::default();
        meta.pack(&mut said);
        packer.counted(&said.finish());
    }
    packer.finish()
}

fn record(root: &Path, files: &[File], chain: &Chain) -> Vec<u8> {
    let Some(thread) = files.first().map(File::thread) else { return Vec::new() };
    let mut packer = Packer::default();
    thread.pack(&mut packer);
    chain.thread.pack(&mut packer);
    chain.end().pack(&mut packer);
    packer.counted(&said(root, files));
    for File { stamps, taken, .. } in files {
        stamps.pack(&mut packer);
        taken.pack(&mut packer);
    }
    packer.finish()
}

impl Remembered {
    /// Reads the record that stands at `start` in the bytes of all.
    fn unpack(record: &[u8], start: usize) -> Option<Self> {
        let mut unpacker = Unpacker::new(record);
        let (thread, digest) = (Uuid::unpack(&mut unpacker)?, Digest::unpack(&mut unpacker)?);
        let end = Option::unpack(&mut unpacker)?;
        let text = unpacker.counted()?;
        let said_end = start + record.len() - unpacker.left();
        let mut said = Unpacker::new(text);
        let mut files = SmallVec::new();
        for _ in 0..said.number()? {
            let path = said.counted()?;
            let path_end = said_end - said.left();
            said.counted()?;
            let (stamps, taken) = (Stamps::unpack(&mut unpacker)?, Moment::unpack(&mut unpacker)?);
            files.push(Looked { path: path_end - path.len()..path_end, stamps, taken });
        }
        let (whole, said) = (start..start + record.len(), said_end - text.len()..said_end);
        (!files.is_empty() && unpacker.is_at_end()).then_some(Self { digest, thread, end, files, whole, said })
    }
}

impl Pack for End {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.length as u64);
        self.digest.pack(packer);
        packer.signed(self.completed_at);
        self.source.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let length = unpacker.index().filter(|length| *length > 0)?;
        let (digest, completed_at) = (Digest::unpack(unpacker)?, unpacker.signed()?);
        Some(Self { length, digest, completed_at, source: Digest::unpack(unpacker)? })
    }
}

/// An open sessions root: files below it are looked at without a walk along the path to it.
#[derive(Debug)]
pub struct Root(OwnedFd);

impl Root {
    /// Opens a root; `None` when it is not there.
    pub fn open(path: &Path) -> Option<Self> {
        rustix::fs::open(path, OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok().map(Self)
    }

    fn stamps(&self, below: &[u8]) -> Option<Stamps> {
        let found = Stamps::of_path(self.0.as_fd(), Path::new(std::ffi::OsStr::from_bytes(below))).ok()??;
        found.is_file().then_some(found.stamps)
    }
}
