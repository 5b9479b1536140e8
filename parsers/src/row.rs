//! The objects of one line of a log, and where they stand in the file.
//!
//! A line normally holds one object. Interrupted writes splice lines: a cut row followed by a whole one, two rows without
//! the line feed between them, a hole of NUL bytes in front. After something unreadable, reading goes on at the next
//! place of the line where a row begins as its host writes it, and gives up at the eighth such piece.

use std::ops::Range;

use crate::json::{Bad, Reader};
use crate::pack::{Pack, Packer, Unpacker};

const BOM: &[u8] = b"\xef\xbb\xbf";
/// So many unreadable pieces end the reading of a line.
const PIECES: usize = 8;

/// Where the object of a row stands in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRef {
    /// Offset of its first byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl RowRef {
    /// The positions of its bytes.
    pub fn span(&self) -> Range<u64> {
        self.offset..self.offset + self.len
    }
}

impl Pack for RowRef {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.offset);
        packer.number(self.len);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let (offset, len) = (unpacker.number()?, unpacker.number()?);
        offset.checked_add(len).map(|_| Self { offset, len })
    }
}

/// A message that has to be read again does not stand any more where it stood, or turns are asked for that are put aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingRow;

impl std::fmt::Display for MissingRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a message of a turn is not where it was, or a turn is put aside")
    }
}

impl std::error::Error for MissingRow {}

/// A line, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineText<'l> {
    /// Its bytes, without the LF.
    pub(crate) bytes: &'l [u8],
    /// Where it begins in its file; a byte order mark at 0 is blank.
    pub(crate) offset: u64,
    /// Whether its LF is there: of an unterminated line only the whole objects at its start count, for more bytes may
    /// follow.
    pub(crate) ended: bool,
}

/// What stands in a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece<T> {
    /// An object, read; `damaged` says that something that is no JSON stands in front of it.
    Object { value: T, at: RowRef, damaged: bool },
    /// Nobody knows what stood there.
    Unreadable(Unreadable, RowRef),
}

/// Why something in a line is no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unreadable {
    /// It is no JSON, up to the end of its line.
    Broken,
    /// It is no JSON, and another row begins behind it: an interrupted write, mostly.
    Spliced,
    /// NUL bytes, as a power loss leaves them.
    Hole,
}

impl<'l> LineText<'l> {
    /// Calls `found` with every object, read by `read`, and with what cannot be read, in order, until that answers false.
    /// `next_row` finds where the next row may begin in the bytes behind the start of something unreadable. At the end of
    /// an unterminated line nothing is unreadable yet.
    pub(crate) fn for_each_object<T>(
        self,
        next_row: impl Fn(&[u8]) -> Option<usize>,
        mut read: impl FnMut(&mut Reader<'l>) -> Result<T, Bad>,
        mut found: impl FnMut(Piece<T>) -> bool,
    ) {
        let Self { bytes, offset, ended } = self;
        let place = |from: usize, to: usize| RowRef { offset: offset + from as u64, len: (to - from) as u64 };
        let mut at = if offset == 0 && bytes.starts_with(BOM) { BOM.len() } else { 0 };
        let mut unreadable = 0;
        loop {
            let blank = at;
            at += bytes[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0)).count();
            let hole = bytes[blank..at].contains(&0).then(|| Piece::Unreadable(Unreadable::Hole, place(blank, at)));
            let Some(first) = bytes.get(at) else {
                hole.filter(|_| ended).map(found);
                return;
            };
            let mut reader = Reader::new(bytes, at);
            let value = if *first == b'{' { read(&mut reader).map(Some) } else { reader.skip().map(|()| None) };
            match value {
                Ok(value) => {
                    let (from, damaged) = (std::mem::replace(&mut at, reader.at()), unreadable > 0);
                    let object = value.map(|value| Piece::Object { value, at: place(from, at), damaged });
                    if !hole.into_iter().chain(object).all(&mut found) {
                        return;
                    }
                }
                Err(Bad) if ended => {
                    unreadable += 1;
                    let next = next_row(&bytes[at + 1..]).filter(|_| unreadable < PIECES).map(|next| at + 1 + next);
                    let from = std::mem::replace(&mut at, next.unwrap_or(bytes.len()));
                    let why = if next.is_some() { Unreadable::Spliced } else { Unreadable::Broken };
                    if !found(Piece::Unreadable(why, place(from, at))) || next.is_none() {
                        return;
                    }
                }
                Err(Bad) => return,
            }
        }
    }
}
