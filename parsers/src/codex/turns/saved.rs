//! [`Turns`] as bytes: without text, and without what can be told from the rest.

use super::super::event::{Role, Shape, TurnId};
use super::{ById, Completed, Kept, LastSaid, LastText, Messages, Said, Settled, State, Turn, Turns, Waiting};
use crate::pack::{Pack, Packer, Unpacker};
use crate::row::RowRef;
use crate::text::Digest;
use crate::uuid::Uuid;

impl Pack for Turns {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.settled.turns as u64);
        packer.number(self.settled.pairs as u64);
        packer.number(self.settled.open as u64);
        packer.number(self.started);
        packer.number(self.ended);
        self.open.map(|open| open as u64).pack(packer);
        packer.all(&self.turns);
        let Waiting { prompts, began, leading, messages, kept: _ } = &self.waiting;
        packer.number(*prompts);
        began.pack(packer);
        leading.pack(packer);
        messages.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let settled = Settled { turns: unpacker.index()?, pairs: unpacker.index()?, open: unpacker.index()? };
        let (started, ended) = (unpacker.number()?, unpacker.number()?);
        let open: Option<u64> = Option::unpack(unpacker)?;
        let open = open.map(usize::try_from).transpose().ok()?;
        let turns: Vec<Turn> = unpacker.all()?;
        if open.is_some_and(|open| turns.get(open).is_none_or(|turn| matches!(turn.state, State::Over(_)))) {
            return None;
        }
        let waiting = Waiting {
            prompts: unpacker.number()?,
            began: Option::unpack(unpacker)?,
            leading: bool::unpack(unpacker)?,
            messages: Messages::unpack(unpacker)?,
            kept: Kept::Nothing,
        };
        let by_id = ById::of(turns.len());
        Some(Self { settled, turns, open, waiting, started, ended, by_id, ..Self::default() })
    }
}

/// What a turn's first byte tells: of its id, its state, and what is there.
mod flag {
    pub(super) const NUMBERED: u64 = 1;
    pub(super) const UUID: u64 = 2;
    pub(super) const TEXT_ID: u64 = 4;
    pub(super) const OPEN: u64 = 8;
    pub(super) const COMPLETED: u64 = 16;
    pub(super) const USER: u64 = 32;
    pub(super) const ASSISTANT: u64 = 64;
    pub(super) const ALL: u64 = 127;
}

impl Turn {
    fn flags(&self) -> u64 {
        let id = match self.id {
            None => 0,
            Some(TurnId::Uuid(_)) => flag::UUID,
            Some(TurnId::Text(_)) => flag::TEXT_ID,
        };
        let set = |flag, is: bool| if is { flag } else { 0 };
        let state = match &self.state {
            State::Open(_) => flag::OPEN,
            State::Over(None) => 0,
            State::Over(Some(completed)) => {
                flag::COMPLETED
                    | set(flag::USER, completed.user.is_some())
                    | set(flag::ASSISTANT, completed.assistant.is_some())
            }
        };
        set(flag::NUMBERED, self.number.is_some()) | id | state
    }
}

impl Pack for Turn {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.flags());
        if let Some(number) = self.number {
            packer.number(number);
        }
        match &self.id {
            Some(TurnId::Uuid(id)) => id.pack(packer),
            Some(TurnId::Text(id)) => packer.counted(id.as_bytes()),
            None => {}
        }
        packer.number(self.prompts);
        packer.number(self.began);
        match &self.state {
            State::Open(messages) => messages.pack(packer),
            State::Over(Some(completed)) => {
                // Its number is the turn's.
                packer.number(completed.order);
                packer.signed(completed.at);
                [completed.user, completed.assistant].iter().flatten().for_each(|digest| digest.pack(packer));
            }
            State::Over(None) => {}
        }
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let flags = unpacker.number().filter(|flags| *flags <= flag::ALL)?;
        let has = |flag| flags & flag != 0;
        let number = if has(flag::NUMBERED) { Some(unpacker.number()?) } else { None };
        let id = match (has(flag::UUID), has(flag::TEXT_ID)) {
            (true, false) => Some(TurnId::Uuid(Uuid::unpack(unpacker)?)),
            (false, true) => Some(TurnId::Text(String::unpack(unpacker)?.into())),
            (false, false) => None,
            (true, true) => return None,
        };
        let (prompts, began) = (unpacker.number()?, unpacker.number()?);
        let state = match (has(flag::OPEN), has(flag::COMPLETED)) {
            (true, false) => State::Open(Box::new(Messages::unpack(unpacker)?)),
            (false, false) => State::Over(None),
            (false, true) => {
                let (order, at) = (unpacker.number()?, unpacker.signed()?);
                let user = if has(flag::USER) { Some(Digest::unpack(unpacker)?) } else { None };
                let assistant = if has(flag::ASSISTANT) { Some(Digest::unpack(unpacker)?) } else { None };
                State::Over(Some(Completed { number: number?, order, at, user, assistant }))
            }
            (true, true) => return None,
        };
        Some(Self { number, id, prompts, began, state, kept: Kept::Nothing })
    }
}

impl Pack for Messages {
    fn pack(&self, packer: &mut Packer) {
        // Positions as what lies between them: a long turn has thousands.
        packer.number(self.said.len() as u64);
        let mut end = 0;
        for Said { role, at } in &self.said {
            packer.signed(at.offset.wrapping_sub(end).cast_signed());
            packer.number(at.len << 1 | u64::from(*role == Role::Assistant));
            end = at.offset + at.len;
        }
        self.last.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let (mut said, mut end) = (Vec::new(), 0_u64);
        for _ in 0..unpacker.number()? {
            let offset = end.wrapping_add(unpacker.signed()?.cast_unsigned());
            let (len, role) = split(unpacker.number()?);
            end = offset.checked_add(len)?;
            said.push(Said { role, at: RowRef { offset, len } });
        }
        Some(Self { said, last: Option::unpack(unpacker)?, texts: None })
    }
}

impl Pack for LastSaid {
    fn pack(&self, packer: &mut Packer) {
        packer.number(u64::from(self.shape == Shape::Item) << 1 | u64::from(self.role == Role::Assistant));
        self.text.digest().pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let (shape, role) = split(unpacker.number()?);
        let shape = match shape {
            0 => Shape::Event,
            1 => Shape::Item,
            _ => return None,
        };
        Some(Self { role, shape, text: LastText::Digest(Digest::unpack(unpacker)?) })
    }
}

/// A number whose last bit tells the role.
fn split(number: u64) -> (u64, Role) {
    (number >> 1, if number & 1 == 0 { Role::User } else { Role::Assistant })
}
