//! Codex rollouts: from the name of a file to the turns that completed in it.

mod event;
mod every;
mod line;
mod meta;
mod name;
mod passed;
mod turns;

pub use event::{End, Event, Message, Role, Shape, TurnId};
pub use every::{EveryRow, Looked, Origin};
pub(crate) use line::ROW_START;
pub use line::{Row, first_object, read_line, said_in};
pub use meta::{HistoryBase, Meta};
pub use name::RolloutName;
pub use passed::Rollout;
pub use turns::{Account, Completed, Pair, Settled, Turn, Turns};

pub use crate::row::{MissingRow, RowRef};
pub use crate::uuid::Uuid;
