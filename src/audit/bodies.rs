//! Which pairs have their bodies in the database. It is asked again only when it, or what is asked of it, has changed.

use std::collections::HashMap;
use std::path::Path;

use rustix::fs::CWD;
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use xxhash_rust::xxh3::xxh3_64;

use super::record::key;
use super::threads::Thread;
use crate::cache::{About, Cache, Name};
use crate::db::{alone, sessions};
use crate::error::Error;
use crate::scan::stamps::{Moment, Stamps};

/// Of how many pairs of each thread, by its session, the bodies are in this database.
///
/// # Errors
/// It cannot be read.
pub fn present(
    path: &Path,
    cache: Option<&Cache>,
    threads: &[&Thread<'_>],
) -> Result<HashMap<String, Option<u64>>, Error> {
    let mut wanted: HashMap<&str, Vec<u64>> = HashMap::new();
    for thread in threads.iter().filter(|thread| !thread.pairs.is_empty()) {
        wanted.entry(&thread.session).or_default().extend(thread.pairs.iter().map(|pair| pair.key));
    }
    let mut wanted: Vec<(&str, Vec<u64>)> = wanted.into_iter().collect();
    wanted.sort_unstable_by(|one, other| one.0.cmp(other.0));
    let remembered = Remembered::new(path, cache, &wanted);
    let counts = match remembered.load() {
        Some(counts) => counts,
        None => {
            let counts = sessions::present(path, &wanted, key)?;
            remembered.store(&counts);
            counts
        }
    };
    Ok(wanted.iter().map(|(session, _)| (*session).to_owned()).zip(counts.into_iter().map(Some)).collect())
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
    fn new(path: &Path, cache: Option<&'r Cache>, wanted: &[(&str, Vec<u64>)]) -> Self {
        let mut packer = Packer::default();
        for (session, keys) in wanted {
            packer.counted(session.as_bytes());
            packer.all(keys);
        }
        let name = Name::of(About::Audit, &[b"bodies", path.as_os_str().as_encoded_bytes()]);
        let stamps = cache.and_then(|cache| database_stamps(path, cache.now()));
        Self { cache, name, wanted: xxh3_64(&packer.finish()), count: wanted.len(), stamps }
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
