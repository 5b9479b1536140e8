//! The turns of one rollout: events in file order in, turns and their completions out.
//!
//! The state can be saved behind any row and taken up again later: it holds no text, only where the messages of
//! unfinished turns stand. Their digests run along while the rows are read; of a turn that was under way when the state
//! was saved the messages are read again when it completes.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::event::{End, Event, Message, Role, Shape, TurnId};
use super::line::Row;
use crate::row::{MissingRow, RowRef};
use crate::text::{Digest, JoinedBody};
use crate::uuid::Uuid;

mod accounts;
mod saved;
mod settled;

pub use settled::Settled;

/// The turns of one rollout so far.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// What stands in front of the turns here, and is put aside.
    settled: Settled,
    turns: Vec<Turn>,
    open: Option<usize>,
    waiting: Waiting,
    started: u64,
    ended: u64,
    by_id: ById,
    /// What a turn keeps that has nothing yet.
    keeping: Kept,
    /// The ids of turns that were rolled back, where accounts are kept.
    undone: Vec<Option<TurnId>>,
}

/// What is kept of each turn besides; a saved state has none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Kept {
    #[default]
    Nothing,
    /// The messages with text.
    Texts(Vec<(Role, String)>),
    Account(Account),
}

/// How much was said in a turn, and how it ended if it did not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The length of the user's joined text in bytes.
    pub user_bytes: u64,
    /// The length of the assistant's joined text in bytes.
    pub assistant_bytes: u64,
    /// It ended by itself, but with an error or without a time.
    pub failed: bool,
}

impl Kept {
    fn account(&self) -> Option<Account> {
        match self {
            Self::Account(account) => Some(*account),
            Self::Nothing | Self::Texts(_) => None,
        }
    }

    fn keep(&mut self, role: Role, text: &str) {
        match self {
            _ if text.is_empty() => {}
            Self::Nothing => {}
            Self::Texts(texts) => texts.push((role, text.to_owned())),
            Self::Account(account) => {
                let bytes = if role == Role::User { &mut account.user_bytes } else { &mut account.assistant_bytes };
                // Texts are joined by a blank line.
                *bytes += text.len() as u64 + if *bytes > 0 { 2 } else { 0 };
            }
        }
    }
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its ordinal among the turns that were started in the file, from 1; `None` for the assistant's messages in front of
    /// the first prompt, which belong to no turn that can complete.
    pub number: Option<u64>,
    /// The id that the host gave it.
    pub id: Option<TurnId>,
    /// How many prompts it has, with words or without.
    pub prompts: u64,
    /// Where its first row stands: the one that opened it, or a message that had waited for it.
    pub began: u64,
    state: State,
    kept: Kept,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Messages still join it.
    Open(Box<Messages>),
    /// Nothing changes it any more.
    Over(Option<Completed>),
}

/// How a turn completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The turn's number.
    pub number: u64,
    /// Its place among the endings of the file.
    pub order: u64,
    /// When, in milliseconds since the epoch.
    pub at: i64,
    /// Digest of the canonical user text, if there is any.
    pub user: Option<Digest>,
    /// Digest of the canonical assistant text, if there is any.
    pub assistant: Option<Digest>,
}

/// A completed turn with texts on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The turn's number.
    pub number: u64,
    /// When it completed, in milliseconds since the epoch.
    pub at: i64,
    /// Digest of the canonical user text.
    pub user: Digest,
    /// Digest of the canonical assistant text.
    pub assistant: Digest,
}

/// The messages of an unfinished turn: where they stand, and what their texts come to.
#[derive(Clone, Debug, Default)]
struct Messages {
    said: Vec<Said>,
    last: Option<LastSaid>,
    texts: Option<Texts>,
}

impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        self.said == other.said && self.last == other.last
    }
}

impl Eq for Messages {}

/// A message with text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    role: Role,
    at: RowRef,
}

/// What tells whether the next message is the last one again, in the other shape.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LastSaid {
    role: Role,
    shape: Shape,
    text: LastText,
}

/// The text of the last message, of which a saved state keeps the digest only.
#[derive(Clone, Debug)]
enum LastText {
    Text(String),
    Digest(Digest),
}

impl PartialEq for LastText {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(this), Self::Text(other)) => this == other,
            (this, other) => this.digest() == other.digest(),
        }
    }
}

impl Eq for LastText {}

impl LastText {
    fn digest(&self) -> Digest {
        match self {
            Self::Text(text) => Digest::of(text),
            Self::Digest(digest) => *digest,
        }
    }
}

/// The texts of both roles as far as they have been read in this process.
#[derive(Clone, Debug, Default)]
struct Texts {
    user: JoinedBody,
    assistant: JoinedBody,
}

/// Messages outside any turn: they belong to the next one, from the first prompt on.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Waiting {
    prompts: u64,
    /// Where the first message stands that waits.
    began: Option<u64>,
    /// Messages of the assistant in front of the first prompt.
    leading: bool,
    messages: Messages,
    kept: Kept,
}

impl Turns {
    /// No turns yet; the texts of those to come are kept in memory.
    pub fn keeping_texts() -> Self {
        Self::keeping(Kept::Texts(Vec::new()))
    }

    /// No turns yet; of those to come [`Account`]s are kept.
    pub fn keeping_accounts() -> Self {
        Self::keeping(Kept::Account(Account::default()))
    }

    fn keeping(kept: Kept) -> Self {
        let waiting = Waiting { kept: kept.clone(), ..Waiting::default() };
        Self { keeping: kept, waiting, ..Self::default() }
    }

    /// From here on texts are kept in memory, those of unfinished turns too: `fetch` gives the texts that were read before the
    /// state was saved. Turns that are over have none.
    ///
    /// # Errors
    /// [`MissingRow`] when `fetch` cannot: the file is not the one that was read.
    pub fn keep_texts(&mut self, mut fetch: impl FnMut(RowRef) -> Option<String>) -> Result<(), MissingRow> {
        self.keeping = Kept::Texts(Vec::new());
        let Waiting { messages, kept, .. } = &mut self.waiting;
        messages.keep(kept, &mut fetch)?;
        for Turn { state, kept, .. } in &mut self.turns {
            if let State::Open(messages) = state {
                messages.keep(kept, &mut fetch)?;
            }
        }
        Ok(())
    }

    /// Takes the next row. `fetch` gives the text ([`said_in`](super::said_in)) of this row or of one that was read before
    /// the state was saved.
    ///
    /// # Errors
    /// [`MissingRow`] when `fetch` cannot: the file is not the one that was read.
    pub fn apply(&mut self, row: &Row, fetch: impl FnMut(RowRef) -> Option<String>) -> Result<(), MissingRow> {
        match &row.event {
            Event::Meta(_) => {}
            Event::Started { turn } => self.start(turn.clone(), row.at.offset),
            Event::Ended { turn, end } => self.end(turn.as_ref(), end, row.at, fetch)?,
            Event::RolledBack { prompts } => self.roll_back(*prompts)?,
            Event::Said { turn, message } => self.say(turn.as_ref(), message, row.at)?,
        }
        Ok(())
    }

    /// All turns that stand, in the order in which they began.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// The turns that are of this thread. `copied` says that the file holds a copied history: then turns with an id older
    /// than the thread are another thread's.
    pub fn own(&self, thread: Uuid, copied: bool) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(move |turn| !(copied && turn.is_older_than(thread)))
    }

    /// The completed turns that are of this thread, in the order in which they completed.
    pub fn completed_in(&self, thread: Uuid, copied: bool) -> Vec<Completed> {
        let mut completed: Vec<_> = self.own(thread, copied).filter_map(Turn::completed).collect();
        completed.sort_unstable_by_key(|turn| turn.order);
        completed
    }

    /// The turns of this thread that are pairs, in the order in which they completed.
    pub fn pairs_in(&self, thread: Uuid, copied: bool) -> Vec<&Turn> {
        let mut pairs: Vec<&Turn> = self.own(thread, copied).filter(|turn| turn.pair().is_some()).collect();
        let order = |turn: &&Turn| turn.pair().map(|(_, order)| order);
        // Turns seldom end in another order than they began in.
        if !pairs.is_sorted_by_key(order) {
            pairs.sort_unstable_by_key(order);
        }
        pairs
    }

    /// How many turns of this thread were rolled back, where accounts are kept.
    pub fn undone_in(&self, thread: Uuid, copied: bool) -> usize {
        self.undone.iter().filter(|id| !(copied && is_older(id.as_ref(), thread))).count()
    }

    fn start(&mut self, id: Option<TurnId>, at: u64) {
        self.started += 1;
        let waiting = self.take_waiting();
        let began = waiting.began.unwrap_or(at);
        if waiting.leading {
            let (state, kept) = (State::Over(None), self.keeping.clone());
            self.turns.push(Turn { number: None, id: None, prompts: 0, began, state, kept });
        }
        let begun = if waiting.prompts > 0 { waiting } else { Waiting::fresh(&self.keeping) };
        let index = self.turns.len();
        if let Some(id) = &id {
            self.by_id.push(id, index);
        }
        self.turns.push(Turn {
            number: Some(self.started),
            id,
            prompts: begun.prompts,
            began,
            state: State::Open(Box::new(begun.messages)),
            kept: begun.kept,
        });
        self.open = Some(index);
    }

    fn end(
        &mut self,
        id: Option<&TurnId>,
        end: &End,
        row: RowRef,
        mut fetch: impl FnMut(RowRef) -> Option<String>,
    ) -> Result<(), MissingRow> {
        let Some(index) = self.named(id)? else { return Ok(()) };
        let turn = &mut self.turns[index];
        let State::Open(messages) = &mut turn.state else { return Ok(()) };
        let completed = match (end, turn.number) {
            (End::Completed { at, last_message }, Some(number)) => {
                let order = self.ended + 1;
                let (user, mut assistant) = messages.finish(&mut fetch)?;
                if assistant.is_none() && *last_message {
                    let text = fetch(row).ok_or(MissingRow)?;
                    if !text.is_empty() {
                        assistant = Some(Digest::of_body(&text));
                        turn.kept.keep(Role::Assistant, &text);
                    }
                }
                at.map(|at| Completed { number, order, at, user, assistant })
            }
            _ => None,
        };
        if let Kept::Account(account) = &mut turn.kept {
            account.failed = completed.is_none() && *end != End::Aborted;
        }
        turn.state = State::Over(completed);
        self.ended += 1;
        self.open = self.open.filter(|open| *open != index);
        Ok(())
    }

    fn roll_back(&mut self, prompts: u64) -> Result<(), MissingRow> {
        let mut left = prompts.saturating_sub(self.take_waiting().prompts);
        while left > 0 {
            let Some(turn) = self.turns.pop() else {
                if self.settled.turns > 0 {
                    return Err(MissingRow);
                }
                break;
            };
            if matches!(turn.kept, Kept::Account(_)) && turn.number.is_some() {
                self.undone.push(turn.id.clone());
            }
            left = left.saturating_sub(turn.prompts);
            self.by_id.pop(turn.id.as_ref(), self.turns.len());
        }
        self.open = self.open.filter(|open| *open < self.turns.len());
        Ok(())
    }

    fn take_waiting(&mut self) -> Waiting {
        let nothing = Waiting { kept: self.keeping.clone(), ..Waiting::default() };
        std::mem::replace(&mut self.waiting, nothing)
    }

    fn say(&mut self, id: Option<&TurnId>, message: &Message, at: RowRef) -> Result<(), MissingRow> {
        let index = match id {
            Some(_) => match self.named(id)? {
                // An item of a turn that is not here: rolled back, or foreign.
                None if !self.turns.is_empty() || self.settled.turns > 0 => return Ok(()),
                index => index,
            },
            None => self.open,
        };
        match index {
            None => self.waiting.say(message, at, &self.keeping),
            Some(index) => {
                let turn = &mut self.turns[index];
                if let State::Open(messages) = &mut turn.state
                    && messages.say(message, at)
                {
                    turn.prompts += u64::from(message.role == Role::User);
                    turn.kept.keep(message.role, &message.text);
                }
            }
        }
        Ok(())
    }

    /// The turn that an event is about: the one its id names, the open one first, then the latest; without an id, or while
    /// the open turn has none, the open one. (If all that is put aside is over, to be one of that or none is all the same.)
    fn named(&mut self, id: Option<&TurnId>) -> Result<Option<usize>, MissingRow> {
        let Some(id) = id else { return Ok(self.open) };
        let open_id = self.open.map(|open| self.turns[open].id.as_ref());
        if open_id == Some(Some(id)) {
            return Ok(self.open);
        }
        match self.by_id.latest(id, &self.turns) {
            None if self.settled.open > 0 || (open_id == Some(None) && self.settled.turns > 0) => Err(MissingRow),
            None if open_id == Some(None) => Ok(self.open),
            latest => Ok(latest),
        }
    }
}

/// The turns of each id, the latest last. Of a state that was taken up again the turns are gone through only when one is
/// asked for that is not the open one, which is seldom.
#[derive(Clone, Debug, Default)]
struct ById {
    indexes: HashMap<TurnId, SmallVec<[usize; 1]>>,
    /// So many turns, the first ones, are not in there yet.
    missing: usize,
}

impl ById {
    /// Of so many turns, which are gone through when one is asked for.
    fn of(turns: usize) -> Self {
        Self { missing: turns, ..Self::default() }
    }

    fn push(&mut self, id: &TurnId, index: usize) {
        self.indexes.entry(id.clone()).or_default().push(index);
    }

    /// The turn at `index`, the last of all, is gone.
    fn pop(&mut self, id: Option<&TurnId>, index: usize) {
        if index < self.missing {
            self.missing = index;
        } else if let Some(indexes) = id.and_then(|id| self.indexes.get_mut(id)) {
            indexes.pop();
        }
    }

    fn latest(&mut self, id: &TurnId, turns: &[Turn]) -> Option<usize> {
        for (index, turn) in turns[..std::mem::take(&mut self.missing)].iter().enumerate().rev() {
            if let Some(id) = &turn.id {
                self.indexes.entry(id.clone()).or_default().insert(0, index);
            }
        }
        self.indexes.get(id)?.last().copied()
    }
}

impl Turn {
    /// The joined text of a role where texts are kept; `None` without text.
    pub fn text(&self, role: Role) -> Option<String> {
        let Kept::Texts(kept) = &self.kept else { return None };
        let texts: Vec<_> = kept.iter().filter(|kept| kept.0 == role).map(|kept| kept.1.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// Whether nothing changes it any more.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    /// Its account, where accounts are kept.
    pub fn account(&self) -> Option<Account> {
        self.kept.account()
    }

    /// Whether it can still go on.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// How it completed, if it did.
    pub fn completed(&self) -> Option<Completed> {
        match self.state {
            State::Over(completed) => completed,
            State::Open(_) => None,
        }
    }

    /// The pair that it is, if it completed with texts on both sides, and the place of its ending among those of the file.
    pub fn pair(&self) -> Option<(Pair, u64)> {
        let State::Over(Some(Completed { number, order, at, user, assistant })) = self.state else { return None };
        Some((Pair { number, at, user: user?, assistant: assistant? }, order))
    }

    /// Whether its id is a UUID of version 7 that is older than the thread: then it is a copy from another thread.
    pub fn is_older_than(&self, thread: Uuid) -> bool {
        is_older(self.id.as_ref(), thread)
    }
}

fn is_older(id: Option<&TurnId>, thread: Uuid) -> bool {
    matches!(id, Some(TurnId::Uuid(id)) if id.is_v7() && thread.is_v7() && *id < thread)
}

impl Messages {
    /// No messages yet, so that all texts there will be are read in this process.
    fn fresh() -> Self {
        Self { texts: Some(Texts::default()), ..Self::default() }
    }

    /// Adds a message; false when it is the last one again in the other shape.
    fn say(&mut self, message: &Message, at: RowRef) -> bool {
        let this = LastSaid { role: message.role, shape: message.shape, text: LastText::Text(message.text.clone()) };
        let is_this = |last: &LastSaid| last.role == this.role && last.shape != this.shape && last.text == this.text;
        let again = self.last.as_ref().is_some_and(is_this);
        if again {
            return false;
        }
        self.last = Some(this);
        if !message.text.is_empty() {
            self.said.push(Said { role: message.role, at });
            if let Some(texts) = &mut self.texts {
                texts.of(message.role).push(&message.text);
            }
        }
        true
    }

    /// Keeps the texts of all messages.
    fn keep(&self, kept: &mut Kept, mut fetch: impl FnMut(RowRef) -> Option<String>) -> Result<(), MissingRow> {
        let text = |said: &Said| Ok((said.role, fetch(said.at).filter(|text| !text.is_empty()).ok_or(MissingRow)?));
        *kept = Kept::Texts(self.said.iter().map(text).collect::<Result<_, _>>()?);
        Ok(())
    }

    /// The digests of both roles' joined texts.
    fn finish(
        &mut self,
        mut fetch: impl FnMut(RowRef) -> Option<String>,
    ) -> Result<(Option<Digest>, Option<Digest>), MissingRow> {
        let texts = match self.texts.take() {
            Some(texts) => texts,
            None => {
                let mut texts = Texts::default();
                for said in &self.said {
                    let text = fetch(said.at).filter(|text| !text.is_empty()).ok_or(MissingRow)?;
                    texts.of(said.role).push(&text);
                }
                texts
            }
        };
        Ok((texts.user.finish(), texts.assistant.finish()))
    }
}

impl Texts {
    fn of(&mut self, role: Role) -> &mut JoinedBody {
        match role {
            Role::User => &mut self.user,
            Role::Assistant => &mut self.assistant,
        }
    }
}

impl Waiting {
    /// Nothing said yet.
    fn fresh(keeping: &Kept) -> Self {
        Self { messages: Messages::fresh(), kept: keeping.clone(), ..Self::default() }
    }

    fn say(&mut self, message: &Message, at: RowRef, keeping: &Kept) {
        if message.role == Role::User && self.prompts == 0 {
            // What the assistant said in front of the first prompt is not the turn's.
            *self = Self { leading: self.leading, ..Self::fresh(keeping) };
        }
        self.began.get_or_insert(at.offset);
        if self.messages.say(message, at) {
            self.prompts += u64::from(message.role == Role::User);
            self.kept.keep(message.role, &message.text);
        }
        self.leading = self.leading || self.prompts == 0;
    }
}
