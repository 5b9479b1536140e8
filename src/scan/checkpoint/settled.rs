//! What is put aside of a long rollout's checkpoint: the older turns, the digests of the chain up to them, and the rows that
//! they were made of. It stands behind the rest in blocks of its own, one for each slice of the rows, which go from file to
//! file as they are: a poll takes none of it apart but the slice whose turn it is.

use std::borrow::Cow;

use throughline_parsers::codex::Turn;
use throughline_parsers::pack::{Packer, Unpacker};
use throughline_parsers::text::Digest;

use super::{Chained, Checkpoint, RECENT_PAIRS};
use crate::cache::{Blocks, Stored, stored_len};
use crate::scan::rows::{SLICES, Slices};

/// The slices of the rows, and behind them the turns.
const BLOCKS: usize = SLICES as usize + 1;

/// What is put aside.
#[derive(Clone, Debug)]
pub struct Settled {
    sizes: [u64; BLOCKS],
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    New(Vec<Vec<u8>>),
    Stored(Stored),
}

impl Settled {
    fn new(slices: Slices, turns: &[Turn], prefixes: &[Digest]) -> Self {
        let mut packer = Packer::with_capacity(turns.len() * 128 + prefixes.len() * 32);
        packer.all(turns);
        packer.all(prefixes);
        let blocks: Vec<Vec<u8>> = slices.into_iter().chain([packer.finish()]).collect();
        let sizes = std::array::from_fn(|n| blocks[n].len() as u64);
        Self { sizes, content: Content::New(blocks) }
    }

    /// What is put aside behind a checkpoint that was just read from these blocks, and has told the sizes.
    pub fn behind(blocks: &Blocks, unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let mut sizes = [0; BLOCKS];
        for size in &mut sizes {
            *size = unpacker.number()?;
        }
        let len = sizes.iter().try_fold(0_u64, |len, size| len.checked_add(stored_len(*size)))?;
        Some(Self { sizes, content: Content::Stored(blocks.stored(len)?) })
    }

    /// Tells the sizes.
    pub fn pack_sizes(&self, packer: &mut Packer) {
        self.sizes.iter().for_each(|size| packer.number(*size));
    }

    /// Its blocks, where they are new; else where they stand.
    pub fn blocks(&self) -> Result<&[Vec<u8>], &Stored> {
        match &self.content {
            Content::New(blocks) => Ok(blocks),
            Content::Stored(stored) => Err(stored),
        }
    }

    fn block(&self, n: usize) -> Option<Cow<'_, [u8]>> {
        match &self.content {
            Content::New(blocks) => blocks.get(n).map(|block| Cow::Borrowed(&block[..])),
            Content::Stored(stored) => {
                let at = self.sizes[..n].iter().map(|size| stored_len(*size)).sum();
                stored.block(at).map(Cow::Owned)
            }
        }
    }

    /// The rows of one slice.
    pub fn slice(&self, n: u8) -> Option<Cow<'_, [u8]>> {
        self.block(usize::from(n))
    }

    /// All rows, slice by slice.
    pub fn all_slices(&self) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Owned(self.slices()?.concat()))
    }

    fn slices(&self) -> Option<Slices> {
        let mut slices = [const { Vec::new() }; SLICES as usize];
        for (n, slice) in slices.iter_mut().enumerate() {
            *slice = self.block(n)?.into_owned();
        }
        Some(slices)
    }

    fn turns(&self) -> Option<(Vec<Turn>, Vec<Digest>)> {
        let block = self.block(BLOCKS - 1)?;
        let mut unpacker = Unpacker::new(&block);
        Some((unpacker.all()?, unpacker.all()?))
    }
}

impl Checkpoint {
    /// With nothing put aside; `None` where what is cannot be had.
    pub fn joined(mut self) -> Option<Self> {
        let Some(settled) = self.settled.take() else { return Some(self) };
        let (turns, mut prefixes) = settled.turns()?;
        let same = prefixes.len() == self.state.turns.settled().pairs
            && self.state.turns.join(turns)
            && self.state.rows.join(&settled.slices()?);
        if let Some(chained) = &mut self.chained {
            prefixes.extend_from_slice(&chained.prefixes);
            chained.prefixes = Cow::Owned(prefixes);
        }
        same.then_some(self)
    }

    /// Puts aside what no poll asks for, once that is as many turns as are to stay, with what its pairs came to in the chain.
    /// `None` where what is put aside already cannot be had.
    pub(super) fn settle(self, keep: usize, chained: Option<Chained<'_>>) -> Option<(Self, Option<Chained<'static>>)> {
        let can_settle = chained.as_ref().is_some_and(|chained| self.can_settle(chained));
        let mut this = Self { chained: chained.map(Chained::into_owned), ..self };
        let pairs = RECENT_PAIRS.min(keep);
        if can_settle && this.state.turns.settleable(keep, pairs) >= keep {
            this = this.joined()?;
            let turns = this.state.turns.settle(keep, pairs);
            if let Some(chained) = this.chained.as_mut().filter(|_| !turns.is_empty()) {
                let mut prefixes = std::mem::take(&mut chained.prefixes).into_owned();
                let recent = prefixes.split_off(this.state.turns.settled().pairs.min(prefixes.len()));
                chained.prefixes = Cow::Owned(recent);
                let begin = this.state.turns.begin().unwrap_or(this.state.offset);
                this.settled = Some(Settled::new(this.state.rows.settle(begin), &turns, &prefixes));
            }
        }
        let chained = this.chained.take();
        Some((this, chained))
    }

    /// Whether the pairs that the turns are, and only these, are a chain's from its start: then they can be told by their
    /// numbers.
    fn can_settle(&self, chained: &Chained<'_>) -> bool {
        let meta = self.state.first.as_ref().and_then(|(meta, _)| meta.as_ref());
        let is_plain = !self.packed && self.of.end.is_none() && meta.is_some_and(|meta| !meta.forked);
        let pairs = || self.state.turns.turns().iter().filter(|turn| turn.pair().is_some()).count();
        is_plain && !self.state.copied && chained.onto.0 == 0 && chained.prefixes.len() == pairs()
    }
}
