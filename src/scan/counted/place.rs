//! How far a log was counted, and what had been made of it there: from there on a later reading goes on.

use throughline_parsers::count::Tally;
use throughline_parsers::pack::{Pack, Packer, Unpacker};

use super::{Counted, Ledger};
use crate::scan::proof::{Looked, Proof};
use crate::scan::rows::{ReadAt, Rows};

/// So many bytes at the start of the file have to be the same, and more where the ledger says so.
const FIRST: u64 = 4 << 10;

/// A ledger that can be saved behind any line and taken up again.
pub trait Resumable: Ledger + Pack {
    /// Where the beginning of the file ends that has to be the same.
    fn first_end(&self) -> u64;

    /// From where on all rows that matter are looked at again.
    fn recent(&self) -> u64;
}

/// A place behind an LF, or at the start of a log, and what the rows in front of it come to.
#[derive(Debug)]
pub struct Place<L> {
    /// In bytes from the start.
    pub offset: u64,
    pub(super) counted: Counted<L>,
}

impl<L: Ledger> Place<L> {
    /// The start of a log that will be read on nowhere.
    pub fn start(ledger: L) -> Self {
        Self { offset: 0, counted: Counted::new(ledger) }
    }

    /// The start of a log of which the rows that matter are kept, so that what is made of them can be proven later.
    pub fn provable_start(ledger: L) -> Self {
        let counted = Counted { rows: Some(Rows::default()), ..Counted::new(ledger) };
        Self { offset: 0, counted }
    }
}

impl<L: Resumable> Place<L> {
    /// What proves later that the bytes in front are still the ones that were read; `None` when it cannot be had, or when
    /// another reading from here on could come to something else than one from the start.
    pub fn proof(&self, read: &impl ReadAt) -> Option<Proof> {
        let is_worth_it = self.offset > 0 && self.counted.rows.is_some() && self.counted.is_sound();
        if is_worth_it { Proof::of(self.first_end(), self.offset, read) } else { None }
    }

    /// Whether they are, as far as this proof goes.
    pub fn is_proven(&self, proof: &Proof, read: &impl ReadAt) -> bool {
        let Counted { ledger, rows, .. } = &self.counted;
        rows.as_ref().is_some_and(|rows| {
            let looked = Looked { rows, recent: ledger.recent(), settled: &[] };
            proof.holds(self.first_end(), self.offset, &looked, read)
        })
    }

    fn first_end(&self) -> u64 {
        self.counted.ledger.first_end().max(FIRST).min(self.offset)
    }

    /// Writes it, with the rows that mattered.
    pub fn pack(&self, packer: &mut Packer) {
        let Counted { ledger, tally, first_passed, last_time, rows, damaged: _, changed: _ } = &self.counted;
        packer.number(self.offset);
        tally.pack(packer);
        first_passed.pack(packer);
        last_time.pack(packer);
        rows.as_ref().unwrap_or(&Rows::default()).pack(packer);
        ledger.pack(packer);
    }

    /// Takes it up again; `None` when it is none.
    pub fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let (offset, tally) = (unpacker.number()?, Tally::unpack::<L::Host>(unpacker)?);
        let (first_passed, last_time) = (Option::unpack(unpacker)?, Option::unpack(unpacker)?);
        let (rows, ledger) = (Some(Rows::unpack(unpacker)?), L::unpack(unpacker)?);
        let counted = Counted { ledger, tally, first_passed, last_time, rows, damaged: false, changed: false };
        Some(Self { offset, counted })
    }
}
