//! Every row of a log counted by its type, also those that do not matter: a type that is not known here shows that a host
//! has begun to write something new.
//!
//! A row that is [passed over](crate::lines) is counted by its first bytes; every other one by what it says when it is
//! read. What a host's rows are called, and which of them are known, its [`Counting`] says.
//!
//! ```
//! use throughline_parsers::codex::EveryRow;
//! use throughline_parsers::count::{Counting, Tally};
//! let mut tally = Tally::of::<EveryRow>();
//! let line = br#"{"timestamp":"2026-07-01T00:00:00.000Z","type":"event_msg","payload":{"type":"task_started"}}"#;
//! EveryRow::look(line, 0, true, |seen| tally.see(&seen));
//! let (known, count) = tally.known().next().expect("a row of a known type was counted");
//! assert_eq!((EveryRow::table().names()[known], count.rows), ("event_msg/task_started", 1));
//! ```

use crate::lines::Spelling;
use crate::row::RowRef;

pub use crate::row::Unreadable;

mod saved;

/// How all rows of a host's logs are told apart.
pub trait Counting: Spelling {
    /// What a row that is read does.
    type Row: Send + Sync;

    /// The types that are known.
    fn table() -> &'static Table;

    /// What a row is of that is passed over since it begins so, in the host's own exact spelling; `None` for one that is to
    /// be read.
    fn sift(start: &[u8]) -> Option<Sifted<'_>>;

    /// The time of a row that begins so, in milliseconds since the epoch, where its first bytes tell.
    fn time_of(_start: &[u8]) -> Option<i64> {
        None
    }

    /// Calls `each` with everything that stands in a line (without its LF), in order. `offset` is where the line begins in
    /// its file; `ended` says that its LF is there: of an unterminated line only the whole objects at its start are told,
    /// for more bytes may follow.
    fn look(line: &[u8], offset: u64, ended: bool, each: impl FnMut(Seen<'_, Self::Row>));
}

/// The types of rows that are known: those that the recordings of a host's versions hold.
#[derive(Debug)]
pub struct Table {
    names: &'static [&'static str],
    /// Which name a hash may be that of; of several the next ones.
    slots: [Option<u8>; SLOTS],
}

const SLOTS: usize = 256;

impl Table {
    /// A table of these names: fewer than there are slots, so that some stay free.
    pub fn of(names: &'static [&'static str]) -> Self {
        assert!(names.len() < SLOTS / 2, "a search ends at a free slot");
        let mut slots = [None; SLOTS];
        for (n, name) in names.iter().enumerate() {
            let (row, inner) = name.split_once('/').unwrap_or((name, ""));
            let mut slot = hash(row.as_bytes(), inner.as_bytes());
            while slots[slot].is_some() {
                slot = (slot + 1) % SLOTS;
            }
            slots[slot] = u8::try_from(n).ok();
        }
        Self { names, slots }
    }

    /// The names.
    pub fn names(&self) -> &'static [&'static str] {
        self.names
    }

    /// Which of the types is called so.
    pub fn find(&self, name: Name<'_>) -> Option<usize> {
        let mut slot = hash(name.row, name.inner);
        loop {
            let n = usize::from(self.slots[slot]?);
            if name.is(self.names[n].as_bytes()) {
                return Some(n);
            }
            slot = (slot + 1) % SLOTS;
        }
    }
}

/// Lengths and last bytes: names seldom share them.
fn hash(row: &[u8], inner: &[u8]) -> usize {
    let last = |text: &[u8]| text.last().map_or(0, |last| usize::from(*last));
    (row.len() * 7 + inner.len() * 31 + last(row) * 3 + last(inner) * 5) % SLOTS
}

/// What a row is of that is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sifted<'n> {
    /// Of this type of the table.
    Known(usize),
    /// Of another one.
    Unknown(Name<'n>),
}

/// Something that stands in a line.
#[derive(Debug)]
pub enum Seen<'n, R> {
    /// A row.
    Row {
        /// What it is called.
        name: Name<'n>,
        /// Where it stands.
        at: RowRef,
        /// What it does.
        row: R,
    },
    /// No row, and its length in bytes.
    Unreadable(Unreadable, u64),
}

/// What a row is called: its type, and for some types that of what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'n> {
    /// Its type. Empty where it has none.
    pub row: &'n [u8],
    /// The type of its payload. Empty where that does not matter.
    pub inner: &'n [u8],
}

impl Name<'_> {
    /// Whether as one name, `row/inner`, it is this.
    fn is(self, joined: &[u8]) -> bool {
        match joined.split_at_checked(self.row.len()) {
            Some((row, b"")) => row == self.row && self.inner.is_empty(),
            Some((row, [b'/', inner @ ..])) => inner == self.inner && row == self.row,
            _ => false,
        }
    }

    fn joined(self) -> Vec<u8> {
        let inner = if self.inner.is_empty() { vec![] } else { [b"/", self.inner].concat() };
        [self.row, &inner].concat()
    }
}

/// What a row without a type is called.
const UNNAMED: &str = "(none)";
/// A log of noise must not fill the memory: of its names so many are kept, of each so many characters.
const NAMES: usize = 64;
const NAME_CHARS: usize = 64;
/// What all other names are counted as.
const MORE: &str = "(more)";

/// How many rows there are of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub rows: u64,
    /// How many bytes they take, without line feeds.
    pub bytes: u64,
}

impl Count {
    /// One more, of so many bytes.
    pub fn add(&mut self, bytes: u64) {
        self.rows += 1;
        self.bytes += bytes;
    }

    /// All of those too.
    pub fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

/// Rows counted by type.
#[derive(Clone, Debug)]
pub struct Tally {
    table: &'static Table,
    /// Of the known types, then of the others.
    counts: Vec<Count>,
    /// What those others are called.
    unknown: Vec<String>,
    unreadable: [Count; 3],
}

impl Tally {
    /// No rows of this host yet.
    pub fn of<H: Counting>() -> Self {
        let table = H::table();
        let counts = vec![Count::default(); table.names.len()];
        Self { table, counts, unknown: Vec::new(), unreadable: [Count::default(); 3] }
    }

    /// Counts what stands in a line.
    pub fn see<R>(&mut self, seen: &Seen<'_, R>) {
        match seen {
            Seen::Row { name, at, .. } => {
                let index = self.index_of(*name);
                self.add(index, at.len);
            }
            Seen::Unreadable(why, bytes) => self.unreadable[*why as usize].add(*bytes),
        }
    }

    /// Where a type is counted.
    pub fn index(&mut self, sifted: Sifted<'_>) -> usize {
        match sifted {
            Sifted::Known(index) => index,
            Sifted::Unknown(name) => self.index_of_unknown(&name.joined()),
        }
    }

    fn index_of(&mut self, name: Name<'_>) -> usize {
        self.table.find(name).unwrap_or_else(|| self.index_of_unknown(&name.joined()))
    }

    fn index_of_unknown(&mut self, name: &[u8]) -> usize {
        let mut name: String = String::from_utf8_lossy(name).chars().take(NAME_CHARS).collect();
        if name.is_empty() {
            UNNAMED.clone_into(&mut name);
        }
        let find = |unknown: &[String], name: &str| unknown.iter().position(|known| known == name);
        let known = self.table.names.len();
        if let Some(found) = find(&self.unknown, &name) {
            return known + found;
        }
        if self.unknown.len() >= NAMES {
            MORE.clone_into(&mut name);
            if let Some(found) = find(&self.unknown, &name) {
                return known + found;
            }
        }
        self.unknown.push(name);
        self.counts.push(Count::default());
        self.counts.len() - 1
    }

    /// Counts a row of the type that is counted there.
    pub fn add(&mut self, index: usize, bytes: u64) {
        self.counts[index].add(bytes);
    }

    /// Where the type is counted that is counted there in another tally of this host.
    pub fn index_of_other(&mut self, other: &Self, index: usize) -> usize {
        match index.checked_sub(self.table.names.len()) {
            None => index,
            Some(unknown) => self.index_of_unknown(other.unknown[unknown].as_bytes()),
        }
    }

    /// Counts all that another one of this host has counted.
    pub fn merge(&mut self, other: &Self) {
        let known = self.table.names.len();
        self.counts[..known].iter_mut().zip(&other.counts).for_each(|(this, other)| this.merge(*other));
        self.unreadable.iter_mut().zip(other.unreadable).for_each(|(this, other)| this.merge(other));
        for (name, count) in other.unknown.iter().zip(&other.counts[known..]) {
            let index = self.index_of_unknown(name.as_bytes());
            self.counts[index].merge(*count);
        }
    }

    /// The known types of which there are rows, each by its number in the table.
    pub fn known(&self) -> impl Iterator<Item = (usize, Count)> {
        let counts = self.counts[..self.table.names.len()].iter().copied();
        counts.enumerate().filter(|(_, count)| count.rows > 0)
    }

    /// The types that are not known.
    pub fn unknown(&self) -> impl Iterator<Item = (&str, Count)> {
        let counts = self.counts[self.table.names.len()..].iter().copied();
        self.unknown.iter().map(String::as_str).zip(counts).filter(|(_, count)| count.rows > 0)
    }

    /// What could not be read, by why that is.
    pub fn unreadable(&self) -> [(Unreadable, Count); 3] {
        [Unreadable::Broken, Unreadable::Spliced, Unreadable::Hole].map(|why| (why, self.unreadable[why as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::Transcript;
    use crate::codex::EveryRow;

    #[test]
    fn every_known_type_is_found_and_no_other() {
        for table in [EveryRow::table(), Transcript::table()] {
            for (n, name) in table.names().iter().enumerate() {
                let (row, inner) = name.split_once('/').unwrap_or((name, ""));
                let find = |row: &str, inner: &str| table.find(Name { row: row.as_bytes(), inner: inner.as_bytes() });
                assert_eq!(find(row, inner), Some(n), "{name}");
                for (row, inner) in [(row, "x"), ("x", inner), (&row[1..], inner), (inner, row), (name, "")] {
                    assert!(
                        find(row, inner)
                            .is_none_or(|found| table.names()[found] == [row, inner].join("/").trim_end_matches('/'))
                    );
                }
            }
        }
    }

    #[test]
    fn names_are_few_and_short() {
        let mut tally = Tally::of::<EveryRow>();
        let mut other = tally.clone();
        let count = |tally: &mut Tally, row: &str, bytes| {
            let index = tally.index_of(Name { row: row.as_bytes(), inner: b"" });
            tally.add(index, bytes);
        };
        for n in 0..100 {
            count(&mut tally, &format!("{n:03}{}", "é".repeat(100)), 2);
        }
        count(&mut tally, "", 1);
        count(&mut tally, "turn_context", 1);
        other.merge(&tally);
        other.merge(&tally);
        let known: Vec<_> = other.known().map(|(n, count)| (EveryRow::table().names()[n], count)).collect();
        assert_eq!(known, [("turn_context", Count { rows: 2, bytes: 2 })]);
        let unknown: Vec<_> = other.unknown().collect();
        assert_eq!(unknown.iter().map(|(_, count)| count.rows).sum::<u64>(), 202);
        assert!(unknown.len() <= NAMES + 1);
        assert!(unknown.iter().all(|(name, _)| name.chars().count() <= NAME_CHARS));
        assert!(unknown.iter().any(|(name, count)| *name == MORE && count.rows > 60));
    }
}
