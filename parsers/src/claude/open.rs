//! The turn that is under way: rows still join it.

use std::collections::HashMap;
use std::ops::Range;

use super::key::Key;
use super::row::{Reply as Row, Stop};
use super::turn::{Aside, Reply, Said, Turn};
use crate::pack::{Pack, Packer, Unpacker};
use crate::row::{MissingRow, RowRef};
use crate::text::Digest;

/// The turn that is under way.
#[derive(Clone, Debug)]
pub(super) struct Open {
    /// As it would be if nothing followed.
    pub(super) turn: Turn,
    /// The session of its prompt.
    pub(super) session: Option<Key>,
    messages: Vec<Message>,
    by_key: HashMap<Key, usize>,
    /// The last message that has anything but thinking.
    last: Option<usize>,
}

/// A row with text: its index, its place, and its time or that of the rows in front of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextRow {
    pub(super) index: u64,
    pub(super) at: RowRef,
    pub(super) time: Option<i64>,
}

/// One of the agent's messages.
#[derive(Clone, Debug)]
struct Message {
    key: Option<Key>,
    has_tool_use: bool,
    is_synthetic: bool,
    /// The last that was given.
    stop: Option<Stop>,
    /// The texts of its rows, where all of them were read by this process.
    text: Option<String>,
}

impl Open {
    pub(super) fn new(prompt: Said, asked_at: Option<i64>, session: Option<Key>) -> Self {
        let turn = Turn {
            prompt,
            asked_at,
            asides: Vec::new(),
            replies: Vec::new(),
            ended: false,
            aborted: false,
            failed: false,
        };
        Self { turn, session, messages: Vec::new(), by_key: HashMap::new(), last: None }
    }

    pub(super) fn aside(&mut self, aside: Aside) {
        self.turn.asides.push(aside);
    }

    /// The host could not go on.
    pub(super) fn fail(&mut self) {
        self.turn.failed = true;
    }

    /// Takes a row of the agent, which is `place` if it has text.
    pub(super) fn reply<B: AsRef<[u8]>>(
        &mut self,
        row: &Row,
        place: TextRow,
        fetch: impl FnMut(Range<u64>) -> Option<B>,
    ) -> Result<(), MissingRow> {
        let index = self.message(row.message);
        let message = &mut self.messages[index];
        message.stop = row.stop.or(message.stop);
        message.is_synthetic |= row.is_synthetic;
        message.has_tool_use |= row.has_tool_use;
        if row.is_seen {
            self.last = Some(index);
        }
        if !row.text.is_empty() {
            self.say(index, &row.text, place, fetch)?;
        }
        self.turn.ended = self.has_ended();
        Ok(())
    }

    /// The user stopped the agent, unless it had come to its end by itself.
    pub(super) fn interrupt(&mut self) {
        let last = self.last.map(|last| &self.messages[last]);
        let was_over = last.is_some_and(|last| !last.is_synthetic && last.stop == Some(Stop::Terminal));
        self.turn.aborted = !(self.turn.ended && was_over);
    }

    fn message(&mut self, key: Option<Key>) -> usize {
        if let Some(index) = key.and_then(|key| self.by_key.get(&key)) {
            return *index;
        }
        let index = self.messages.len();
        self.by_key.extend(key.map(|key| (key, index)));
        let text = Some(String::new());
        self.messages.push(Message { key, has_tool_use: false, is_synthetic: false, stop: None, text });
        index
    }

    fn say<B: AsRef<[u8]>>(
        &mut self,
        message: usize,
        text: &str,
        TextRow { index, at, time }: TextRow,
        mut fetch: impl FnMut(Range<u64>) -> Option<B>,
    ) -> Result<(), MissingRow> {
        let number = message as u64;
        let so_far = match &mut self.messages[message].text {
            Some(text) => text,
            none => {
                let before = self.turn.replies.iter().filter(|reply| reply.message == number);
                none.insert(before.map(|reply| reply.said.text(&mut fetch)).collect::<Result<_, _>>()?)
            }
        };
        so_far.push_str(text);
        let said = Said::new(at, text);
        let whole = if so_far.len() == text.len() { said.body } else { Digest::of_body(so_far) };
        self.turn.replies.push(Reply { index, time, said, whole, message: number });
        self.turn.failed = false;
        Ok(())
    }

    fn has_ended(&self) -> bool {
        let answer = self.turn.replies.last().map(|reply| reply.message);
        let last = self.last.filter(|last| answer == Some(*last as u64)).map(|last| &self.messages[last]);
        last.is_some_and(|last| !last.has_tool_use && last.stop != Some(Stop::Other))
    }
}

impl Pack for Open {
    fn pack(&self, packer: &mut Packer) {
        self.turn.pack(packer);
        self.session.pack(packer);
        packer.all(&self.messages);
        self.last.map(|last| last as u64).pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let (turn, session) = (Turn::unpack(unpacker)?, Option::unpack(unpacker)?);
        let mut messages: Vec<Message> = unpacker.all()?;
        let last: Option<u64> = Option::unpack(unpacker)?;
        let last = last.map(usize::try_from).transpose().ok()?;
        let count = messages.len();
        if last.is_some_and(|last| last >= count) {
            return None;
        }
        for reply in &turn.replies {
            // Its text has not been read by this process.
            messages.get_mut(usize::try_from(reply.message).ok()?)?.text = None;
        }
        let by_key = messages.iter().enumerate().filter_map(|(index, message)| Some((message.key?, index))).collect();
        Some(Self { turn, session, messages, by_key, last })
    }
}

impl Pack for Message {
    fn pack(&self, packer: &mut Packer) {
        let stop = match self.stop {
            None => 0,
            Some(Stop::Terminal) => 1,
            Some(Stop::Other) => 2,
        };
        packer.number(stop | u64::from(self.has_tool_use) << 2 | u64::from(self.is_synthetic) << 3);
        self.key.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let flags = unpacker.number()?;
        let stop = match flags & 3 {
            0 => None,
            1 => Some(Stop::Terminal),
            2 => Some(Stop::Other),
            _ => return None,
        };
        let (has_tool_use, is_synthetic) = (flags & 4 != 0, flags & 8 != 0);
        let key = Option::unpack(unpacker)?;
        (flags < 16).then_some(Self { key, has_tool_use, is_synthetic, stop, text: Some(String::new()) })
    }
}
