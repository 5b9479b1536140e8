//! One rollout: rows spelled as Codex spells them, in its order and of its sizes.

mod header;
mod rows;
mod turns;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::random::Random;
use crate::text::Pool;

pub use self::turns::{Shape, Writer};

/// What most of a rollout's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Mix {
    /// Output of tools, of 100 bytes to 40 KiB.
    Tool,
    /// `compacted` rows of 1 to 4 MB.
    Compacted,
    /// Encrypted reasoning.
    Reasoning,
    /// Images as base64.
    Image,
}

impl Mix {
    /// The mean size of a turn.
    pub fn turn_bytes(self) -> u64 {
        match self {
            Mix::Tool | Mix::Reasoning => 256 << 10,
            Mix::Compacted | Mix::Image => 4 << 20,
        }
    }
}

/// How rows are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Layout {
    /// Messages and ends of commands are events of their own.
    Legacy,
    /// Rows have an ordinal, messages and commands are completed items.
    Paginated,
}

/// What a rollout is to be.
pub struct Plan {
    /// The thread's working directory.
    pub cwd: String,
    /// The size, about: the rollout ends with the turn that comes near it.
    pub bytes: u64,
    /// What most of the bytes are.
    pub mix: Mix,
    /// How rows are laid out.
    pub layout: Layout,
    /// The mean size of a turn.
    pub turn_bytes: u64,
    /// Exactly so many turns, all of them completed, whatever the size comes to.
    pub turns: Option<u64>,
    /// The size of one more turn, which stays open.
    pub open_turn: Option<u64>,
    /// When it begins, in milliseconds.
    pub start: i64,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a rollout comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A person began a thread.
    Person,
    /// An agent of this thread began one.
    Agent(String),
    /// A fork with the history of another thread copied into it.
    Copy(Base),
    /// A fork that only names the history of another thread.
    Fork(Base),
    /// The same thread taken back to a point and gone on from there.
    Revert(Base),
}

/// The rollout that another one comes from, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Its thread.
    pub thread: String,
    /// The last id of its file's name.
    pub rollout: String,
    /// The file.
    pub path: PathBuf,
    /// Where the part ends that is taken over.
    pub end: Place,
}

/// A place between two rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Offset in bytes.
    pub bytes: u64,
    /// The ordinal of the row behind it.
    pub ordinal: u64,
}

/// How far a rollout is written: all that is needed to go on with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The id of the thread.
    pub thread: String,
    /// The id of the rollout: the thread's, but for a revert.
    pub rollout: String,
    /// Where it ends.
    pub end: Place,
    /// The time of its last row, in milliseconds.
    pub now: i64,
    /// Tokens used so far.
    tokens: u64,
    /// The turn that is under way.
    pub open: Option<Open>,
}

/// A turn that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    id: String,
    start: Place,
    started_at: i64,
    user: String,
    assistant: Vec<String>,
}

/// What a rollout became.
pub struct Written {
    /// Its ids and its end.
    pub state: State,
    /// Its own turns, without copied ones and without the one that is open.
    pub turns: Vec<Turn>,
}

/// One turn, with its texts as they were said.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Where its first row stands.
    pub start: Place,
    /// What the user said.
    pub user: String,
    /// What the assistant said, one message after the other.
    pub assistant: Vec<String>,
    /// When it completed, in milliseconds; `None` if it was aborted.
    pub completed_at: Option<i64>,
}

/// Writes a rollout.
///
/// # Errors
/// It cannot be written, or the one that it copies cannot be read.
pub fn write(plan: &Plan, pool: &Pool, random: &mut Random, out: impl Write) -> io::Result<Written> {
    let shape = Shape { cwd: plan.cwd.clone(), mix: plan.mix, layout: plan.layout };
    let state = begin(plan, random);
    let mut writer = Writer::resume(&shape, pool, random, out, state);
    writer.limit = plan.bytes;
    writer.header(plan)?;
    let turns = match plan.turns {
        Some(count) => exactly(&mut writer, plan, count)?,
        None => as_many_as_fit(&mut writer, plan)?,
    };
    if let Some(bytes) = plan.open_turn {
        writer.begin_turn(bytes, turns.is_empty())?;
        writer.go_on(bytes)?;
    }
    Ok(Written { state: writer.finish()?, turns })
}

/// The state in front of the first row.
fn begin(plan: &Plan, random: &mut Random) -> State {
    let rollout = random.uuid(plan.start);
    let (thread, ordinal) = match &plan.origin {
        Origin::Revert(base) => (base.thread.clone(), base.end.ordinal),
        Origin::Fork(base) => (rollout.clone(), base.end.ordinal),
        Origin::Person | Origin::Agent(_) | Origin::Copy(_) => (rollout.clone(), 0),
    };
    let end = Place { bytes: 0, ordinal };
    State { thread, rollout, end, now: plan.start, tokens: 20_000, open: None }
}

fn exactly<W: Write>(writer: &mut Writer<'_, W>, plan: &Plan, count: u64) -> io::Result<Vec<Turn>> {
    (0..count)
        .map(|number| {
            let mean = plan.bytes.saturating_sub(writer.end().bytes) / (count - number);
            if number == 0 { writer.turn(mean, true) } else { writer.turn_of_about(mean) }
        })
        .collect()
}

fn as_many_as_fit<W: Write>(writer: &mut Writer<'_, W>, plan: &Plan) -> io::Result<Vec<Turn>> {
    let mut turns: Vec<Turn> = Vec::new();
    loop {
        let left = plan.bytes.saturating_sub(writer.end().bytes + turns::TURN_END_BYTES);
        if left == 0 && !turns.is_empty() {
            return Ok(turns);
        }
        let bytes = writer.random.between(plan.turn_bytes / 4, plan.turn_bytes * 7 / 4).min(left);
        let aborted = !turns.is_empty() && writer.random.percent(ABORTED_PERCENT);
        let turn = if aborted { writer.aborted_turn(bytes)? } else { writer.turn(bytes, turns.is_empty())? };
        turns.push(turn);
    }
}

/// So many turns of a hundred are interrupted, but never the first one.
const ABORTED_PERCENT: u64 = 2;

#[cfg(test)]
mod tests;
