//! Turns that are put aside: of a long rollout nothing that comes asks for most of them.
//!
//! A state without them takes rows as it would with them, but for some seldom cases: a rollback that reaches back to them,
//! and an event with an id that no turn here has, while the open turn has none, or one that is put aside never ended (a host
//! that was killed). Then [`Turns::apply`] says that something is missing.

use super::{ById, Turn, Turns};

/// How many turns are put aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// All of them.
    pub turns: usize,
    /// Those that are pairs.
    pub pairs: usize,
    /// Those that have not ended.
    pub open: usize,
}

impl Settled {
    /// These turns.
    fn of(turns: &[Turn]) -> Self {
        let count = |is: fn(&Turn) -> bool| turns.iter().filter(|turn| is(turn)).count();
        Self { turns: turns.len(), pairs: count(|turn| turn.pair().is_some()), open: count(|turn| !turn.is_over()) }
    }
}

impl Turns {
    /// What is put aside.
    pub fn settled(&self) -> Settled {
        self.settled
    }

    /// Puts the first turns aside, as many as can be, but the open one and the last `keep` stay, and so many pairs, those that
    /// ended last. What ended of what is put aside did so before all that stays. Nothing where something is put aside already.
    pub fn settle(&mut self, keep: usize, keep_pairs: usize) -> Vec<Turn> {
        let count = self.settleable(keep, keep_pairs);
        if count == 0 || self.settled != Settled::default() {
            return Vec::new();
        }
        let stay = self.turns.split_off(count);
        let settled = std::mem::replace(&mut self.turns, stay);
        self.settled = Settled::of(&settled);
        self.open = self.open.map(|open| open - count);
        self.by_id = ById::of(self.turns.len());
        settled
    }

    /// How many of the turns here could be put aside.
    pub fn settleable(&self, keep: usize, keep_pairs: usize) -> usize {
        let orders: Vec<Option<u64>> =
            self.turns.iter().map(|turn| turn.completed().map(|ended| ended.order)).collect();
        let mut count = self.open.unwrap_or(self.turns.len()).min(self.turns.len().saturating_sub(keep));
        // The first ending among the turns that stay, and how many of these are pairs.
        let mut first_ending = orders[count..].iter().flatten().copied().min().unwrap_or(u64::MAX);
        let mut pairs = self.turns[count..].iter().filter(|turn| turn.pair().is_some()).count();
        let mut last_endings = Vec::with_capacity(count);
        for order in &orders[..count] {
            let last = last_endings.last().copied().flatten();
            last_endings.push(last.max(*order));
        }
        while count > 0 && (pairs < keep_pairs || last_endings[count - 1] >= Some(first_ending)) {
            count -= 1;
            first_ending = first_ending.min(orders[count].unwrap_or(u64::MAX));
            pairs += usize::from(self.turns[count].pair().is_some());
        }
        count
    }

    /// Takes back what was put aside; false where it is not that.
    #[must_use]
    pub fn join(&mut self, settled: Vec<Turn>) -> bool {
        if self.settled != Settled::of(&settled) {
            return false;
        }
        self.open = self.open.map(|open| open + settled.len());
        let stayed = std::mem::replace(&mut self.turns, settled);
        self.turns.extend(stayed);
        self.by_id = ById::of(self.turns.len());
        self.settled = Settled::default();
        true
    }

    /// Where the rows begin that the turns here are made of.
    pub fn begin(&self) -> Option<u64> {
        self.turns.iter().map(|turn| turn.began).chain(self.waiting.began).min()
    }
}
