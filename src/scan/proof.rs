//! What proves of a file, besides the [rows](super::rows) that mattered, that the bytes in front of an offset are still the
//! ones that were read.

use throughline_parsers::codex::RowRef;
use throughline_parsers::pack::{Pack, Packer, Unpacker};

use super::rows::{Print, ReadAt, Rows, SLICES, print_at};

/// So many bytes in front of the offset have to be the same.
const BEFORE: u64 = 4 << 10;

/// The prints of a file's beginning and of the bytes in front of an offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    first: Print,
    before: Print,
    /// The slice of the older rows that is looked at next.
    slice: u8,
}

impl Proof {
    /// That of a file as it is: its bytes up to `first`, and those in front of `offset`. `None` when they cannot be had.
    pub fn of(first: u64, offset: u64, read: &impl ReadAt) -> Option<Self> {
        let mut buffer = Vec::new();
        let mut print = |start: u64, end: u64| print_at(RowRef { offset: start, len: end - start }, read, &mut buffer);
        Some(Self { first: print(0, first)?, before: print(offset.saturating_sub(BEFORE), offset)?, slice: 0 })
    }

    /// The same, with the next slice to be looked at.
    #[must_use]
    pub fn with_slice_behind(self, earlier: &Self) -> Self {
        Self { slice: (earlier.slice + 1) % SLICES, ..self }
    }

    /// The slice of the older rows that is looked at next.
    pub fn slice(&self) -> u8 {
        self.slice
    }

    /// Whether it holds in the file as it is: its ends, and of the rows what is [`Looked`].
    pub fn holds(&self, first: u64, offset: u64, looked: &Looked<'_>, read: &impl ReadAt) -> bool {
        let found = Self::of(first, offset, read).map(|found| Self { slice: self.slice, ..found });
        found == Some(*self) && looked.rows.hold(looked.recent, self.slice, looked.settled, read)
    }
}

/// The rows that are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Looked<'r> {
    /// Those that mattered: of the older ones one slice is looked at.
    pub rows: &'r Rows,
    /// All from this offset on are.
    pub recent: u64,
    /// The slice among those that are put aside.
    pub settled: &'r [u8],
}

impl Pack for Proof {
    fn pack(&self, packer: &mut Packer) {
        packer.raw(&self.first.to_le_bytes());
        packer.raw(&self.before.to_le_bytes());
        packer.number(u64::from(self.slice));
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let mut print = || Some(Print::from_le_bytes(unpacker.raw(16)?.try_into().ok()?));
        let (first, before) = (print()?, print()?);
        let slice = u8::try_from(unpacker.number()?).ok().filter(|slice| *slice < SLICES)?;
        Some(Self { first, before, slice })
    }
}
