//! What is kept of one log: how its rows are counted, and a summary of what its host's rules make of it. No text.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::AddAssign;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use throughline_parsers::count::{Count, Counting, Table};
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use throughline_parsers::text::Digest;
use xxhash_rust::xxh3::xxh3_64;

use crate::scan::counted::{Counted, Ledger, Resumable};
use crate::scan::file::Rollout;
use crate::scan::stamps::{Moment, Stamps};

/// A kind of log: what is made of the rows of one file.
pub trait Log: Pack + Send + Sync {
    /// What is made while they are read.
    type Ledger: Resumable;
    /// What its files are called where they are remembered.
    const WORD: &'static str;

    /// The start of a reading.
    fn ledger() -> Self::Ledger;
    /// Opens a file that was listed; `None` when it is gone.
    ///
    /// # Errors
    /// It is there and cannot be opened.
    fn open(path: &Path) -> io::Result<Option<Opened>>;
    /// What came of it, of the file of this name; and the versions of the programs that wrote it.
    fn summary(counted: &Counted<Self::Ledger>, file_name: &OsStr) -> (Self, Vec<String>);
    /// When the last row was written, in milliseconds since the epoch, as far as the rows tell.
    fn last_row_at(counted: &Counted<Self::Ledger>) -> Option<i64>;
}

/// An open log.
#[derive(Debug)]
pub enum Opened {
    /// As it is, and what it was when it was opened.
    Plain(File, Stamps),
    /// A packed rollout.
    Packed(Rollout),
}

/// One log that was read.
#[derive(Debug)]
pub struct Record<L> {
    /// The file.
    pub path: PathBuf,
    /// What it was before it was read.
    pub stamps: Stamps,
    /// When that was.
    pub taken: Moment,
    /// Its rows.
    pub counts: Counts,
    /// What it came to.
    pub summary: L,
    /// What it comes to if it ends at one of these bytes.
    pub cuts: Vec<(u64, L)>,
}

/// The rows of a log.
#[derive(Debug, Default)]
pub struct Counts {
    /// Of the known types, by their numbers in the host's table.
    pub known: Box<[(u8, Count)]>,
    /// Of the others.
    pub unknown: Vec<(String, Count)>,
    /// What could not be read: broken, spliced, holes.
    pub unreadable: [Count; 3],
    /// The versions of the programs that wrote it, in order.
    pub writers: Vec<String>,
    /// When the last row was written, in milliseconds since the epoch, as far as the rows tell.
    pub last_row_at: Option<i64>,
    /// It is packed, and not all of it can be decoded.
    pub damaged: bool,
}

impl Counts {
    /// Those of a log that was read.
    pub fn of<L: Log>(counted: &Counted<L::Ledger>, writers: Vec<String>) -> Self {
        Self {
            known: counted.tally.known().filter_map(|(n, count)| Some((u8::try_from(n).ok()?, count))).collect(),
            unknown: counted.tally.unknown().map(|(name, count)| (name.to_owned(), count)).collect(),
            unreadable: counted.tally.unreadable().map(|(_, count)| count),
            writers,
            last_row_at: L::last_row_at(counted),
            damaged: counted.damaged,
        }
    }

    /// How many rows there are that could be read.
    pub fn rows(&self) -> u64 {
        let unknown = self.unknown.iter().map(|(_, count)| count.rows);
        self.known.iter().map(|(_, count)| count.rows).chain(unknown).sum()
    }

    /// How many there are that could not.
    pub fn unreadable_rows(&self) -> u64 {
        self.unreadable.iter().map(|count| count.rows).sum()
    }
}

/// How many turns of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Turns {
    /// Completed, with or without texts on both sides.
    pub completed: u64,
    /// Not over.
    pub open: u64,
    /// The user stopped it.
    pub aborted: u64,
    /// It ended with an error, or without a time.
    pub failed: u64,
    /// Undone.
    pub rolled_back: u64,
    /// Copied from the thread that this one was forked from: not its own.
    pub inherited: u64,
    /// Of the completed ones those that lack a text on one side.
    pub unpaired: u64,
}

impl Turns {
    fn fields(&mut self) -> [&mut u64; 7] {
        let Self { completed, open, aborted, failed, rolled_back, inherited, unpaired } = self;
        [completed, open, aborted, failed, rolled_back, inherited, unpaired]
    }
}

impl AddAssign for Turns {
    fn add_assign(&mut self, mut other: Self) {
        self.fields().into_iter().zip(other.fields()).for_each(|(this, other)| *this += *other);
    }
}

impl Pack for Turns {
    fn pack(&self, packer: &mut Packer) {
        let mut copy = *self;
        copy.fields().into_iter().for_each(|count| packer.number(*count));
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let mut turns = Self::default();
        for count in turns.fields() {
            *count = unpacker.number()?;
        }
        Some(turns)
    }
}

/// The sizes of the texts of turns, in bytes of UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TextBytes {
    /// What was asked.
    pub user: u64,
    /// What was answered.
    pub assistant: u64,
}

impl AddAssign for TextBytes {
    fn add_assign(&mut self, other: Self) {
        self.user += other.user;
        self.assistant += other.assistant;
    }
}

impl Pack for TextBytes {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.user);
        packer.number(self.assistant);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self { user: unpacker.number()?, assistant: unpacker.number()? })
    }
}

/// One pair of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// When it completed, in milliseconds since the epoch.
    pub at: i64,
    /// What its bodies are told by.
    pub key: u64,
}

impl Pair {
    /// A day in milliseconds.
    pub const DAY: i64 = 86_400_000;

    /// The number of the day (of UTC) on which it completed, since the epoch.
    pub fn day(&self) -> i64 {
        self.at.div_euclid(Self::DAY)
    }

    /// A pair of these digests: of the origin session, and of the texts of both sides.
    pub fn new(at: i64, origin: Digest, user: Digest, assistant: Digest) -> Self {
        Self { at, key: key(origin, user, assistant) }
    }
}

/// What the bodies of a pair are told by, against accidents.
pub fn key(origin: Digest, user: Digest, assistant: Digest) -> u64 {
    xxh3_64([origin.0, user.0, assistant.0].as_flattened())
}

impl Pack for Pair {
    fn pack(&self, packer: &mut Packer) {
        packer.signed(self.at);
        packer.raw(&self.key.to_le_bytes());
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self { at: unpacker.signed()?, key: u64::from_le_bytes(unpacker.raw(8)?.try_into().ok()?) })
    }
}

/// The records of one folder as they are remembered.
pub fn pack_folder<'r, L: Log + 'r>(folder: &Path, records: impl ExactSizeIterator<Item = &'r Record<L>>) -> Vec<u8> {
    let mut packer = Packer::with_capacity(records.len() * 512);
    packer.counted(folder.as_os_str().as_bytes());
    packer.number(table_digest::<L>());
    packer.number(records.len() as u64);
    for record in records {
        packer.counted(record.path.file_name().unwrap_or_default().as_bytes());
        record.stamps.pack(&mut packer);
        record.taken.pack(&mut packer);
        record.counts.pack(&mut packer);
        record.summary.pack(&mut packer);
        packer.number(record.cuts.len() as u64);
        for (end, summary) in &record.cuts {
            packer.number(*end);
            summary.pack(&mut packer);
        }
    }
    packer.finish()
}

/// Takes them up again; `None` when they are none, or another folder's.
pub fn unpack_folder<L: Log>(folder: &Path, bytes: &[u8]) -> Option<Vec<Record<L>>> {
    let mut unpacker = Unpacker::new(bytes);
    if unpacker.counted()? != folder.as_os_str().as_bytes() || unpacker.number()? != table_digest::<L>() {
        return None;
    }
    let count = unpacker.index()?;
    let mut records = Vec::with_capacity(count.min(unpacker.left()));
    for _ in 0..count {
        let path = folder.join(OsStr::from_bytes(unpacker.counted()?));
        let (stamps, taken) = (Stamps::unpack(&mut unpacker)?, Moment::unpack(&mut unpacker)?);
        let (counts, summary) = (Counts::unpack(&mut unpacker)?, L::unpack(&mut unpacker)?);
        if counts.known.iter().any(|(n, _)| usize::from(*n) >= table::<L>().names().len()) {
            return None;
        }
        let mut cuts = Vec::new();
        for _ in 0..unpacker.number()? {
            cuts.push((unpacker.number()?, L::unpack(&mut unpacker)?));
        }
        records.push(Record { path, stamps, taken, counts, summary, cuts });
    }
    unpacker.is_at_end().then_some(records)
}

impl Pack for Counts {
    fn pack(&self, packer: &mut Packer) {
        let Self { known, unknown, unreadable, writers, last_row_at, damaged } = self;
        packer.number(known.len() as u64);
        for (n, Count { rows, bytes }) in known {
            [u64::from(*n), *rows, *bytes].iter().for_each(|number| packer.number(*number));
        }
        packer.number(unknown.len() as u64);
        for (name, Count { rows, bytes }) in unknown {
            packer.counted(name.as_bytes());
            [*rows, *bytes].iter().for_each(|number| packer.number(*number));
        }
        unreadable.iter().flat_map(|count| [count.rows, count.bytes]).for_each(|number| packer.number(number));
        packer.all(writers);
        last_row_at.pack(packer);
        damaged.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let count = |unpacker: &mut Unpacker<'_>| Some(Count { rows: unpacker.number()?, bytes: unpacker.number()? });
        let known = unpacker.index()?;
        let mut of_known = Vec::with_capacity(known.min(usize::from(u8::MAX)));
        for _ in 0..known {
            of_known.push((u8::try_from(unpacker.number()?).ok()?, count(unpacker)?));
        }
        let mut unknown = Vec::new();
        for _ in 0..unpacker.number()? {
            unknown.push((String::unpack(unpacker)?, count(unpacker)?));
        }
        let unreadable = [count(unpacker)?, count(unpacker)?, count(unpacker)?];
        let (writers, last_row_at) = (unpacker.all()?, Option::unpack(unpacker)?);
        let damaged = bool::unpack(unpacker)?;
        Some(Self { known: of_known.into(), unknown, unreadable, writers, last_row_at, damaged })
    }
}

/// The types that are known of this kind of log.
pub fn table<L: Log>() -> &'static Table {
    <<L::Ledger as Ledger>::Host as Counting>::table()
}

/// What tells the table of this kind of log from others: the numbers of types mean something only beside it.
pub fn table_digest<L: Log>() -> u64 {
    xxh3_64(table::<L>().names().join("\n").as_bytes())
}
