//! The rows that mattered in a rollout, as what proves later that they are still the ones that were read.
//!
//! Digests here are fast ones: they are to notice accidents, not attackers.

use std::thread;

use smallvec::SmallVec;
use throughline_parsers::codex::RowRef;
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use xxhash_rust::xxh3::xxh3_128;

use crate::cores::elsewhere;

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
    /// So many groups in front are put aside.
    settled: usize,
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

/// Groups that are put aside, by the slice in which they are looked at.
pub type Slices = [Vec<u8>; SLICES as usize];

/// A group that is to be looked at: its print, where its first row begins, how many rows it has, and where these stand.
struct Look<'r> {
    print: Print,
    start: u64,
    count: usize,
    spans: &'r [u8],
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
    /// `settled` is that slice of what is put aside.
    pub fn hold(&self, since: u64, slice: u8, settled: &[u8], read: &impl ReadAt) -> bool {
        // The group in which the offset lies, too.
        let recent = self.recent(since);
        let older = (0..recent).filter(|n| slice_of(self.settled.wrapping_add(*n)) == usize::from(slice));
        let looks = older.chain(recent..self.groups.len()).map(|n| self.look(n));
        let Some(looked_at) = looks_in(settled).chain(looks).collect::<Option<Vec<Look<'_>>>>() else { return false };
        let all_hold = |looks: &[Look<'_>]| {
            let mut buffer = Vec::new();
            looks.iter().all(|look| look.holds(read, &mut buffer))
        };
        if looked_at.len() < MANY_GROUPS {
            return all_hold(&looked_at);
        }
        let (one, other) = looked_at.split_at(looked_at.len() / 2);
        // One more thread for this costs less than a pool of them.
        thread::scope(|scope| {
            let other = scope.spawn(elsewhere(|| all_hold(other)));
            all_hold(one) && other.join().unwrap_or(false)
        })
    }

    /// The first group with rows from this offset on.
    fn recent(&self, since: u64) -> usize {
        self.groups.partition_point(|group| group.start <= since).saturating_sub(1)
    }

    fn look(&self, n: usize) -> Option<Look<'_>> {
        let Group { print, start, at } = *self.groups.get(n)?;
        let count = if n + 1 == self.groups.len() { self.in_last } else { GROUP };
        Some(Look { print, start, count, spans: self.spans.get(at as usize..)? })
    }

    /// Puts the groups aside that end in front of this offset. Nothing may be put aside yet.
    pub fn settle(&mut self, before: u64) -> Slices {
        let mut slices: [Packer; SLICES as usize] = std::array::from_fn(|_| Packer::default());
        let count = self.recent(before);
        let spans_end = self.groups.get(count).map_or(0, |group| group.at);
        for (n, group) in self.groups[..count].iter().enumerate() {
            let slice = &mut slices[slice_of(n)];
            slice.raw(&group.print.to_le_bytes());
            slice.number(group.start);
            let end = self.groups.get(n + 1).map_or(spans_end, |next| next.at);
            slice.counted(&self.spans[group.at as usize..end as usize]);
        }
        self.groups.drain(..count);
        self.groups.iter_mut().for_each(|group| group.at -= spans_end);
        self.spans.drain(..spans_end as usize);
        self.settled = count;
        slices.map(Packer::finish)
    }

    /// Whether something is put aside.
    pub fn has_settled(&self) -> bool {
        self.settled > 0
    }

    /// Takes back what was put aside; false where it is not that.
    #[must_use]
    pub fn join(&mut self, slices: &Slices) -> bool {
        let mut slices = slices.each_ref().map(|slice| looks_in(slice));
        let (mut groups, mut spans) = (Vec::new(), Vec::new());
        for n in 0..self.settled {
            let Some(Some(Look { print, start, spans: of_group, .. })) = slices[slice_of(n)].next() else {
                return false;
            };
            let Ok(at) = u32::try_from(spans.len()) else { return false };
            groups.push(Group { print, start, at });
            spans.extend_from_slice(of_group);
        }
        if slices.iter_mut().any(|slice| slice.next().is_some()) {
            return false;
        }
        let Ok(behind) = u32::try_from(spans.len()) else { return false };
        if u32::try_from(spans.len() + self.spans.len()).is_err() {
            return false;
        }
        groups.extend(self.groups.iter().map(|group| Group { at: group.at + behind, ..*group }));
        spans.append(&mut self.spans);
        (self.settled, self.groups, self.spans) = (0, groups, spans);
        true
    }
}

/// The slice in which a group is looked at.
fn slice_of(group: usize) -> usize {
    group % usize::from(SLICES)
}

/// The groups in a slice that was put aside; `None` where there is none.
fn looks_in(slice: &[u8]) -> impl Iterator<Item = Option<Look<'_>>> {
    let mut unpacker = Unpacker::new(slice);
    let mut look = move || {
        let print = Print::from_le_bytes(unpacker.raw(16)?.try_into().ok()?);
        let look = Look { print, start: unpacker.number()?, count: GROUP, spans: unpacker.counted()? };
        Some((look, unpacker.is_at_end()))
    };
    let mut ended = slice.is_empty();
    std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let read = look();
        ended = read.as_ref().is_none_or(|(_, last)| *last);
        Some(read.map(|(look, _)| look))
    })
}

impl Look<'_> {
    fn holds(&self, read: &impl ReadAt, buffer: &mut Vec<u8>) -> bool {
        let Some(rows) = self.rows() else { return false };
        let (mut rest, mut print) = (&rows[..], None);
        while !rest.is_empty() {
            let (together, behind) = rest.split_at(near(rest).max(1));
            for found in prints_of(together, read, buffer) {
                let Some(found) = found else { return false };
                print = Some(print.map_or(found, |print| joined(print, found)));
            }
            rest = behind;
        }
        print == Some(self.print)
    }

    /// Where its rows stand; `None` where they cannot.
    fn rows(&self) -> Option<SmallVec<[RowRef; GROUP]>> {
        let mut spans = Unpacker::new(self.spans);
        let (mut rows, mut end) = (SmallVec::new(), self.start);
        for _ in 0..self.count {
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
        packer.number(self.settled as u64);
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
        let settled = unpacker.index()?;
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
        let groups = groups.iter().map(group).collect::<Option<Vec<Group>>>()?;
        let spans = unpacker.counted()?.to_vec();
        let fits = groups.last().is_none_or(|group| group.at as usize <= spans.len());
        if !fits || !groups.is_sorted_by_key(|group| group.at) {
            return None;
        }
        let in_last = unpacker.index().filter(|rows| *rows <= GROUP)?;
        Some(Self { settled, groups, spans, in_last, end: unpacker.number()? })
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
        holds_with(bytes, rows, since, slice, &[])
    }

    fn holds_with(bytes: &[u8], rows: &Rows, since: u64, slice: u8, settled: &[u8]) -> bool {
        rows.hold(since, slice, settled, &|offset: u64, buffer: &mut [u8]| {
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
            let at = rows.look(n / GROUP).unwrap().rows().unwrap()[n % GROUP];
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
    fn what_is_put_aside_is_looked_at_as_before_and_can_be_taken_back() {
        let (mut bytes, rows) = file();
        for settled_rows in [0, 15, 16, 1600, 1601, 2999] {
            let before = rows.look(settled_rows / GROUP).unwrap().rows().unwrap()[settled_rows % GROUP].offset;
            let mut settled = rows.clone();
            let slices = settled.settle(before);
            assert_eq!(settled.settled, settled_rows / GROUP);
            let mut joined = settled.clone();
            assert!(joined.join(&slices) && joined == rows);
            for n in [0, 16, 1040, 1599, 2900] {
                let byte = rows.look(n / GROUP).unwrap().rows().unwrap()[n % GROUP].offset as usize + 3;
                bytes[byte] ^= 1;
                for slice in 0..SLICES {
                    let found = holds_with(&bytes, &settled, u64::MAX, slice, &slices[usize::from(slice)]);
                    assert_eq!(found, holds(&bytes, &rows, u64::MAX, slice), "{settled_rows}: row {n}, slice {slice}");
                }
                bytes[byte] ^= 1;
            }
            if settled_rows >= GROUP {
                let mut fewer = slices.clone();
                fewer[0].clear();
                assert!(!settled.clone().join(&fewer));
                assert!(!holds_with(&bytes, &settled, u64::MAX, 0, &slices[0][..slices[0].len() - 1]));
            }
        }
    }

    #[test]
    fn of_a_long_row_the_ends_and_the_length_are_looked_at() {
        let (mut bytes, rows) = file();
        let at = rows.look(100 / GROUP).unwrap().rows().unwrap()[100 % GROUP];
        for (byte, seen) in [(0, true), (END - 1, true), (END, false), (at.len - END, true), (at.len - 1, true)] {
            let byte = (at.offset + byte) as usize;
            bytes[byte] ^= 1;
            assert_eq!(!holds(&bytes, &rows, 0, 0), seen);
            bytes[byte] ^= 1;
        }
    }
}
