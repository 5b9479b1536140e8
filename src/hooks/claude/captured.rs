//! What earlier Stops have captured of one transcript, so that the next one compares only what is new.
//!
//! It is remembered in the cache, beside what the database and the receipts were afterwards. Where they are still so, every
//! turn that was over then needs no other look; else all turns are compared again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use throughline_parsers::claude::Turns;
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use throughline_parsers::text::Digest;
use xxhash_rust::xxh3::xxh3_128;

use crate::cache::{About, Cache, Name};
use crate::db;
use crate::db::capture::{Capture, Sums};
use crate::receipts::{SessionId, Store};

/// Where the turns of one transcript are captured.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// The transcript.
    pub transcript: &'s Path,
    /// The session under which bodies are stored.
    pub target: &'s SessionId,
    /// The session in which they were said.
    pub origin: &'s SessionId,
    /// The project of the receipts.
    pub project: Digest,
}

/// What was captured of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// So many turns, the first ones, were over and have been compared.
    pub over: u64,
    /// Those of them that are not stored, and may yet be.
    pub left: Vec<u64>,
    /// One of their pairs had a receipt in the store.
    pub has_receipt: bool,
    /// A print of these turns.
    print: u128,
    bodies: Sums,
    /// A print of the receipts: a store that was lost and made anew can be as long as it was.
    receipts: u128,
}

impl Captured {
    /// What is remembered, if the turns, the bodies and the receipts are still the same.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn load(
        cache: &Cache,
        subject: Subject<'_>,
        turns: &Turns,
        capture: &Capture<'_>,
        receipts: &Store,
    ) -> Result<Option<Self>, db::Error> {
        let saved = cache.load(&subject.name()).and_then(|mut blocks| blocks.next_block());
        let Some(known) = saved.and_then(|bytes| Self::unpack(subject, &mut Unpacker::new(&bytes))) else {
            return Ok(None);
        };
        // A receipt that comes late, when others were dropped, has its own rule, for which all pairs are needed.
        let receipts_hold =
            known.receipts == print_of_store(receipts) && (known.left.is_empty() || receipts.history_floor() == 1);
        let turns_hold = print_of(turns, known.over) == Some(known.print);
        Ok(match receipts_hold && turns_hold && subject.sums(capture)? == known.bodies {
            true => Some(known),
            false => None,
        })
    }

    /// Of what was saved: the transcript, and how many turns need no other look; `None` when it is something else.
    pub fn about(saved: &[u8]) -> Option<(PathBuf, u64)> {
        let mut unpacker = Unpacker::new(saved);
        let path = PathBuf::from(OsStr::from_bytes(unpacker.counted()?));
        let _sessions = (unpacker.counted()?, unpacker.counted()?);
        let _project = Digest::unpack(&mut unpacker)?;
        Some((path, unpacker.number()?))
    }

    /// What has been captured now, with what the database will be when that is committed: rows were only added to those that
    /// were `known`. Of the receipts nothing is known yet.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn of(
        subject: Subject<'_>,
        turns: &Turns,
        left: Vec<u64>,
        capture: &Capture<'_>,
        known: Option<&Self>,
    ) -> Result<Option<Self>, db::Error> {
        let bodies = match known {
            Some(Self { bodies, .. }) => bodies.and(subject.sums_since(capture, bodies.last_id)?),
            None => subject.sums(capture)?,
        };
        let over = turns.over();
        let print = print_of(turns, over);
        Ok(print.map(|print| Self { over, left, has_receipt: false, print, bodies, receipts: 0 }))
    }

    /// Remembers it, with what the receipts are then.
    pub fn store(mut self, cache: &Cache, subject: Subject<'_>, receipts: &Store, has_receipt: bool) {
        (self.receipts, self.has_receipt) = (print_of_store(receipts), has_receipt);
        let mut packer = Packer::default();
        packer.counted(subject.transcript.as_os_str().as_bytes());
        self.pack(subject, &mut packer);
        cache.store(&subject.name(), &[packer.finish()]);
    }

    fn pack(&self, subject: Subject<'_>, packer: &mut Packer) {
        packer.counted(subject.target.as_str().as_bytes());
        packer.counted(subject.origin.as_str().as_bytes());
        subject.project.pack(packer);
        packer.number(self.over);
        packer.number(self.left.len() as u64);
        self.left.iter().for_each(|turn| packer.number(*turn));
        self.has_receipt.pack(packer);
        self.bodies.pack(packer);
        [self.print, self.receipts].into_iter().for_each(|print| packer.raw(&print.to_le_bytes()));
    }

    fn unpack(subject: Subject<'_>, unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let is_subject = unpacker.counted()? == subject.transcript.as_os_str().as_bytes()
            && unpacker.counted()? == subject.target.as_str().as_bytes()
            && unpacker.counted()? == subject.origin.as_str().as_bytes()
            && Digest::unpack(unpacker)? == subject.project;
        let over = unpacker.number().filter(|_| is_subject)?;
        let left = (0..unpacker.number()?).map(|_| unpacker.number()).collect::<Option<_>>()?;
        let has_receipt = bool::unpack(unpacker)?;
        let bodies = Sums::unpack(unpacker)?;
        let mut print = || Some(u128::from_le_bytes(unpacker.raw(16)?.try_into().ok()?));
        Some(Self { over, left, has_receipt, print: print()?, bodies, receipts: print()? })
    }
}

impl Subject<'_> {
    fn name(self) -> Name {
        Name::of(About::Captured, &[self.transcript.as_os_str().as_bytes()])
    }

    fn sums(self, capture: &Capture<'_>) -> Result<Sums, db::Error> {
        capture.sums_of(self.target.as_str(), self.origin.as_str())
    }

    fn sums_since(self, capture: &Capture<'_>, last_id: i64) -> Result<Sums, db::Error> {
        capture.sums_since(self.target.as_str(), self.origin.as_str(), last_id)
    }
}

fn print_of(turns: &Turns, over: u64) -> Option<u128> {
    turns.saved(over).map(xxh3_128)
}

fn print_of_store(receipts: &Store) -> u128 {
    let mut packer = Packer::default();
    packer.signed(receipts.history_floor());
    for receipt in receipts.receipts() {
        packer.counted(receipt.target().as_str().as_bytes());
        packer.counted(receipt.origin().as_str().as_bytes());
        [receipt.user(), receipt.assistant()].iter().for_each(|digest| digest.pack(&mut packer));
        packer.signed(receipt.completed_at());
    }
    xxh3_128(&packer.finish())
}
