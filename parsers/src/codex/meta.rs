//! `session_meta`: what a rollout says of itself in its first row.

use serde::{Deserialize, Serialize};

use super::name::Uuid;
use crate::json::{Object, Value};

/// The identity of a rollout: the `session_meta` that is the first object of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// `payload.id` where it is set, in its own spelling. Never `session_id`: that is the root of the tree of agents.
    pub id: Option<String>,
    /// `payload.cwd` as written; `None` when it is missing, empty or no string.
    pub cwd: Option<String>,
    /// A person's own thread: neither a sub-agent's nor one that the host keeps for itself.
    pub root: bool,
    /// `forked_from_id` is set: turns older than the thread are copies.
    pub forked: bool,
    /// The rollout that this one continues.
    pub base: Option<HistoryBase>,
}

/// `history_base`: the file that is continued, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryBase {
    /// Its field is called `thread_id`, but it is the last UUID of a file name.
    pub rollout: Uuid,
    /// The base is read as if it ended here, in bytes.
    pub end: u64,
}

impl Meta {
    /// The thread that the file says it is of; where its id is no UUID the name of the file has to tell.
    pub fn thread(&self) -> Option<Uuid> {
        self.id.as_ref()?.parse().ok()
    }

    /// Reads the payload of a `session_meta` row; one that is no object says nothing.
    pub(super) fn read(payload: Option<Object<'_>>) -> Self {
        let names = ["id", "cwd", "parent_thread_id", "thread_source", "source", "forked_from_id", "history_base"];
        let [id, cwd, parent, thread_source, source, forked_from, base] =
            payload.map(|object| object.fields(names)).unwrap_or_default();
        let set = |value: Option<Value<'_>>| value.is_some_and(Value::is_set);
        let a_users = !set(thread_source) || thread_source.and_then(Value::text).as_deref() == Some("user");
        let [subagent, internal] =
            source.and_then(Value::object).map(|object| object.fields(["subagent", "internal"])).unwrap_or_default();
        Self {
            id: id.filter(|id| id.is_set()).map(|id| id.text().map_or_else(|| id.spelled(), |text| text.into_owned())),
            cwd: cwd.and_then(Value::text).filter(|text| !text.is_empty()).map(|text| text.into_owned()),
            root: !set(parent) && a_users && !set(subagent) && !set(internal),
            forked: set(forked_from),
            base: base.and_then(Value::object).and_then(HistoryBase::read),
        }
    }
}

impl HistoryBase {
    fn read(object: Object<'_>) -> Option<Self> {
        let [rollout, end] = object.fields(["thread_id", "end_byte_offset"]);
        let Some(Value::Number(end)) = end else { return None };
        Some(Self { rollout: rollout?.text()?.parse().ok()?, end: u64::try_from(end.integer()?).unwrap_or(0) })
    }
}
