//! The threads that can be the project's, each with what is known of it: what its files were at the last look, and where
//! its chain ends. That is all that the choice of the parent needs.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use throughline_parsers::codex::{Meta, Uuid};
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use throughline_parsers::text::Digest;

use super::super::{Candidate, Need, Needs};
use super::threads::{File, session};
use crate::chain::{Chain, End, Host};
use crate::paths::Resolved;
use crate::scan::folders::{Listed, plain};
use crate::scan::looks::{self, Looks};
use crate::scan::root::Root;
use crate::scan::stamps::{Moment, Stamps};
use crate::scan::tree::{Identity, Known, Table, Tree, pack_meta, unpack_meta};

/// The members of one project below one root.
#[derive(Debug, Default)]
pub struct Members {
    /// The content of the tree that they were gathered from.
    pub content: u64,
    /// The working directories of the project that rollouts name, in order.
    pub cwds: Vec<String>,
    /// The threads, in no order.
    pub members: Vec<Member>,
    /// The rollouts that do not say yet whose they are: their paths, those of the plain files.
    pub unknown: Vec<PathBuf>,
    /// What the remembered ones stand in.
    bytes: Arc<Vec<u8>>,
}

/// One thread.
#[derive(Debug)]
pub enum Member {
    /// As it is remembered: where its record stands in the bytes of all.
    Remembered(Range<usize>),
    /// To be read.
    Unread {
        /// Its files.
        files: Vec<File>,
        /// What it was, if it was read before.
        was: Option<Box<Was>>,
    },
    /// As it was read.
    Read(Box<Read>),
}

/// What a thread was that is to be read again.
#[derive(Debug, Default)]
pub struct Was {
    /// Where its chain ended.
    pub end: Option<End>,
    /// What each of its files was, and when.
    pub files: Vec<(Stamps, Moment)>,
}

/// A thread that was read.
#[derive(Debug)]
pub struct Read {
    /// Its files.
    pub files: Vec<File>,
    /// Its chain; without pairs where it is not the project's.
    pub chain: Chain,
}

impl Read {
    /// Where its chain ends, and SHA-256 of its id; `None` without a pair.
    pub fn end(&self) -> Option<(Digest, End)> {
        Some((self.chain.thread, self.chain.end()?))
    }

    /// Whether it tells more than what it was. That its files are still the same does only once nothing can have been
    /// written that does not show.
    pub fn is_news(&self, was: &Was) -> bool {
        let is_known = |(file, (stamps, taken)): (&File, &(Stamps, Moment))| {
            file.stamps == *stamps && (stamps.settled(*taken) || !file.stamps.settled(file.taken))
        };
        self.chain.end() != was.end
            || self.files.len() != was.files.len()
            || !self.files.iter().zip(&was.files).all(is_known)
    }
}

/// A thread as it is remembered.
#[derive(Clone, Copy, Debug)]
pub struct Record<'b> {
    /// SHA-256 of the thread's id.
    digest: Digest,
    /// Where its chain ends; `None` when it has no pair, or is not the project's.
    end: Option<End>,
    /// Its files, and what they say.
    said: &'b [u8],
    /// What each of them was, and when.
    looked: &'b [u8],
}

impl Members {
    /// The members of the project in a tree. What an `earlier` look remembers of a thread stays, if its files are the same
    /// and say the same.
    pub fn gather(root: &Path, tree: &Tree, content: u64, project: &Resolved, earlier: Option<Self>) -> Self {
        let mut threads: HashMap<Uuid, Vec<File>> = HashMap::new();
        let is_inside: HashMap<&str, bool> =
            tree.places().map(|(cwd, place)| (cwd, place.is_some_and(|place| place.is_inside(project)))).collect();
        let ours = |meta: &Meta| meta.root && meta.cwd.as_deref().is_some_and(|cwd| is_inside.get(cwd) == Some(&true));
        let thread_of = |known: &Known, meta: &Meta| meta.thread().unwrap_or(known.listed.name.thread);
        let wanted: HashSet<Uuid> =
            tree.par_threads().filter(|(_, meta)| ours(meta)).map(|(known, meta)| thread_of(known, meta)).collect();
        let file = |(known, meta): (&Known, &Meta)| {
            let thread = Some(thread_of(known, meta)).filter(|thread| wanted.contains(thread))?;
            let (listed, meta) = (known.listed.clone(), meta.clone());
            Some((thread, File { listed, meta, stamps: known.stamps, taken: known.taken }))
        };
        for (thread, file) in tree.par_threads().filter_map(file).collect::<Vec<_>>() {
            threads.entry(thread).or_default().push(file);
        }
        let inside = is_inside.iter().filter(|(_, inside)| **inside);
        let mut cwds: Vec<String> = inside.map(|(cwd, _)| (*cwd).to_owned()).collect();
        cwds.sort_unstable();
        let earlier = earlier.unwrap_or_default();
        // Records name working directories by their numbers.
        let known_cwds = earlier.cwds == cwds;
        let mut remembered: HashMap<Digest, Range<usize>> = HashMap::new();
        for member in &earlier.members {
            if let Member::Remembered(range) = member
                && let Some(record) = earlier.record(range)
            {
                remembered.insert(record.digest, range.clone());
            }
        }
        let member = |(thread, mut files): (Uuid, Vec<File>)| {
            files.sort_unstable_by(|a, b| a.listed.path.cmp(&b.listed.path));
            let known = remembered.remove(&Digest::of(&thread.to_string()));
            let same = |range: &Range<usize>| {
                known_cwds && earlier.record(range).is_some_and(|known| known.said == said(root, &files, &cwds))
            };
            match known {
                Some(range) if same(&range) => Member::Remembered(range),
                known => Member::Unread { was: known.map(|_| Box::default()), files },
            }
        };
        let members = threads.into_iter().map(member).collect();
        let unknown = tree.rollouts().filter(|known| known.identity == Identity::Unknown);
        let unknown = unknown.map(|known| known.listed.path.clone()).collect();
        Self { content, cwds, members, unknown, bytes: earlier.bytes }
    }

    fn record(&self, range: &Range<usize>) -> Option<Record<'_>> {
        record_in(&self.bytes, range)
    }

    /// The files of a remembered thread, each as it was at the last look.
    pub fn files(&self, root: &Path, range: &Range<usize>) -> Option<Vec<File>> {
        let file = |(below, meta, stamps, taken): Looked<'_>| {
            let path = root.join(Path::new(OsStr::from_bytes(below)));
            let listed = Listed::named(path.parent()?, path.file_name()?.to_str()?)?;
            let meta = unpack_meta(&mut Unpacker::new(meta), &listed, &self.cwds)?;
            Some(File { listed, meta, stamps, taken })
        };
        self.record(range)?.files().map(|looked| file(looked?)).collect()
    }

    /// The files of a member, each as it was at the last look.
    pub fn files_of(&self, root: &Path, member: &Member) -> Option<Vec<File>> {
        match member {
            Member::Remembered(range) => self.files(root, range),
            Member::Unread { files, .. } => Some(files.clone()),
            Member::Read(read) => Some(read.files.clone()),
        }
    }

    /// Whether none of the files of a remembered thread can have changed since the last look.
    pub fn is_unchanged(&self, root: &Root, range: &Range<usize>) -> bool {
        self.record(range).is_some_and(|record| record.is_unchanged(root))
    }

    /// The looks that tell which of the members can have changed: they have the members' numbers, behind those of the looks
    /// at what this table tells of, all of which has to be as it was.
    pub fn looks(&self, root: Root, table: Option<Arc<Table>>) -> Looks {
        let range = |member: &Member| match member {
            Member::Remembered(range) => Some(range.clone()),
            _ => None,
        };
        let (bytes, ranges): (_, Vec<_>) = (Arc::clone(&self.bytes), self.members.iter().map(range).collect());
        let of_table = table.as_ref().map_or(0, |table| table.count());
        Looks::new(of_table + ranges.len(), move |n| {
            let Some(n) = n.checked_sub(of_table) else {
                let is_still = table.as_ref().is_some_and(|table| table.is_still(n, &root));
                return if is_still { looks::Found::Same } else { looks::Found::Enough };
            };
            let is_unchanged = |range| record_in(&bytes, range).is_some_and(|record| record.is_unchanged(&root));
            if ranges[n].as_ref().is_none_or(is_unchanged) { looks::Found::Same } else { looks::Found::Changed }
        })
    }

    /// All rollouts of the members, and those that may turn out to be: the paths of the plain files.
    pub fn rollouts(&self, root: &Path) -> HashSet<PathBuf> {
        let mut rollouts: HashSet<PathBuf> = self.unknown.iter().cloned().collect();
        for member in &self.members {
            match member {
                Member::Remembered(range) => {
                    let files = self.record(range).into_iter().flat_map(Record::files).flatten();
                    rollouts.extend(files.map(|(below, ..)| plain(root.join(OsStr::from_bytes(below)))));
                }
                Member::Unread { files, .. } => rollouts.extend(files.iter().map(|file| file.listed.path.clone())),
                Member::Read(read) => rollouts.extend(read.files.iter().map(|file| file.listed.path.clone())),
            }
        }
        rollouts
    }

    /// Where the chain of a member ends, and SHA-256 of its id; `None` without a pair.
    pub fn end(&self, member: &Member) -> Option<(Digest, End)> {
        match member {
            Member::Remembered(range) => self.record(range).and_then(|record| Some((record.digest, record.end?))),
            Member::Unread { .. } => None,
            Member::Read(read) => read.end(),
        }
    }

    /// The members of which something is needed, and what.
    pub fn needed(&self, needs: Needs<'_>) -> Vec<(usize, Need)> {
        let mut needed: Vec<(usize, Need)> = Vec::new();
        let mut current: Option<(usize, Digest, End)> = None;
        for (n, member) in self.members.iter().enumerate() {
            let Some((thread, end)) = self.end(member) else { continue };
            let need = needs(thread, &end, false);
            needed.extend((need != Need::Nothing).then_some((n, need)));
            if current.as_ref().is_none_or(|(_, than, other)| end.rank(thread) > other.rank(*than)) {
                current = Some((n, thread, end));
            }
        }
        if let Some((current, thread, end)) = current {
            needed.retain(|(n, _)| *n != current);
            let need = needs(thread, &end, true);
            needed.extend((need != Need::Nothing).then_some((current, need)));
        }
        needed
    }

    /// The one of these members of which more is needed than is at hand, and from which pair on.
    pub fn lacking(&self, needed: &[(usize, Need)]) -> Option<(usize, usize)> {
        needed.iter().find_map(|(n, need)| match (need, &self.members[*n]) {
            (Need::Chain { since }, Member::Remembered(_)) => Some((*n, *since)),
            (Need::Chain { since }, Member::Read(read)) if read.chain.settled() > 0 => {
                (read.chain.settled() >= *since).then_some((*n, *since))
            }
            _ => None,
        })
    }

    /// These members as candidates.
    pub fn into_candidates(mut self, root: &Path, needed: Vec<(usize, Need)>) -> Vec<Candidate> {
        let candidate = |(n, _): (usize, Need)| match std::mem::replace(&mut self.members[n], Member::Remembered(0..0))
        {
            Member::Read(read) => {
                let Read { files, chain } = *read;
                Candidate::whole(chain, 1, session(files.first()?.thread()))
            }
            Member::Remembered(range) => {
                let (thread, end) = self.end(&Member::Remembered(range.clone()))?;
                let files = self.files(root, &range)?;
                Some(Candidate::ending(Host::Codex, thread, end, session(files.first()?.thread())))
            }
            Member::Unread { .. } => None,
        };
        needed.into_iter().filter_map(candidate).collect()
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
                Member::Remembered(range) => packer.counted(&self.bytes[range.clone()]),
                Member::Unread { .. } => packer.counted(&[]),
                Member::Read(read) => packer.counted(&record(root, read, &self.cwds)),
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
            let len = unpacker.counted()?.len();
            let end = bytes.len() - unpacker.left();
            members.extend((len > 0).then_some(Member::Remembered(end - len..end)));
        }
        Some(Self { content, cwds, members, unknown: Vec::new(), bytes: Arc::new(bytes) })
    }

    /// The root and the project that saved members are of.
    pub fn of(bytes: &[u8]) -> Option<(PathBuf, Resolved)> {
        let mut unpacker = Unpacker::new(bytes);
        let root = PathBuf::from(OsStr::from_bytes(unpacker.counted()?));
        Some((root, Resolved::from_saved(unpacker.counted()?)))
    }
}

/// A record among the bytes of all.
fn record_in<'b>(bytes: &'b [u8], range: &Range<usize>) -> Option<Record<'b>> {
    Record::unpack(bytes.get(range.clone())?)
}

/// What the files of a thread are, and what they say.
fn said(root: &Path, files: &[File], cwds: &[String]) -> Vec<u8> {
    let mut packer = Packer::default();
    for file in files {
        let path = file.listed.file();
        packer.counted(path.strip_prefix(root).unwrap_or(&path).as_os_str().as_bytes());
        let mut said = Packer::default();
        let number_of = |cwd: &str| cwds.binary_search_by(|known| known.as_str().cmp(cwd)).ok();
        pack_meta(&file.meta, &file.listed, &number_of, &mut said);
        packer.counted(&said.finish());
    }
    packer.finish()
}

fn record(root: &Path, Read { files, chain }: &Read, cwds: &[String]) -> Vec<u8> {
    let mut packer = Packer::default();
    chain.thread.pack(&mut packer);
    chain.end().pack(&mut packer);
    packer.counted(&said(root, files, cwds));
    for File { stamps, taken, .. } in files {
        stamps.pack(&mut packer);
        taken.pack(&mut packer);
    }
    packer.finish()
}

/// One file of a record: where it is below the root, with the name of the file that is there; what it says; what it was,
/// and when.
type Looked<'b> = (&'b [u8], &'b [u8], Stamps, Moment);

impl<'b> Record<'b> {
    fn unpack(bytes: &'b [u8]) -> Option<Self> {
        let mut unpacker = Unpacker::new(bytes);
        let (digest, end) = (Digest::unpack(&mut unpacker)?, Option::unpack(&mut unpacker)?);
        let said = unpacker.counted()?;
        Some(Self { digest, end, said, looked: unpacker.raw(unpacker.left())? })
    }

    /// Whether none of its files can have changed since the last look.
    pub fn is_unchanged(self, root: &Root) -> bool {
        let is_still = |below: &[u8], stamps| {
            let found = root.look_at(Path::new(OsStr::from_bytes(below)));
            matches!(found, Ok(Some(found)) if found.is_file() && found.stamps == stamps)
        };
        let same = |(below, _, stamps, taken): Looked<'_>| stamps.settled(taken) && is_still(below, stamps);
        self.files().all(|looked| looked.is_some_and(same))
    }

    /// Its files; `None` where the record is none.
    fn files(self) -> impl Iterator<Item = Option<Looked<'b>>> {
        let (mut said, mut looked) = (Unpacker::new(self.said), Unpacker::new(self.looked));
        let mut file = move || {
            let (below, meta) = (said.counted()?, said.counted()?);
            let file = (below, meta, Stamps::unpack(&mut looked)?, Moment::unpack(&mut looked)?);
            Some((file, said.is_at_end()))
        };
        let mut ended = false;
        std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let read = file();
            ended = read.as_ref().is_none_or(|(_, last)| *last);
            Some(read.map(|(file, _)| file))
        })
    }
}

impl Pack for End {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.length as u64);
        self.digest.pack(packer);
        packer.signed(self.completed_at);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let length = unpacker.index().filter(|length| *length > 0)?;
        Some(Self { length, digest: Digest::unpack(unpacker)?, completed_at: unpacker.signed()? })
    }
}
