//! What [`Turns`] keep for accounts, as bytes: it is written behind their saved state, which has none of it.

use super::super::event::TurnId;
use super::{Account, Kept, Settled, Turn, Turns};
use crate::pack::{Pack, Packer, Unpacker};
use crate::uuid::Uuid;

impl Turns {
    /// Writes the accounts of all turns, and what tells of those that were rolled back.
    pub fn pack_accounts(&self, packer: &mut Packer) {
        packer.number(self.turns.len() as u64);
        let kept = self.turns.iter().map(|turn| &turn.kept);
        kept.chain([&self.waiting.kept]).for_each(|kept| kept.account().unwrap_or_default().pack(packer));
        packer.all(&self.undone);
    }

    /// Takes them up again, behind the saved state that they were written with: from here on accounts are kept. `None` when
    /// they are none, or those of other turns, or where turns are put aside, of which there are no accounts.
    pub fn unpack_accounts(&mut self, unpacker: &mut Unpacker<'_>) -> Option<()> {
        if unpacker.index()? != self.turns.len() || self.settled != Settled::default() {
            return None;
        }
        let kept = self.turns.iter_mut().map(|Turn { kept, .. }| kept);
        for kept in kept.chain([&mut self.waiting.kept]) {
            *kept = Kept::Account(Account::unpack(unpacker)?);
        }
        self.undone = unpacker.all()?;
        self.keeping = Kept::Account(Account::default());
        Some(())
    }
}

impl Pack for Account {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.user_bytes);
        packer.number(self.assistant_bytes);
        self.failed.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self {
            user_bytes: unpacker.number()?,
            assistant_bytes: unpacker.number()?,
            failed: bool::unpack(unpacker)?,
        })
    }
}

impl Pack for TurnId {
    fn pack(&self, packer: &mut Packer) {
        matches!(self, Self::Uuid(_)).pack(packer);
        match self {
            Self::Uuid(id) => id.pack(packer),
            Self::Text(id) => packer.counted(id.as_bytes()),
        }
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(match bool::unpack(unpacker)? {
            true => Self::Uuid(Uuid::unpack(unpacker)?),
            false => Self::Text(String::unpack(unpacker)?.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::codex::{Row, read_line, said_in};

    const UUID: &str = "019c0000-0000-7000-8000-000000000009";

    /// Rows of every kind of turn, with their places in one file.
    fn rows() -> (String, Vec<Row>) {
        let (mut file, mut rows) = (String::new(), Vec::new());
        let started = |id: &str| format!(r#"{{"type":"task_started","turn_id":"{id}"}}"#);
        let ended = |id: &str| format!(r#"{{"type":"task_complete","turn_id":"{id}"}}"#);
        let said = |kind: &str, text: &str| format!(r#"{{"type":"{kind}","message":"{text}"}}"#);
        let rolled_back = r#"{"type":"thread_rolled_back","num_turns":1}"#.to_owned();
        for payload in [
            said("agent_message", "in front of all"),
            said("user_message", "waits"),
            started("a"),
            said("user_message", "and more"),
            said("agent_message", "answer"),
            ended("a"),
            started(UUID),
            said("user_message", "undone"),
            rolled_back.clone(),
            r#"{"type":"task_started"}"#.to_owned(),
            said("user_message", "undone without an id"),
            rolled_back,
            started("b"),
            said("user_message", "stopped"),
            r#"{"type":"turn_aborted","turn_id":"b"}"#.to_owned(),
            started("c"),
            said("user_message", "failed"),
            r#"{"type":"task_complete","turn_id":"c","error":{"message":"limit"}}"#.to_owned(),
            said("user_message", "waits too"),
            started("d"),
            r#"{"type":"task_complete","turn_id":"d","last_agent_message":"only here"}"#.to_owned(),
            said("user_message", "waits at the end"),
        ] {
            let line = format!(
                "{{\"timestamp\":\"2026-07-01T00:00:00.000Z\",\"type\":\"event_msg\",\"payload\":{payload}}}\n"
            );
            rows.extend(read_line(line.trim_end().as_bytes(), file.len() as u64, true));
            file += &line;
        }
        (file, rows)
    }

    fn apply(turns: &mut Turns, row: &Row, file: &str) {
        let text = |at: crate::row::RowRef| said_in(&file.as_bytes()[at.offset as usize..at.span().end as usize]);
        turns.apply(row, text).unwrap();
    }

    fn packed(turns: &Turns) -> Vec<u8> {
        let mut packer = Packer::default();
        turns.pack(&mut packer);
        turns.pack_accounts(&mut packer);
        packer.finish()
    }

    fn unpacked(bytes: &[u8]) -> Option<Turns> {
        let mut unpacker = Unpacker::new(bytes);
        let mut turns = Turns::unpack(&mut unpacker)?;
        turns.unpack_accounts(&mut unpacker)?;
        unpacker.is_at_end().then_some(turns)
    }

    /// All that an account is asked for.
    fn told(turns: &Turns) -> String {
        let accounts: Vec<_> = turns.turns().iter().map(|turn| (turn.account(), turn.completed())).collect();
        let undone = [false, true].map(|copied| turns.undone_in(UUID.replace("09", "10").parse().unwrap(), copied));
        format!("{accounts:?} {undone:?}")
    }

    #[test]
    fn accounts_that_were_taken_up_behind_any_row_are_those_of_one_reading() {
        let (file, rows) = rows();
        let mut whole = Turns::keeping_accounts();
        let mut states = vec![packed(&whole)];
        for row in &rows {
            apply(&mut whole, row, &file);
            states.push(packed(&whole));
        }
        assert_eq!(whole.undone, [Some(TurnId::Uuid(UUID.parse().unwrap())), None]);
        assert!(whole.turns().iter().any(|turn| turn.account().unwrap().failed));
        for (n, state) in states.iter().enumerate() {
            let mut resumed = unpacked(state).unwrap();
            for (row, state) in rows[n..].iter().zip(&states[n + 1..]) {
                apply(&mut resumed, row, &file);
                assert_eq!(packed(&resumed), *state, "taken up behind row {n}");
            }
            assert_eq!(told(&resumed), told(&whole), "taken up behind row {n}");
        }
    }

    #[test]
    fn what_are_no_accounts_is_none() {
        let (file, rows) = rows();
        let mut turns = Turns::keeping_accounts();
        rows.iter().for_each(|row| apply(&mut turns, row, &file));
        let bytes = packed(&turns);
        assert!((0..bytes.len()).all(|len| unpacked(&bytes[..len]).is_none()));
        // The accounts of another number of turns.
        let mut accounts = Packer::default();
        Turns::keeping_accounts().pack_accounts(&mut accounts);
        assert!(turns.unpack_accounts(&mut Unpacker::new(&accounts.finish())).is_none());
        // Those of turns of which some are put aside.
        assert!(!turns.settle(1, 0).is_empty());
        assert!(unpacked(&packed(&turns)).is_none());
    }
}
