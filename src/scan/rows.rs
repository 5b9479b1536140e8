//! The rows that mattered in a rollout, as what proves later that they are still the ones that were read.
//!
//! Digests here are fast ones: they are to notice accidents, not attackers.

use std::thread;

use smallvec::SmallVec;
use throughline_parsers::codex::RowRef;
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use xxhash_rust::xxh3::xxh3_128;

/// A digest of bytes.
pub type Print = u128;

/// Of a longer row its two ends and its length stand for it.
const LONG: u64 = 16 << 10;
const END: u64 = 4 << 10;

/// So many rows have one digest.
const GROUP: usize = 16;
/// Rows that lie so near to each other are read together.
const NEAR: u64 = 8 << 10;
/// So many groups are worth a second core.
const MANY_GROUPS: usize = 96;

/// The older groups are looked at in so many slices, one at a time.
pub const SLICES: u8 = 64;

/// The print of a row: of all of it, or where it is long, of its ends.
pub fn print_of(row: &[u8]) -> Print {
    if row.len() as u64 <= LONG {
        return xxh3_128(row);
    }
    let end = END as usize;
    ends(&row[..end], &row[row.len() - end..], row.len() as u64)
}

fn ends(first: &[u8], last: &[u8], len: u64) -> Print {
    joined(joined(xxh3_128(first), xxh3_128(last)), u128::from(len))
}

fn joined(one: Print, next: Print) -> Print {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&one.to_le_bytes());
    bytes[16..].copy_from_slice(&next.to_le_bytes());
    xxh3_128(&bytes)
}

/// Reads bytes of a file into the buffer, all that it holds; false when they are not there.
pub trait ReadAt: Fn(u64, &mut [u8]) -> bool + Sync {}
impl<F: Fn(u64, &mut [u8]) -> bool + Sync> ReadAt for F {}

/// The print of a row that stands in a file; `None` when it cannot be read.
pub fn print_at(at: RowRef, read: &impl ReadAt, buffer: &mut Vec<u8>) -> Option<Print> {
    let mut bytes = |offset: u64, len: u64| -> Option<Print> {
        buffer.resize(len as usize, 0);
        read(offset, buffer).then(|| xxh3_128(buffer))
    };
    if at.len <= LONG {
        return bytes(at.offset, at.len);
    }
    let (first, last) = (bytes(at.offset, END)?, bytes(at.span().end - END, END)?);
    Some(joined(joined(first, last), u128::from(at.len)))
}

/// The rows that mattered, in the order of the file. Where they stand is kept packed: of many rows few are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    groups: Vec<Group>,
    /// Where the rows of all groups stand, each as its distance to the one in front of it and its length.
    spans: Vec<u8>,
    /// How many rows the last group has.
    in_last: usize,
    /// Where the last row ends.
    end: u64,
}

/// So many rows that have one digest; the last group's may yet become more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    print: Print,
    /// Where the first row begins.
    start: u64,
    /// Where its rows stand in the spans.
    at: u32,
}

impl Rows {
    /// Adds the next one.
    pub fn push(&mut self, at: RowRef, print: Print) {
        let mut span = Packer::default();
        match self.groups.last_mut().filter(|_| self.in_last < GROUP) {
            Some(group) => {
                group.print = joined(group.print, print);
                span.number(at.offset.saturating_sub(self.end));
                self.in_last += 1;
            }
            None => {
                self.groups.push(Group { print, start: at.offset, at: self.spans.len() as u32 });
                span.number(0);
                self.in_last = 1;
            }
        }
        span.number(at.len);
        self.spans.extend(span.finish());
        self.end = at.span().end;
    }

    /// How many bytes they take when they are saved, about.
    pub fn bytes(&self) -> usize {
        self.groups.len() * GROUP_BYTES + self.spans.len()
    }

    /// Whether the rows from the offset `since` on, and this slice of the older ones, are in the file as they were.
    pub fn hold(&self, since: u64, slice: u8, read: &impl ReadAt) -> bool {
        // The group in which the offset lies, too.
        let recent = self.groups.partition_point(|group| group.start <= since).saturating_sub(1);
        let older = (0..recent).filter(|n| n % usize::from(SLICES) == usize::from(slice));
        let looked_at: Vec<usize> = older.chain(recent..self.groups.len()).collect();
        let all_hold = |groups: &[usize]| {
            let mut buffer = Vec::new();
            groups.iter().all(|n| self.group_holds(*n, read, &mut buffer))
        };
        if looked_at.len() < MANY_GROUPS {
            return all_hold(&looked_at);
        }
        let (one, other) = looked_at.split_at(looked_at.len() / 2);
        // One more thread for this costs less than a pool of them.
        thread::scope(|scope| {
            let other = scope.spawn(|| all_hold(other));
            all_hold(one) && other.join().unwrap_or(false)
        })
    }

    fn group_holds(&self, n: usize, read: &impl ReadAt, buffer: &mut Vec<u8>) -> bool {
        let Some(rows) = self.rows_of(n) else { return false };
        let (mut rest, mut print) = (&rows[..], None);
        while !rest.is_empty() {
            let (together, behind) = rest.split_at(near(rest).max(1));
            for found in prints_of(together, read, buffer) {
                let Some(found) = found else { return false };
                print = Some(print.map_or(found, |print| joined(print, found)));
            }
            rest = behind;
        }
        print == Some(self.groups[n].print)
    }

    /// Where the rows of a group stand; `None` where they cannot.
    fn rows_of(&self, n: usize) -> Option<SmallVec<[RowRef; GROUP]>> {
        let group = self.groups.get(n)?;
        let mut spans = Unpacker::new(self.spans.get(group.at as usize..)?);
        let (mut rows, mut end) = (SmallVec::new(), group.start);
        for _ in 0..if n + 1 == self.groups.len() { self.in_last } else { GROUP } {
            let (offset, len) = (end.checked_add(spans.number()?)?, spans.number()?);
            end = offset.checked_add(len)?;
            rows.push(RowRef { offset, len });
        }
        Some(rows)
    }
}

/// How many of these rows, the first ones, lie near to each other: a message often stands there in both shapes.
fn near(rows: &[RowRef]) -> usize {
    let start = rows.first().map_or(0, |row| row.offset);
    rows.iter().take_while(|row| row.span().end - start <= NEAR).count()
}

/// The prints of rows that lie near to each other, or of a single one; `None` for what cannot be read.
fn prints_of(rows: &[RowRef], read: &impl ReadAt, buffer: &mut Vec<u8>) -> SmallVec<[Option<Print>; GROUP]> {
    let [first, .., last] = rows else {
        return rows.iter().map(|row| print_at(*row, read, buffer)).collect();
    };
    buffer.resize((last.span().end - first.offset) as usize, 0);
    if !read(first.offset, buffer) {
        return SmallVec::from_slice(&[None]);
    }
    rows.iter().map(|row| Some(print_of(&buffer[(row.offset - first.offset) as usize..][..row.len as usize]))).collect()
}

/// How many bytes a group takes.
const GROUP_BYTES: usize = 16 + 8 + 4;

impl Pack for Rows {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.groups.len() as u64);
        for Group { print, start, at } in &self.groups {
            packer.raw(&print.to_le_bytes());
            packer.raw(&start.to_le_bytes());
            packer.raw(&at.to_le_bytes());
        }
        packer.counted(&self.spans);
        packer.number(self.in_last as u64);
        packer.number(self.end);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let groups = unpacker.index()?;
        let groups = unpacker.raw(groups.checked_mul(GROUP_BYTES)?)?.as_chunks::<GROUP_BYTES>().0;
        let group = |bytes: &[u8; GROUP_BYTES]| {
            let (print, rest) = bytes.split_first_chunk()?;
            let (start, at) = rest.split_first_chunk()?;
            Some(Group {
                print: Print::from_le_bytes(*print),
                start: u64::from_le_bytes(*start),
                at: u32::from_le_bytes(*at.first_chunk()?),
            })
        };
        let groups = groups.iter().map(group).collect::<Option<_>>()?;
        let spans = unpacker.counted()?.to_vec();
        let in_last = unpacker.index().filter(|rows| *rows <= GROUP)?;
        Some(Self { groups, spans, in_last, end: unpacker.number()? })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A file with rows of many lengths, near to each other and not.
    fn file() -> (Vec<u8>, Rows) {
        let (mut bytes, mut rows) = (Vec::new(), Rows::default());
        for n in 0..3000_u64 {
            let len = match n {
                100 => 20_000,
                2900 => LONG + 1,
                n if n % 700 == 0 => 9000,
                n => 10 + n % 50,
            };
            let at = RowRef { offset: bytes.len() as u64, len };
            bytes.extend((0..len).map(|byte| (byte * 7 + n) as u8));
            rows.push(at, print_of(&bytes[at.offset as usize..]));
            bytes.extend(vec![b'x'; if n % 40 == 0 { 70_000 } else { 3 }]);
        }
        (bytes, rows)
    }

    fn holds(bytes: &[u8], rows: &Rows, since: u64, slice: u8) -> bool {
        rows.hold(since, slice, &|offset: u64, buffer: &mut [u8]| {
            let Some(bytes) = bytes.get(offset as usize..).and_then(|bytes| bytes.get(..buffer.len())) else {
                return false;
            };
            buffer.copy_from_slice(bytes);
            true
        })
    }

    #[test]
    fn a_changed_row_is_seen_where_one_looks() {
        let (mut bytes, rows) = file();
        let mut packer = Packer::default();
        rows.pack(&mut packer);
        assert_eq!(Rows::unpack(&mut Unpacker::new(&packer.finish())), Some(rows.clone()));
        assert!(holds(&bytes, &rows, 0, 0));
        assert!(!holds(&bytes[..bytes.len() - 100_000], &rows, 0, 0));
        for n in [0, 7, 15, 16, 100, 1500, 2900, 2999] {
            let at = rows.rows_of(n / GROUP).unwrap()[n % GROUP];
            let byte = at.offset as usize + 5;
            bytes[byte] ^= 1;
            assert!(!holds(&bytes, &rows, 0, 0), "row {n}");
            assert!(!holds(&bytes, &rows, at.offset, 0), "row {n}");
            let seen = (0..SLICES).filter(|slice| !holds(&bytes, &rows, u64::MAX, *slice)).count();
            // All but the last group, which is always looked at, are in one slice.
            assert_eq!(seen, if n / GROUP == 2999 / GROUP { usize::from(SLICES) } else { 1 }, "row {n}");
            bytes[byte] ^= 1;
        }
    }

    #[test]
    fn of_a_long_row_the_ends_and_the_length_are_looked_at() {
        let (mut bytes, rows) = file();
        let at = rows.rows_of(100 / GROUP).unwrap()[100 % GROUP];
        for (byte, seen) in [(0, true), (END - 1, true), (END, false), (at.len - END, true), (at.len - 1, true)] {
            let byte = (at.offset + byte) as usize;
            bytes[byte] ^= 1;
            assert_eq!(!holds(&bytes, &rows, 0, 0), seen);
            bytes[byte] ^= 1;
        }
    }
}
