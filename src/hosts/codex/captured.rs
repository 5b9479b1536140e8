//! A thread whose texts were captured, and how far: so that a hook reads and compares only what is new.
//!
//! Of a thread that is one plain rollout the state of the last capture is remembered (without texts), and how many
//! turns were *settled* then: completed ones, to which nothing is added and which keep their places. Unfinished turns stand
//! behind them in the database, and are read again.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use throughline_parsers::codex::{Meta, RowRef, Turn, Uuid, said_in};
use throughline_parsers::pack::{Pack, Packer, Unpacker};

use super::root_holds;
use super::texts::{TurnTexts, order_of, ordered, texts_of_turn};
use super::threads::Failure;
use crate::cache::{About, Blocks, Cache, Name};
use crate::scan::checkpoint::{Checkpoint, Reader};
use crate::scan::file::Rollout;
use crate::scan::reading::Contents;

/// A captured thread.
#[derive(Clone, Debug)]
pub struct Captured {
    /// The thread.
    pub thread: Uuid,
    /// The working directory that its rollout names; absolute.
    pub cwd: String,
    /// The last settled turn with a text.
    pub last: Option<i64>,
    /// What the rollout says it is.
    meta: Meta,
    /// What there was below the sessions root: the thread had no other file.
    content: u64,
    settled: Settled,
    checkpoint: Checkpoint,
}

/// The completed turns of a state, in the order of their endings. That they are still the first ones shows in the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Settled {
    turns: u64,
    last_order: u64,
}

/// The turns behind the settled ones, in the order in which they are stored.
#[derive(Debug)]
pub enum Behind {
    /// One of which the texts have been read.
    Read(TurnTexts),
    /// One that did not complete, of this number: it is stored, and stays so.
    AsStored(i64),
}

impl Captured {
    /// What is to be remembered of a thread that was read whole, if that can be read on.
    pub fn of(thread: Uuid, cwd: &str, content: u64, checkpoint: Checkpoint, meta: &Meta) -> Self {
        let (cwd, meta) = (cwd.to_owned(), meta.clone());
        let mut captured = Self { thread, cwd, last: None, meta, content, settled: Settled::default(), checkpoint };
        captured.settle();
        captured
    }

    /// What its capture left with what is remembered of a thread.
    pub fn note(reader: Reader<'_>, root: &Path, thread: Uuid) -> Option<Vec<u8>> {
        reader.trusted()?.load(&name(root, thread))?.next_block()
    }

    /// What is remembered of a thread, with that note, if its files can only be the same.
    pub fn load(reader: Reader<'_>, root: &Path, thread: Uuid) -> Option<(Self, Vec<u8>)> {
        let cache = reader.trusted()?;
        let mut blocks = cache.load(&name(root, thread))?;
        let note = blocks.next_block()?;
        let (captured, of) = Self::unpack(&mut blocks)?;
        let same = captured.thread == thread && of == root && root_holds(reader, root, captured.content);
        same.then_some((captured, note))
    }

    /// Remembers it, with a note of who stored its texts.
    pub fn store(&self, cache: &Cache, root: &Path, note: Vec<u8>) {
        let mut packer = Packer::default();
        packer.counted(root.as_os_str().as_bytes());
        self.thread.pack(&mut packer);
        self.cwd.pack(&mut packer);
        self.last.map(i64::cast_unsigned).pack(&mut packer);
        self.meta.pack(&mut packer);
        packer.number(self.content);
        packer.number(self.settled.turns);
        packer.number(self.settled.last_order);
        cache.store(&name(root, self.thread), &[note, packer.finish(), self.checkpoint.save(None)]);
    }

    fn unpack(blocks: &mut Blocks) -> Option<(Self, PathBuf)> {
        let block = blocks.next_block()?;
        let mut unpacker = Unpacker::new(&block);
        let root = PathBuf::from(std::ffi::OsStr::from_bytes(unpacker.counted()?));
        let (thread, cwd) = (Uuid::unpack(&mut unpacker)?, String::unpack(&mut unpacker)?);
        let last: Option<u64> = Option::unpack(&mut unpacker)?;
        let (meta, content) = (Meta::unpack(&mut unpacker)?, unpacker.number()?);
        let settled = Settled { turns: unpacker.number()?, last_order: unpacker.number()? };
        let (last, checkpoint) = (last.map(u64::cast_signed), Checkpoint::unpack(blocks)?);
        Some((Self { thread, cwd, last, meta, content, settled, checkpoint }, root))
    }

    /// Of a file of the cache: the rollout, and how many of its turns are settled.
    pub fn about(blocks: &mut Blocks) -> Option<(PathBuf, u64)> {
        let captured = Self::unpack(blocks)?.0;
        Some((captured.checkpoint.of.path, captured.settled.turns))
    }

    /// Reads the rollout on: the turns behind the settled ones, and what is to be remembered then. `None` when it has to be
    /// read whole.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_on(mut self, reader: Reader<'_>) -> Result<Option<(Vec<Behind>, Self)>, Failure> {
        let Some(listed) = self.checkpoint.listed() else { return Ok(None) };
        let Some(rollout) = Rollout::open(&listed)?.filter(|rollout| self.checkpoint.has_only_grown(rollout)) else {
            return Ok(None);
        };
        let mut state = std::mem::take(&mut self.checkpoint.state);
        let copied = state.copied;
        let over: HashSet<u64> =
            state.turns.turns().iter().filter(|turn| turn.is_over()).filter_map(|turn| turn.number).collect();
        let fetch = |at: RowRef| {
            let mut bytes = vec![0; usize::try_from(at.len).ok()?];
            rollout.read_at(at.offset, &mut bytes).then(|| said_in(&bytes))?
        };
        if state.turns.keep_texts(fetch).is_err() {
            return Ok(None);
        }
        let Ok(contents) = rollout.read(state, None, reader.mapping)? else { return Ok(None) };
        let Some(behind) = self.behind(&contents, &over).filter(|_| contents.copied() == copied) else {
            return Ok(None);
        };
        let Some(checkpoint) = Checkpoint::of(&listed, &rollout, contents, reader.now)? else { return Ok(None) };
        let mut captured = Self { checkpoint, ..self };
        captured.settle();
        Ok(Some((behind, captured)))
    }

    /// The turns of these contents behind the settled ones; `None` where these are not the first ones any more. Of the turns
    /// with numbers in `over` the texts are not at hand: they were over before.
    fn behind(&self, contents: &Contents, over: &HashSet<u64>) -> Option<Vec<Behind>> {
        let (completed, others) = ordered(contents.turns(), self.thread, contents.copied() || self.meta.forked);
        let settled = usize::try_from(self.settled.turns).ok()?;
        let last = settled.checked_sub(1).map_or(Some(0), |last| order_of(completed.get(last)?.0));
        if last != Some(self.settled.last_order) {
            return None;
        }
        let is_stored = |turn: &Turn| turn.number.is_some_and(|number| over.contains(&number));
        let behind = |(turn, number): (&Turn, i64)| match turn.completed() {
            None if is_stored(turn) => Some(Behind::AsStored(number)),
            _ => texts_of_turn(turn, number).map(Behind::Read),
        };
        Some(completed[settled..].iter().copied().chain(others).filter_map(behind).collect())
    }

    /// Takes the completed turns of the state for settled.
    fn settle(&mut self) {
        let state = &self.checkpoint.state;
        let (completed, _) = ordered(&state.turns, self.thread, state.copied || self.meta.forked);
        let has_text = |turn: &Turn| turn.completed().is_some_and(|it| it.user.is_some() || it.assistant.is_some());
        self.last = completed.iter().rev().find(|(turn, _)| has_text(turn)).map(|(_, number)| *number);
        let last_order = completed.last().and_then(|(turn, _)| order_of(turn)).unwrap_or(0);
        self.settled = Settled { turns: completed.len() as u64, last_order };
    }
}

fn name(root: &Path, thread: Uuid) -> Name {
    Name::of(About::Captured, &[root.as_os_str().as_bytes(), thread.to_string().as_bytes()])
}
