//! Which pairs have their bodies in the database. It is asked again only when it, or what is asked of it, has changed.

use std::path::Path;

use rayon::prelude::*;
use rustix::fs::CWD;
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use xxhash_rust::xxh3::xxh3_64;

use super::record::key;
use super::threads::Thread;
use crate::cache::{About, Cache, Name};
use crate::db::{alone, sessions};
use crate::error::Error;
use crate::scan::stamps::{Moment, Stamps};

/// Tells each thread of how many of its pairs the bodies are in this database.
///
/// # Errors
/// It cannot be read. Then no thread is told anything.
pub fn present(path: &Path, cache: Option<&Cache>, mut threads: Vec<&mut Thread<'_>>) -> Result<(), Error> {
    threads.retain(|thread| !thread.pairs.is_empty());
    threads.par_sort_unstable_by(|one, other| one.session.cmp(&other.session));
    let mut sessions: Vec<&mut [&mut Thread<'_>]> =
        threads.chunk_by_mut(|one, other| one.session == other.session).collect();
    let remembered = Remembered::new(path, cache, &sessions);
    let counts = match remembered.load() {
        Some(counts) => counts,
        None => {
            let wanted = |threads: &&mut [&mut Thread<'_>]| (threads[0].session.clone(), keys(threads).collect());
            let wanted: Vec<(String, Vec<u64>)> = sessions.iter().map(wanted).collect();
            let counts = sessions::present(path, &wanted, key)?;
            remembered.store(&counts);
            counts
        }
    };
    for (threads, count) in sessions.iter_mut().zip(counts) {
        threads.iter_mut().for_each(|thread| thread.bodies_present = Some(count));
    }
    Ok(())
}

/// What the bodies of the pairs of these threads are told by, those of one session.
fn keys(threads: &[&mut Thread<'_>]) -> impl Iterator<Item = u64> {
    threads.iter().flat_map(|thread| thread.pairs.iter().map(|pair| pair.key))
}

/// How many bodies were found for what is wanted now: good as long as the database has not changed.
struct Remembered<'r> {
    cache: Option<&'r Cache>,
    name: Name,
    /// What is wanted.
    wanted: u64,
    count: usize,
    /// What the database and its log are; `None` where there is nothing to rely on.
    stamps: Option<Vec<u8>>,
}

impl<'r> Remembered<'r> {
    fn new(path: &Path, cache: Option<&'r Cache>, sessions: &[&mut [&mut Thread<'_>]]) -> Self {
        let mut packer = Packer::default();
        for threads in sessions {
            packer.counted(threads[0].session.as_bytes());
            packer.number(keys(threads).count() as u64);
            keys(threads).for_each(|key| packer.raw(&key.to_le_bytes()));
        }
        let name = Name::of(About::Audit, &[b"bodies", path.as_os_str().as_encoded_bytes()]);
        let stamps = cache.and_then(|cache| database_stamps(path, cache.now()));
        Self { cache, name, wanted: xxh3_64(&packer.finish()), count: sessions.len(), stamps }
    }

    fn load(&self) -> Option<Vec<u64>> {
        let stamps = self.stamps.as_ref()?;
        let block = self.cache?.load(&self.name)?.next_block()?;
        let mut unpacker = Unpacker::new(&block);
        let same = unpacker.counted()? == stamps && unpacker.number()? == self.wanted;
        let counts: Vec<u64> = unpacker.all().filter(|_| same)?;
        (counts.len() == self.count).then_some(counts)
    }

    fn store(&self, counts: &[u64]) {
        let (Some(cache), Some(stamps)) = (self.cache, &self.stamps) else { return };
        let mut packer = Packer::default();
        packer.counted(stamps);
        packer.number(self.wanted);
        packer.all(counts);
        cache.store(&self.name, &[packer.finish()]);
    }
}

/// What the database and its log are, if any later change would show.
fn database_stamps(path: &Path, now: Moment) -> Option<Vec<u8>> {
    let mut packer = Packer::default();
    for path in [path, &alone::beside(path, "-wal")] {
        // An empty log is none: readers make one, too.
        let stamps = Stamps::of_path(CWD, path).ok()?.map(|found| found.stamps).filter(|stamps| stamps.size > 0);
        if stamps.is_some_and(|stamps| !stamps.settled(now)) {
            return None;
        }
        stamps.pack(&mut packer);
    }
    Some(packer.finish())
}
