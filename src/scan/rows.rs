//! The rows that mattered in a rollout, as what proves later that they are still the ones that were read.
//!
//! Digests here are fast ones: they are to notice accidents, not attackers.

use rayon::prelude::*;
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
const NEAR: u64 = 64 << 10;
/// So many groups are worth a second core.
const MANY_GROUPS: usize = 48;

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

/// The rows that mattered, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    rows: Vec<RowRef>,
    /// One for so many rows; the last one's rows may yet become more.
    groups: Vec<Print>,
}

impl Rows {
    /// Adds the next one.
    pub fn push(&mut self, at: RowRef, print: Print) {
        match self.groups.last_mut().filter(|_| !self.rows.len().is_multiple_of(GROUP)) {
            Some(group) => *group = joined(*group, print),
            None => self.groups.push(print),
        }
        self.rows.push(at);
    }

    /// Whether the rows from the offset `since` on, and this slice of the older ones, are in the file as they were.
    pub fn hold(&self, since: u64, slice: u8, read: &impl ReadAt) -> bool {
        let recent = self.rows.partition_point(|row| row.offset < since) / GROUP;
        let older = (0..recent.min(self.groups.len())).filter(|n| n % usize::from(SLICES) == usize::from(slice));
        let looked_at: Vec<usize> = older.chain(recent..self.groups.len()).collect();
        if looked_at.len() < MANY_GROUPS {
            let mut buffer = Vec::new();
            return looked_at.into_iter().all(|n| self.group_holds(n, read, &mut buffer));
        }
        looked_at.into_par_iter().map_init(Vec::new, |buffer, n| self.group_holds(n, read, buffer)).all(|holds| holds)
    }

    fn group_holds(&self, n: usize, read: &impl ReadAt, buffer: &mut Vec<u8>) -> bool {
        let rows = &self.rows[n * GROUP..self.rows.len().min((n + 1) * GROUP)];
        let prints = match self.near(rows) {
            Some((start, len)) => {
                buffer.resize(len, 0);
                if !read(start, buffer) {
                    return false;
                }
                let print = |row: &RowRef| Some(print_of(&buffer[(row.offset - start) as usize..][..row.len as usize]));
                rows.iter().map(print).reduce(both)
            }
            None => rows.iter().map(|row| print_at(*row, read, buffer)).reduce(both),
        };
        prints.flatten() == Some(self.groups[n])
    }

    /// Where rows begin and how many bytes they take, if these are few.
    fn near(&self, rows: &[RowRef]) -> Option<(u64, usize)> {
        let (first, last) = (rows.first()?, rows.last()?);
        let len = last.span().end.checked_sub(first.offset).filter(|len| *len <= NEAR)?;
        Some((first.offset, len as usize))
    }
}

fn both(one: Option<Print>, next: Option<Print>) -> Option<Print> {
    Some(joined(one?, next?))
}

impl Pack for Rows {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.rows.len() as u64);
        let mut end = 0;
        for row in &self.rows {
            packer.number(row.offset - end);
            packer.number(row.len);
            end = row.span().end;
        }
        self.groups.iter().for_each(|print| packer.raw(&print.to_le_bytes()));
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let (count, mut end) = (unpacker.index()?, 0_u64);
        let mut rows = Vec::new();
        for _ in 0..count {
            let offset = end.checked_add(unpacker.number()?)?;
            let len = unpacker.number()?;
            end = offset.checked_add(len)?;
            rows.push(RowRef { offset, len });
        }
        let prints = unpacker.raw(count.div_ceil(GROUP).checked_mul(16)?)?;
        let groups = prints.as_chunks::<16>().0.iter().map(|print| Print::from_le_bytes(*print)).collect();
        Some(Self { rows, groups })
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
            let at = rows.rows[n];
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
        let at = rows.rows[100];
        for (byte, seen) in [(0, true), (END - 1, true), (END, false), (at.len - END, true), (at.len - 1, true)] {
            let byte = (at.offset + byte) as usize;
            bytes[byte] ^= 1;
            assert_eq!(!holds(&bytes, &rows, 0, 0), seen);
            bytes[byte] ^= 1;
        }
    }
}
