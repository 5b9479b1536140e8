//! What is remembered of one rollout: how far it was read, the state there, and what proves that the bytes in front are
//! still the ones that were read.
//!
//! A rollout of the same stamps is not opened. One that can only have grown is opened once, the proof is looked at in
//! that file, and only what is new is read. Any other is read from its start, and so is one whose checkpoint is missing.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::CWD;
use throughline_parsers::codex::{Meta, RowRef, Turns};
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use throughline_parsers::text::Digest;

use super::file::{Mapping, Rollout};
use super::folders::Listed;
use super::proof::{Looked, Proof};
use super::reading::{Contents, State};
use super::rows::Rows;
use super::stamps::{Moment, Stamps};
use crate::cache::{About, Blocks, Cache, Name};
use crate::chain::Rolling;

mod anew;
mod settled;

pub use anew::packed;
use settled::Settled;

/// A smaller rollout is read as fast as its checkpoint: it gets one only when it is looked at again.
const WORTH_KEEPING: u64 = 128 << 10;
/// Saving one of so many bytes takes longer than another thread.
const LARGE: usize = 256 << 10;
/// The rows of so many pairs, the last ones, have to be the same.
const RECENT_PAIRS: usize = 64;

/// A rollout's checkpoint.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The rollout, and where it is cut.
    pub of: Of,
    /// What the file was.
    pub stamps: Stamps,
    /// When it was that.
    pub taken: Moment,
    /// Whether it was a zstd stream.
    pub packed: bool,
    /// Something counts that stands behind the last LF: the file has to be opened for it.
    pub has_tail: bool,
    /// What it held up to its last LF.
    pub state: State,
    /// What its pairs came to in the chain.
    pub chained: Option<Chained<'static>>,
    /// What is put aside of all that.
    settled: Option<Settled>,
    proof: Proof,
}

/// Which rollout, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Of {
    /// Its path, as it was listed.
    pub path: PathBuf,
    /// It is read as if it ended here, in bytes.
    pub end: Option<u64>,
}

/// What the pairs of one rollout came to in its thread's chain.
#[derive(Clone, Debug)]
pub struct Chained<'c> {
    /// The chain in front of them: its length and its digest.
    pub onto: (u64, Digest),
    /// The place of the last one's ending among those of the file.
    pub last_order: u64,
    /// The digests of the chain up to each of them that is not put aside.
    pub prefixes: Cow<'c, [Digest]>,
    /// What the last one rolled on to.
    pub rolling: Rolling,
}

/// How rollouts are read.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'c> {
    /// Where checkpoints are, if they are used.
    pub cache: Option<&'c Cache>,
    /// Checkpoints are written but not trusted.
    pub distrust: bool,
    /// Whether large files may be mapped.
    pub mapping: Mapping,
    /// The present moment.
    pub now: Moment,
}

/// A rollout that was read.
#[derive(Debug)]
pub struct ReadRollout {
    /// What it holds.
    pub contents: Contents,
    /// What the file was.
    pub stamps: Stamps,
    /// When it was that; long ago where a later look must not rely on it.
    pub taken: Moment,
    /// What its pairs came to when it was read before.
    pub chained: Option<Chained<'static>>,
    packed: bool,
    settled: Option<Settled>,
    /// What more a checkpoint of it needs, if it is to get one.
    proof: Option<Proof>,
}

impl<'c> Reader<'c> {
    /// A reader as of now.
    pub fn new(cache: Option<&'c Cache>, mapping: Mapping) -> Self {
        let now = cache.map_or_else(|| Moment::now(Duration::ZERO), Cache::now);
        Self { cache, distrust: false, mapping, now }
    }

    /// The cache, if what is in it is trusted.
    pub fn trusted(&self) -> Option<&'c Cache> {
        self.cache.filter(|_| !self.distrust)
    }

    /// Reads a rollout, as much of it as is not remembered. `again` says that it was read before; fewer than `since` pairs
    /// may be put aside. `None` when it is gone.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn read(
        &self,
        listed: &Listed,
        end: Option<u64>,
        again: bool,
        since: usize,
    ) -> io::Result<Option<ReadRollout>> {
        let of = Of { path: listed.path.clone(), end };
        let load = |since| self.trusted().and_then(|cache| Checkpoint::load(cache, &of, since));
        let checkpoint = match load(since) {
            Some(checkpoint) if checkpoint.is_whole(listed)? => return Ok(Some(checkpoint.unchanged())),
            checkpoint => checkpoint,
        };
        let Some(rollout) = Rollout::open(listed)? else { return Ok(None) };
        let again = again || checkpoint.is_some();
        let grown = |checkpoint: Option<Checkpoint>| checkpoint.filter(|known| known.has_only_grown(&rollout));
        let has_settled = checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.settled.is_some());
        let read_on = match self.read_on(&rollout, grown(checkpoint))? {
            // What is put aside may have been asked for.
            None if has_settled => self.read_on(&rollout, grown(load(0)))?,
            read_on => read_on,
        };
        let mut read = match read_on {
            Some(read) => read,
            None => self.read_whole(&rollout, end, again)?,
        };
        // What was written while it was read may be in there or not.
        let grew = rollout.now()?.can_have_grown_from(&rollout.stamps);
        if !grew {
            (read.proof, read.taken) = (None, Moment(i64::MIN));
        }
        Ok(Some(read))
    }

    /// Reads on behind a checkpoint; `None` when that cannot be done after all.
    fn read_on(&self, rollout: &Rollout, checkpoint: Option<Checkpoint>) -> io::Result<Option<ReadRollout>> {
        let Some(checkpoint) = checkpoint else { return Ok(None) };
        let Checkpoint { of, stamps, taken, state, chained, settled, proof, .. } = checkpoint;
        let Ok(contents) = rollout.read(state, of.end, self.mapping)? else { return Ok(None) };
        // Which turns are the thread's own is then asked of all of them.
        if settled.is_some() && contents.copied() {
            return Ok(None);
        }
        // One that was found unchanged is stored again only when that makes it certain.
        let same = stamps == rollout.stamps && (stamps.settled(taken) || !stamps.settled(self.now));
        let proof =
            if same { None } else { proof_of(rollout, &contents.state).map(|new| new.with_slice_behind(&proof)) };
        let (stamps, packed) = (rollout.stamps, rollout.packed);
        Ok(Some(ReadRollout { contents, stamps, taken: self.now, chained, packed, settled, proof }))
    }

    fn read_whole(&self, rollout: &Rollout, end: Option<u64>, again: bool) -> io::Result<ReadRollout> {
        let contents = rollout.read(State::default(), end, self.mapping)?.map_err(io::Error::other)?;
        let worth = self.cache.is_some() && (again || rollout.stamps.size >= WORTH_KEEPING);
        let proof = if worth { proof_of(rollout, &contents.state) } else { None };
        let (stamps, packed) = (rollout.stamps, rollout.packed);
        Ok(ReadRollout { contents, stamps, taken: self.now, chained: None, packed, settled: None, proof })
    }

    /// Stores what was read of a rollout, if that is worth it, with what its pairs came to. What takes long is done
    /// [aside](Cache::aside).
    pub fn store(&self, of: Of, read: ReadRollout, chained: Option<Chained<'_>>) {
        let ReadRollout { contents, stamps, taken: _, chained: _, packed, settled, proof } = read;
        let (Some(cache), Some(proof)) = (self.cache, proof) else { return };
        let has_tail = contents.has_tail();
        let state = contents.state;
        if state.offset == 0 {
            return;
        }
        let taken = self.now;
        let checkpoint = Checkpoint { of, stamps, taken, packed, has_tail, state, chained: None, settled, proof };
        let pairs = chained.as_ref().map_or(0, |chained| chained.prefixes.len());
        if checkpoint.settled.is_none() && checkpoint.about_bytes(pairs) < LARGE {
            return checkpoint.store(cache, chained);
        }
        let chained = chained.map(Chained::into_owned);
        cache.aside(move |cache| checkpoint.store(cache, chained));
    }
}

impl Of {
    fn name(&self) -> Name {
        let end = self.end.map_or([0xFF; 8], u64::to_le_bytes);
        Name::of(About::Rollout, &[self.path.as_os_str().as_bytes(), &end])
    }
}

impl Checkpoint {
    /// That of an open rollout which was read whole up to this state; `None` where it is not worth one, or cannot be read
    /// on.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn of(listed: &Listed, rollout: &Rollout, contents: Contents, now: Moment) -> io::Result<Option<Self>> {
        let has_tail = contents.has_tail();
        let state = contents.state;
        let is_worth_it = !rollout.packed && rollout.stamps.size >= WORTH_KEEPING && state.offset > 0;
        // What was written while it was read may be in there or not.
        let proof = match is_worth_it && rollout.now()?.can_have_grown_from(&rollout.stamps) {
            true => proof_of(rollout, &state),
            false => None,
        };
        let of = Of { path: listed.path.clone(), end: None };
        let stamps = rollout.stamps;
        let (packed, chained, settled) = (false, None, None);
        let checkpoint = |proof| Self { of, stamps, taken: now, packed, has_tail, state, chained, settled, proof };
        Ok(proof.map(checkpoint))
    }

    /// That of a rollout with fewer than `since` pairs put aside.
    fn load(cache: &Cache, of: &Of, since: usize) -> Option<Self> {
        let checkpoint = Self::unpack(&mut cache.load(&of.name())?).filter(|checkpoint| checkpoint.of == *of)?;
        // Without what the pairs came to the chain is made anew, of all of them.
        let is_enough = checkpoint.state.turns.settled().pairs < since && checkpoint.chained.is_some();
        if is_enough { Some(checkpoint) } else { checkpoint.joined() }
    }

    fn store(self, cache: &Cache, chained: Option<Chained<'_>>) {
        let name = self.of.name();
        let Some((this, chained)) = self.settle(cache.recent_turns(), chained) else { return cache.forget(&name) };
        let mut blocks = vec![this.save(chained.as_ref())];
        match this.settled.as_ref().map(Settled::blocks) {
            None => cache.store(&name, &blocks),
            Some(Ok(new)) => {
                blocks.extend_from_slice(new);
                cache.store(&name, &blocks);
            }
            Some(Err(stored)) => cache.store_with(&name, &blocks, Some(stored)),
        }
    }

    /// Whether the file needs no look, since nothing can have been written to it, and nothing behind the offset counts.
    fn is_whole(&self, listed: &Listed) -> io::Result<bool> {
        if self.has_tail || !self.stamps.settled(self.taken) || self.packed != listed.name.packed {
            return Ok(false);
        }
        let found = Stamps::of_path(CWD, &listed.file())?;
        Ok(found.is_some_and(|found| found.is_file() && found.stamps == self.stamps))
    }

    fn unchanged(self) -> ReadRollout {
        let Self { stamps, taken, packed, state, chained, settled, .. } = self;
        ReadRollout { contents: Contents::ended(state), stamps, taken, chained, packed, settled, proof: None }
    }

    /// Whether the open file is the one of this checkpoint with bytes added, or none, as far as the proof goes.
    pub fn has_only_grown(&self, rollout: &Rollout) -> bool {
        let grown = !self.packed && !rollout.packed && rollout.stamps.can_have_grown_from(&self.stamps);
        grown && {
            let read = |offset: u64, buffer: &mut [u8]| rollout.read_at(offset, buffer);
            let State { offset, rows, .. } = &self.state;
            self.to_look_at().is_some_and(|(recent, settled)| {
                let looked = Looked { rows, recent, settled: &settled };
                self.proof.holds(self.state.first_end(), *offset, &looked, &read)
            })
        }
    }

    /// From where on all rows are to be looked at, and those among the rows that are put aside: one slice, as long as the
    /// last pairs are at hand, else all. `None` where they cannot be had.
    fn to_look_at(&self) -> Option<(u64, Cow<'_, [u8]>)> {
        let turns = &self.state.turns;
        let Some(settled) = &self.settled else { return Some((recent(turns), Cow::default())) };
        let pairs = turns.turns().iter().filter(|turn| turn.pair().is_some()).take(RECENT_PAIRS).count();
        match pairs < RECENT_PAIRS {
            true => Some((0, settled.all_slices()?)),
            false => Some((recent(turns), settled.slice(self.proof.slice())?)),
        }
    }

    /// About what it takes when it is saved with so many pairs, in bytes.
    fn about_bytes(&self, pairs: usize) -> usize {
        4096 + self.state.turns.turns().len() * 120 + pairs * 32 + self.state.rows.bytes()
    }

    /// The checkpoint as it is saved, with what its pairs came to.
    pub fn save(&self, chained: Option<&Chained<'_>>) -> Vec<u8> {
        let pairs = chained.map_or(0, |chained| chained.prefixes.len());
        let mut packer = Packer::with_capacity(self.about_bytes(pairs));
        packer.counted(self.of.path.as_os_str().as_bytes());
        self.of.end.pack(&mut packer);
        self.stamps.pack(&mut packer);
        self.taken.pack(&mut packer);
        self.packed.pack(&mut packer);
        self.has_tail.pack(&mut packer);
        self.proof.pack(&mut packer);
        let State { first, copied, turns, offset, rows } = &self.state;
        first.as_ref().map(|(meta, at)| First(meta.clone(), *at)).pack(&mut packer);
        copied.pack(&mut packer);
        packer.number(*offset);
        turns.pack(&mut packer);
        rows.pack(&mut packer);
        self.settled.is_some().pack(&mut packer);
        if let Some(settled) = &self.settled {
            settled.pack_sizes(&mut packer);
        }
        chained.is_some().pack(&mut packer);
        if let Some(chained) = chained {
            chained.pack(&mut packer);
        }
        packer.finish()
    }

    /// Takes up a checkpoint from its file; `None` when it is none.
    pub fn unpack(blocks: &mut Blocks) -> Option<Self> {
        let block = blocks.next_block()?;
        let mut unpacker = Unpacker::new(&block);
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(unpacker.counted()?));
        let of = Of { path, end: Option::unpack(&mut unpacker)? };
        let (stamps, taken) = (Stamps::unpack(&mut unpacker)?, Moment::unpack(&mut unpacker)?);
        let (packed, has_tail) = (bool::unpack(&mut unpacker)?, bool::unpack(&mut unpacker)?);
        let proof = Proof::unpack(&mut unpacker)?;
        let identity: Option<First> = Option::unpack(&mut unpacker)?;
        let copied = bool::unpack(&mut unpacker)?;
        let offset = unpacker.number()?;
        let (turns, rows) = (Turns::unpack(&mut unpacker)?, Rows::unpack(&mut unpacker)?);
        let has_settled = bool::unpack(&mut unpacker)?;
        if has_settled != (turns.settled().turns > 0) || (rows.has_settled() && !has_settled) {
            return None;
        }
        let settled = if has_settled { Some(Settled::behind(blocks, &mut unpacker)?) } else { None };
        let state = State { first: identity.map(|First(meta, at)| (meta, at)), copied, turns, offset, rows };
        let chained = if bool::unpack(&mut unpacker)? { Some(Chained::unpack(&mut unpacker)?) } else { None };
        Some(Self { of, stamps, taken, packed, has_tail, state, chained, settled, proof })
    }
}

/// Where the rows of the last pairs begin.
pub fn recent(turns: &Turns) -> u64 {
    // The places of their endings, the least first out; with where they began.
    let mut last: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::with_capacity(RECENT_PAIRS + 1);
    for turn in turns.turns().iter().rev() {
        let Some((_, order)) = turn.pair() else { continue };
        if last.len() < RECENT_PAIRS || last.peek().is_some_and(|least| least.0.0 < order) {
            last.push(Reverse((order, turn.began)));
            if last.len() > RECENT_PAIRS {
                last.pop();
            }
        }
    }
    last.iter().map(|pair| pair.0.1).min().unwrap_or(0)
}

/// What proves a rollout that was read up to this state; `None` when it cannot be had. A packed file needs none: it is never
/// read on.
fn proof_of(rollout: &Rollout, state: &State) -> Option<Proof> {
    if rollout.packed {
        return Some(Proof::default());
    }
    Proof::of(state.first_end(), state.offset, &|offset: u64, buffer: &mut [u8]| rollout.read_at(offset, buffer))
}

struct First(Option<Meta>, RowRef);

impl Pack for First {
    fn pack(&self, packer: &mut Packer) {
        self.0.pack(packer);
        self.1.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self(Option::unpack(unpacker)?, RowRef::unpack(unpacker)?))
    }
}

impl Chained<'_> {
    fn into_owned(self) -> Chained<'static> {
        Chained { prefixes: Cow::Owned(self.prefixes.into_owned()), ..self }
    }

    fn pack(&self, packer: &mut Packer) {
        packer.number(self.onto.0);
        self.onto.1.pack(packer);
        packer.number(self.last_order);
        packer.all(&self.prefixes);
        self.rolling.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self {
            onto: (unpacker.number()?, Digest::unpack(unpacker)?),
            last_order: unpacker.number()?,
            prefixes: Cow::Owned(unpacker.all()?),
            rolling: Rolling::unpack(unpacker)?,
        })
    }
}
