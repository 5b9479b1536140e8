//! The logs of a store, each read once: what is remembered of those that cannot have changed, and the others, on all cores.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rayon::prelude::*;

use super::Unreadable;
use super::checkpoint::LargeLog;
use super::listing::Folder;
use super::progress::Progress;
use super::record::{Counts, Log, Opened, Record, pack_folder, unpack_folder};
use crate::cache::{About, Cache, Name};
use crate::scan::counted::{Counted, Watch, packed, plain};
use crate::scan::file::Rollout;
use crate::scan::stamps::{Moment, Stamps};

/// A larger log is read by all cores, and so are the others at once.
const LARGE: u64 = 32 << 20;

/// How logs are read.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'r> {
    /// Where what was learned is remembered, if it is.
    pub cache: Option<&'r Cache>,
    /// The present moment.
    pub now: Moment,
    /// Who waits.
    pub progress: &'r Progress,
}

/// The logs of a store.
#[derive(Debug)]
pub struct Gathered<L> {
    folders: Vec<Shelf<L>>,
    /// What could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// The logs of one folder.
#[derive(Debug)]
struct Shelf<L> {
    path: PathBuf,
    records: Vec<Record<L>>,
    /// Something is to be remembered of them that is not.
    changed: bool,
}

/// What is remembered of a folder, and the files that have to be read, with what they were.
type Remembered<L> = (Shelf<L>, Vec<(OsString, Stamps)>);

/// A log among those that were gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    folder: usize,
    record: usize,
}

/// Gathers the logs of these folders.
pub fn gather<L: Log>(folders: Vec<Folder>, reader: Reader<'_>) -> Gathered<L> {
    let known: Vec<Remembered<L>> = folders.into_par_iter().map(|folder| reader.remembered(folder)).collect();
    let (mut folders, mut unread) = (Vec::new(), Vec::new());
    for (n, (shelf, files)) in known.into_iter().enumerate() {
        unread.extend(files.into_iter().map(|(name, stamps)| (n, shelf.path.join(name), stamps)));
        folders.push(shelf);
    }
    reader.progress.expect(unread.len() as u64, unread.iter().map(|(.., stamps)| stamps.size).sum());
    // The large ones first, each by all cores; of the others each core takes the largest that is left.
    unread.sort_by_key(|(.., stamps)| std::cmp::Reverse(stamps.size));
    let (large, small) = unread.split_at(unread.partition_point(|(.., stamps)| stamps.size > LARGE));
    let (read, unreadable) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let one = |(folder, path, _): &(usize, PathBuf, Stamps)| {
        let record = reader.record::<L>(path);
        reader.progress.done(matches!(record, Ok(None)));
        match record {
            Ok(Some(record)) => locked(&read).push((*folder, record)),
            Ok(None) => {}
            Err(error) => locked(&unreadable).push(Unreadable::new(path, error)),
        }
    };
    large.iter().for_each(one);
    small.par_iter().with_max_len(1).for_each(one);
    for (folder, record) in read.into_inner().unwrap_or_default() {
        folders[folder].records.push(record);
        folders[folder].changed = true;
    }
    // What is remembered is in order.
    folders
        .iter_mut()
        .filter(|shelf| shelf.changed)
        .for_each(|shelf| shelf.records.sort_unstable_by(|one, other| one.path.cmp(&other.path)));
    Gathered { folders, unreadable: unreadable.into_inner().unwrap_or_default() }
}

/// Nobody panics while it is held.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Reader<'_> {
    /// What is remembered of a folder, and the files of it that have to be read.
    fn remembered<L: Log>(&self, folder: Folder) -> Remembered<L> {
        let Folder { path, files } = folder;
        let block = self.cache.and_then(|cache| cache.load(&name_of::<L>(&path))?.next_block());
        let known = block.and_then(|block| unpack_folder::<L>(&path, &block)).unwrap_or_default();
        let count = known.len();
        let (mut records, mut unread) = (Vec::with_capacity(count), Vec::new());
        // Both are in the order of their names.
        let mut known = known.into_iter().peekable();
        for (name, stamps) in files {
            let is_in_front = |known: &Record<L>| known.path.file_name().is_some_and(|known| *known < *name);
            while known.next_if(is_in_front).is_some() {}
            let same = |known: &Record<L>| {
                known.path.file_name() == Some(&name) && known.stamps == stamps && stamps.settled(known.taken)
            };
            match known.next_if(same) {
                Some(record) => records.push(record),
                None => unread.push((name, stamps)),
            }
        }
        let changed = records.len() < count;
        (Shelf { path, records, changed }, unread)
    }

    /// Reads a log; `None` when it is gone, or when nobody waits any more.
    fn record<L: Log>(&self, path: &Path) -> io::Result<Option<Record<L>>> {
        let name = path.file_name().unwrap_or_default();
        let Some((stamps, counted)) = self.count::<L>(path)? else { return Ok(None) };
        let (summary, writers) = L::summary(&counted, name);
        let counts = Counts::of::<L>(&counted, writers);
        Ok(Some(Record { path: path.to_owned(), stamps, taken: self.now, counts, summary, cuts: Vec::new() }))
    }

    fn count<L: Log>(&self, path: &Path) -> io::Result<Option<(Stamps, Counted<L::Ledger>)>> {
        Ok(match L::open(path)? {
            None => None,
            Some(Opened::Plain(file, stamps)) => {
                let large = LargeLog::<L>::of(self, path, &file, stamps);
                let counted = match large {
                    Some(large) => large.count()?,
                    None => plain(&file, stamps.size, L::ledger(), self.progress)?,
                };
                counted.map(|counted| (stamps, counted))
            }
            Some(Opened::Packed(rollout)) => {
                self.count_packed::<L>(&rollout, u64::MAX)?.map(|counted| (rollout.stamps, counted))
            }
        })
    }

    /// Reads a log from its start, as if it ended there.
    fn count_up_to<L: Log>(&self, path: &Path, end: u64) -> io::Result<Option<Counted<L::Ledger>>> {
        match L::open(path)? {
            None => Ok(None),
            Some(Opened::Plain(file, stamps)) => plain(&file, stamps.size.min(end), L::ledger(), self.progress),
            Some(Opened::Packed(rollout)) => self.count_packed::<L>(&rollout, end),
        }
    }

    fn count_packed<L: Log>(&self, rollout: &Rollout, end: u64) -> io::Result<Option<Counted<L::Ledger>>> {
        let counted = packed(rollout, end, L::ledger, self.progress);
        self.progress.read(rollout.stamps.size);
        counted
    }
}

impl<L: Log> Gathered<L> {
    /// All logs.
    pub fn records(&self) -> impl Iterator<Item = (Place, &Record<L>)> {
        self.folders.iter().enumerate().flat_map(|(folder, shelf)| {
            shelf.records.iter().enumerate().map(move |(record, found)| (Place { folder, record }, found))
        })
    }

    /// The same on all cores, in no order.
    pub fn par_records(&self) -> impl ParallelIterator<Item = (Place, &Record<L>)> {
        self.folders.par_iter().enumerate().flat_map_iter(|(folder, shelf)| {
            shelf.records.iter().enumerate().map(move |(record, found)| (Place { folder, record }, found))
        })
    }

    /// One of them.
    pub fn record(&self, place: Place) -> &Record<L> {
        &self.folders[place.folder].records[place.record]
    }

    /// Sees to it that each of these logs is also known as it would be if it ended at this byte.
    pub fn cut(&mut self, cuts: &[(Place, u64)], reader: Reader<'_>) {
        let mut wanted: HashMap<Place, Vec<u64>> = HashMap::new();
        for (place, end) in cuts {
            wanted.entry(*place).or_default().push(*end);
        }
        let found = Mutex::new(Vec::new());
        wanted.into_par_iter().flat_map_iter(|(place, ends)| ends.into_iter().map(move |end| (place, end))).for_each(
            |(place, end)| {
                let Record { path, cuts, .. } = self.record(place);
                if cuts.iter().any(|(known, _)| *known == end) {
                    return;
                }
                reader.progress.expect(0, end);
                if let Ok(Some(counted)) = reader.count_up_to::<L>(path, end) {
                    let summary = L::summary(&counted, path.file_name().unwrap_or(OsStr::new(""))).0;
                    locked(&found).push((place, end, summary));
                }
            },
        );
        for (place, end, summary) in found.into_inner().unwrap_or_default() {
            let shelf = &mut self.folders[place.folder];
            shelf.records[place.record].cuts.push((end, summary));
            shelf.changed = true;
        }
    }

    /// Remembers what was learned.
    pub fn store(&self, cache: &Cache) {
        self.folders.par_iter().filter(|shelf| shelf.changed).for_each(|shelf| {
            cache.store(&name_of::<L>(&shelf.path), &[pack_folder(&shelf.path, shelf.records.iter())]);
        });
    }
}

fn name_of<L: Log>(folder: &Path) -> Name {
    Name::of(About::Audit, &[L::WORD.as_bytes(), folder.as_os_str().as_bytes()])
}
