//! A [`Tree`] as it is saved: a table that tells whether anything can have changed, which is all that most reads need of
//! it, and the rest.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use throughline_parsers::codex::Meta;
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use xxhash_rust::xxh3::xxh3_64;

use super::{Folder, Identity, Known, LOOK_AGAIN, Place, Tree, is_due};
use crate::paths::Resolved;
use crate::scan::folders::{self, Listed};
use crate::scan::root::Root;
use crate::scan::stamps::{Moment, Stamps};

impl Tree {
    /// The tree of a root as it is saved: what a table is made of, and the rest. `content` is that of the tree.
    pub fn save(&self, root: &Path, content: u64) -> [Vec<u8>; 2] {
        let cwds: Vec<&str> = self.places.keys().map(String::as_str).collect();
        let numbers: HashMap<&str, usize> = cwds.iter().enumerate().map(|(n, cwd)| (*cwd, n)).collect();
        let pack = |folder: &Folder| {
            let mut packer = Packer::with_capacity(32 + folder.rollouts.len() * 160);
            folder.looked.pack(&mut packer);
            packer.number(folder.rollouts.len() as u64);
            folder.rollouts.iter().for_each(|known| known.pack(&|cwd| numbers.get(cwd).copied(), &mut packer));
            packer.finish()
        };
        let folders: Vec<Vec<u8>> = self.folders.par_iter().map(pack).collect();
        let mut rest = Packer::with_capacity(cwds.len() * 160 + folders.iter().map(Vec::len).sum::<usize>());
        rest.number(cwds.len() as u64);
        for cwd in &cwds {
            let Place { resolved, at, .. } = &self.places[*cwd];
            rest.counted(cwd.as_bytes());
            resolved.pack(&mut rest);
            at.pack(&mut rest);
        }
        folders.iter().for_each(|folder| rest.raw(folder));
        [self.table(root, content), rest.finish()]
    }

    fn table(&self, root: &Path, content: u64) -> Vec<u8> {
        let mut packer = Packer::default();
        packer.counted(root.as_os_str().as_bytes());
        packer.number(content);
        self.next_look().pack(&mut packer);
        let unknown = self.rollouts().filter(|known| known.identity == Identity::Unknown);
        let unknown: Vec<_> = unknown.map(|known| (known.listed.file(), known.stamps, known.taken)).collect();
        packer.number(self.folders.len() as u64);
        packer.number(unknown.len() as u64);
        let folders = self.folders.iter().map(|folder| (folder.path.clone(), folder.stamps, folder.taken));
        for (path, stamps, taken) in folders.chain(unknown) {
            let below = path.strip_prefix(root).unwrap_or(&path);
            let mut entry = Packer::with_capacity(128);
            entry.counted(below.as_os_str().as_bytes());
            stamps.pack(&mut entry);
            taken.pack(&mut entry);
            packer.counted(&entry.finish());
        }
        packer.finish()
    }

    /// When something that was passed over is to be looked at again; at once while a working directory has not answered.
    fn next_look(&self) -> Moment {
        let answered = |meta: &Meta| meta.cwd.as_ref().is_none_or(|cwd| !meta.root || self.places.contains_key(cwd));
        if !self.threads().all(|(_, meta)| answered(meta)) {
            return Moment(0);
        }
        let folders = self.folders.iter().filter(|folder| !folder.rollouts.is_empty()).map(|folder| folder.looked);
        let earliest = folders.chain(self.places.values().map(|place| place.at)).min();
        earliest.map_or(Moment(i64::MAX), |earliest| Moment(earliest.0.saturating_add(LOOK_AGAIN.as_nanos() as i64)))
    }

    /// A digest of what there is, without when it was looked at; in whatever order.
    pub fn content(&self) -> u64 {
        let places = self.places.iter().map(|(cwd, place)| {
            let mut packer = Packer::default();
            packer.counted(cwd.as_bytes());
            place.resolved.pack(&mut packer);
            xxh3_64(&packer.finish())
        });
        let rollouts = self.folders.par_iter().flat_map_iter(|folder| &folder.rollouts).map(|known| {
            let mut packer = Packer::with_capacity(256);
            packer.counted(known.listed.path.as_os_str().as_bytes());
            known.listed.name.packed.pack(&mut packer);
            if let Identity::Thread(meta) = &known.identity {
                meta.pack(&mut packer);
            }
            xxh3_64(&packer.finish())
        });
        places.fold(0, u64::wrapping_add).wrapping_add(rollouts.reduce(|| 0, u64::wrapping_add))
    }

    /// Takes a saved tree up again; `None` when it is none, or another root's.
    pub fn take_up(root: &Path, table: Vec<u8>, rest: &[u8]) -> Option<Self> {
        let table = Table::unpack(root, table)?;
        let mut unpacker = Unpacker::new(rest);
        let (mut cwds, mut places) = (Vec::new(), HashMap::new());
        for _ in 0..unpacker.number()? {
            let cwd = String::unpack(&mut unpacker)?;
            let (resolved, at) = (Option::unpack(&mut unpacker)?, Moment::unpack(&mut unpacker)?);
            let place = Place { resolved, at, doubted: false };
            cwds.push(cwd.clone());
            places.insert(cwd, place);
        }
        let mut folders = Vec::new();
        for n in 0..table.folders {
            let (below, stamps, taken) = table.entry(n)?;
            let path = if below.as_os_str().is_empty() { root.to_path_buf() } else { root.join(below) };
            let looked = Moment::unpack(&mut unpacker)?;
            let mut rollouts = Vec::new();
            for _ in 0..unpacker.number()? {
                rollouts.push(Known::unpack(&path, &cwds, &mut unpacker)?);
            }
            folders.push(Folder { path, stamps, taken, looked, rollouts, below: Vec::new() });
        }
        let at: HashMap<PathBuf, usize> = folders.iter().enumerate().map(|(n, f)| (f.path.clone(), n)).collect();
        for n in 0..folders.len() {
            if let Some(above) = folders[n].path.parent().and_then(|above| at.get(above)).filter(|above| **above != n) {
                let path = folders[n].path.clone();
                folders[*above].below.push(path);
            }
        }
        Some(Self { folders, places, learned: false })
    }
}

/// The first part of a saved tree, in the bytes that it was saved as: of these nothing is taken that a poll does not need.
#[derive(Debug)]
pub struct Table {
    /// A digest of what there is.
    pub content: u64,
    next_look: Moment,
    /// How many folders there are.
    folders: usize,
    bytes: Vec<u8>,
    /// Where the folders stand in the bytes, and then the rollouts that could not be identified yet.
    entries: Vec<Range<usize>>,
}

/// Where it is below the root, what it was, and when.
type Entry<'b> = (&'b Path, Stamps, Moment);

impl Table {
    /// Reads a table; `None` when it is none, or another root's.
    pub fn unpack(root: &Path, bytes: Vec<u8>) -> Option<Self> {
        let mut unpacker = Unpacker::new(&bytes);
        if unpacker.counted()? != root.as_os_str().as_bytes() {
            return None;
        }
        let (content, next_look) = (unpacker.number()?, Moment::unpack(&mut unpacker)?);
        let (folders, unknown) = (unpacker.index()?, unpacker.index()?);
        let mut entries = Vec::new();
        for _ in 0..folders.checked_add(unknown)? {
            let len = unpacker.counted()?.len();
            let end = bytes.len() - unpacker.left();
            entries.push(end - len..end);
        }
        Some(Self { content, next_look, folders, entries, bytes })
    }

    /// The root that a table is of.
    pub fn root(bytes: &[u8]) -> Option<PathBuf> {
        Some(PathBuf::from(OsStr::from_bytes(Unpacker::new(bytes).counted()?)))
    }

    /// Of how many folders and rollouts it tells what they were.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// A folder, or behind these a rollout that could not be identified.
    fn entry(&self, n: usize) -> Option<Entry<'_>> {
        let mut unpacker = Unpacker::new(self.bytes.get(self.entries.get(n)?.clone())?);
        let below = Path::new(OsStr::from_bytes(unpacker.counted()?));
        Some((below, Stamps::unpack(&mut unpacker)?, Moment::unpack(&mut unpacker)?))
    }

    /// The paths of the rollouts that could not be identified, those of the plain files.
    pub fn unknown(&self, root: &Path) -> Vec<PathBuf> {
        let unknown = (self.folders..self.count()).filter_map(|n| self.entry(n));
        unknown.map(|(below, ..)| folders::plain(root.join(below))).collect()
    }

    /// Whether the tree can only be as it was saved.
    pub fn holds(&self, root: &Root, now: Moment) -> bool {
        !self.is_due(now) && (0..self.count()).all(|n| self.is_still(n, root))
    }

    /// Whether the tree is to be looked at again, whatever its folders say.
    pub fn is_due(&self, now: Moment) -> bool {
        let soon = Moment(self.next_look.0.saturating_sub(LOOK_AGAIN.as_nanos() as i64));
        self.folders == 0 || now >= self.next_look || (self.next_look.0 != i64::MAX && is_due(soon, now))
    }

    /// Whether one of the folders and rollouts can only be what it was.
    pub fn is_still(&self, n: usize, root: &Root) -> bool {
        self.entry(n).is_some_and(|(below, stamps, taken)| {
            stamps.settled(taken) && matches!(root.look_at(below), Ok(Some(found)) if found.stamps == stamps)
        })
    }
}

impl Known {
    fn pack(&self, number_of: &impl Fn(&str) -> Option<usize>, packer: &mut Packer) {
        packer.counted(self.listed.file_name().as_bytes());
        self.stamps.pack(packer);
        self.taken.pack(packer);
        match &self.identity {
            Identity::Unknown => packer.number(0),
            Identity::None => packer.number(1),
            Identity::Thread(meta) => {
                packer.number(2);
                pack_meta(meta, &self.listed, number_of, packer);
            }
        }
    }

    fn unpack(folder: &Path, cwds: &[String], unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let listed = Listed::named(folder, str::from_utf8(unpacker.counted()?).ok()?)?;
        let (stamps, taken) = (Stamps::unpack(unpacker)?, Moment::unpack(unpacker)?);
        let identity = match unpacker.number()? {
            0 => Identity::Unknown,
            1 => Identity::None,
            2 => Identity::Thread(unpack_meta(unpacker, &listed, cwds)?),
            _ => return None,
        };
        Some(Self { listed, stamps, taken, identity, read_now: false })
    }
}

/// Packs an identity: of an id that can be told from the file's name only that, of a working directory that has a number
/// only that.
pub fn pack_meta(meta: &Meta, listed: &Listed, number_of: &impl Fn(&str) -> Option<usize>, packer: &mut Packer) {
    let Meta { id, cwd, root, forked, base } = meta;
    let is_name = id.as_ref().is_some_and(|id| id.parse() == Ok(listed.name.thread));
    is_name.pack(packer);
    if !is_name {
        id.pack(packer);
    }
    let number = cwd.as_deref().and_then(number_of).map_or(0, |number| number as u64 + 1);
    packer.number(number);
    if number == 0 {
        cwd.pack(packer);
    }
    root.pack(packer);
    forked.pack(packer);
    base.pack(packer);
}

/// Reads an identity that was packed when these working directories had these numbers.
pub fn unpack_meta(unpacker: &mut Unpacker<'_>, listed: &Listed, cwds: &[String]) -> Option<Meta> {
    let id = match bool::unpack(unpacker)? {
        true => Some(listed.name.thread.to_string()),
        false => Option::unpack(unpacker)?,
    };
    let cwd = match unpacker.index()? {
        0 => Option::unpack(unpacker)?,
        number => Some(cwds.get(number - 1)?.clone()),
    };
    let (root, forked) = (bool::unpack(unpacker)?, bool::unpack(unpacker)?);
    Some(Meta { id, cwd, root, forked, base: Option::unpack(unpacker)? })
}

impl Pack for Resolved {
    fn pack(&self, packer: &mut Packer) {
        packer.counted(self.as_bytes());
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self::from_saved(unpacker.counted()?))
    }
}
