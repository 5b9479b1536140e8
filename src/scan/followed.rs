//! What is remembered of a transcript: how far it was read, what was made of its rows, and what proves that the bytes in
//! front are still the ones that were read.
//!
//! The same rules as for a rollout's [`checkpoint`](super::checkpoint). The tail of a transcript is rewritten now and then;
//! then the proof does not hold, and it is read from its start.

use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use throughline_parsers::claude::{MissingRow, Row, Turns};
use throughline_parsers::pack::{Pack, Packer, Unpacker};

use super::proof::{Looked, Proof};
use super::rows::{Rows, print_of};
use super::stamps::{Moment, Stamps};
use super::transcript::Transcript;
use crate::cache::{About, Cache, Name};

/// Room for what is saved of most transcripts. What is not used of it is never touched.
const ROOM: usize = 1 << 20;
/// A smaller transcript is read as fast as what is remembered of it.
const WORTH_KEEPING: u64 = 128 << 10;
/// So many bytes at the start of the file have to be the same.
const FIRST: u64 = 4 << 10;
/// The rows of so many turns, the last ones, have to be the same.
const RECENT_TURNS: u64 = 64;

/// What is made of a transcript's rows, one after the other.
pub trait Follow: Pack + Clone + Default {
    /// What tells it from other states that are made of the same transcript.
    const WHAT: &'static str;

    /// Takes the next row, and tells whether that has to be the same later. `fetch` gives bytes of the file.
    ///
    /// # Errors
    /// [`MissingRow`] when the file is not the one that was read.
    fn follow(&mut self, row: &Row, fetch: impl FnMut(Range<u64>) -> Option<Vec<u8>>) -> Result<bool, MissingRow>;

    /// From where on all rows that have to be the same are looked at again.
    fn recent(&self) -> u64;
}

impl Follow for Turns {
    const WHAT: &'static str = "turns";

    fn follow(&mut self, row: &Row, fetch: impl FnMut(Range<u64>) -> Option<Vec<u8>>) -> Result<bool, MissingRow> {
        self.apply(row, fetch)?;
        Ok(row.tells())
    }

    fn recent(&self) -> u64 {
        let turns = self.since(self.count().saturating_sub(RECENT_TURNS)).unwrap_or_default();
        turns.first().map_or(0, |turn| turn.prompt.at.offset)
    }
}

/// A transcript that was followed up to the last LF that it had.
#[derive(Clone, Debug)]
pub struct Followed<S> {
    /// The transcript.
    pub path: PathBuf,
    /// What it was.
    pub stamps: Stamps,
    /// When it was that.
    pub taken: Moment,
    /// Just past the last LF.
    pub offset: u64,
    /// How many bytes in front of that were not remembered, but read.
    pub read: u64,
    state: S,
    /// What it would be with the whole rows of the line that has no LF yet.
    with_tail: Option<S>,
    rows: Rows,
    proof: Option<Proof>,
}

impl<S: Follow> Followed<S> {
    /// Reads an open transcript, as much of it as is not remembered: by the cache, or by `earlier`.
    ///
    /// # Errors
    /// It cannot be read, or changes while it is read.
    pub fn read(
        path: &Path,
        transcript: &Transcript,
        earlier: Option<Self>,
        cache: Option<&Cache>,
    ) -> io::Result<Self> {
        let now = cache.map_or_else(|| Moment::now(Duration::ZERO), Cache::now);
        let known = earlier.or_else(|| Self::load(cache.filter(|_| transcript.is_large())?, path));
        let known = known.filter(|known| known.has_only_grown(transcript));
        if let Some(known) = known
            && let Ok(read) = known.read_on(transcript, now)?
        {
            return Ok(read);
        }
        let read = Self::start(path, transcript, now).read_on(transcript, now)?;
        read.map_err(|MissingRow| io::Error::other("the transcript changes while it is read"))
    }

    /// What was made of its rows, those of the line without LF included.
    pub fn state(&self) -> &S {
        self.with_tail.as_ref().unwrap_or(&self.state)
    }

    /// Remembers it, if that is worth it.
    pub fn store(&self, cache: &Cache) {
        if self.proof.is_some() && self.stamps.size >= WORTH_KEEPING {
            cache.store(&name::<S>(&self.path), &[self.save()]);
        }
    }

    /// Whether a read from the start finds the same up to the offset; `None` where nobody would rely on what is remembered.
    ///
    /// # Errors
    /// The transcript cannot be read.
    pub fn is_as_read_anew(&self) -> io::Result<Option<bool>> {
        let Some(transcript) = Transcript::open(&self.path)?.filter(|transcript| self.has_only_grown(transcript))
        else {
            return Ok(None);
        };
        let part = transcript.up_to(self.offset);
        let anew = Self::start(&self.path, &part, self.taken).read_on(&part, self.taken)?;
        Ok(Some(anew.is_ok_and(|anew| anew.rows == self.rows && packed(&anew.state) == packed(&self.state))))
    }

    fn start(path: &Path, transcript: &Transcript, now: Moment) -> Self {
        Self {
            path: path.to_path_buf(),
            stamps: transcript.stamps,
            taken: now,
            offset: 0,
            read: 0,
            state: S::default(),
            with_tail: None,
            rows: Rows::default(),
            proof: None,
        }
    }

    fn read_on(mut self, transcript: &Transcript, now: Moment) -> io::Result<Result<Self, MissingRow>> {
        let mut missing = false;
        self.with_tail = None;
        let from = self.offset;
        self.offset = transcript.rows(from, |read| {
            let state = match read.ended {
                true => &mut self.state,
                false => self.with_tail.get_or_insert_with(|| self.state.clone()),
            };
            match state.follow(read.row, |span| transcript.bytes(span)) {
                Ok(true) if read.ended => self.rows.push(read.row.at(), print_of(read.bytes)),
                Ok(_) => {}
                Err(MissingRow) => missing = true,
            }
        })?;
        if missing {
            return Ok(Err(MissingRow));
        }
        self.read = self.offset - from;
        let proof = Proof::of(self.offset.min(FIRST), self.offset, &reader(transcript));
        let slices = self.proof.take();
        // What was written while it was read may be in there or not.
        let quiet = transcript.now()?.can_have_grown_from(&transcript.stamps);
        self.proof = proof.filter(|_| quiet).map(|new| slices.map_or(new, |earlier| new.with_slice_behind(&earlier)));
        (self.stamps, self.taken) = (transcript.stamps, now);
        Ok(Ok(self))
    }

    /// Whether the open file is the one that was followed with bytes added, or none, as far as the proof goes.
    fn has_only_grown(&self, transcript: &Transcript) -> bool {
        let Some(proof) = &self.proof else { return false };
        let looked = Looked { rows: &self.rows, recent: self.state.recent(), settled: &[] };
        transcript.stamps.can_have_grown_from(&self.stamps)
            && proof.holds(self.offset.min(FIRST), self.offset, &looked, &reader(transcript))
    }

    fn load(cache: &Cache, path: &Path) -> Option<Self> {
        Self::unpack(&cache.load(&name::<S>(path))?.next_block()?).filter(|known| known.path == path)
    }

    fn save(&self) -> Vec<u8> {
        let mut packer = Packer::with_capacity(ROOM);
        packer.counted(S::WHAT.as_bytes());
        packer.counted(self.path.as_os_str().as_bytes());
        self.stamps.pack(&mut packer);
        self.taken.pack(&mut packer);
        packer.number(self.offset);
        self.proof.pack(&mut packer);
        self.rows.pack(&mut packer);
        self.state.pack(&mut packer);
        packer.finish()
    }

    /// Takes up what was remembered, the one block of its file; `None` when that is something else.
    pub fn unpack(block: &[u8]) -> Option<Self> {
        let mut unpacker = Unpacker::new(block);
        if unpacker.counted()? != S::WHAT.as_bytes() {
            return None;
        }
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(unpacker.counted()?));
        let (stamps, taken) = (Stamps::unpack(&mut unpacker)?, Moment::unpack(&mut unpacker)?);
        let (offset, proof) = (unpacker.number()?, Option::unpack(&mut unpacker)?);
        let (rows, state) = (Rows::unpack(&mut unpacker)?, S::unpack(&mut unpacker)?);
        Some(Self { path, stamps, taken, offset, read: 0, state, with_tail: None, rows, proof })
    }
}

fn name<S: Follow>(path: &Path) -> Name {
    Name::of(About::Transcript, &[S::WHAT.as_bytes(), path.as_os_str().as_bytes()])
}

fn reader(transcript: &Transcript) -> impl Fn(u64, &mut [u8]) -> bool + Sync {
    |offset: u64, buffer: &mut [u8]| transcript.read_at(offset, buffer)
}

fn packed(state: &impl Pack) -> Vec<u8> {
    let mut packer = Packer::default();
    state.pack(&mut packer);
    packer.finish()
}

impl Transcript {
    fn is_large(&self) -> bool {
        self.stamps.size >= WORTH_KEEPING
    }
}
