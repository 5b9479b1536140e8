//! `session_meta`: what a rollout says of itself in its first row.

use crate::json::{Object, Text, Value};
use crate::pack::{Pack, Packer, Unpacker};
use crate::uuid::Uuid;

/// The identity of a rollout: the `session_meta` that is the first object of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

/// The members of a payload that a [`Meta`] is made of. They are taken in the one pass over the row: its first row can be
/// most of what is read of a rollout.
#[derive(Default)]
pub(super) struct MetaMembers<'a> {
    id: Option<Value<'a>>,
    cwd: Option<Value<'a>>,
    parent_thread_id: Option<Value<'a>>,
    thread_source: Option<Value<'a>>,
    source: Option<Value<'a>>,
    forked_from_id: Option<Value<'a>>,
    history_base: Option<Value<'a>>,
}

impl<'a> MetaMembers<'a> {
    /// The place for the value of this member; `None` for one that does not matter.
    pub(super) fn member(&mut self, name: &[u8]) -> Option<&mut Option<Value<'a>>> {
        Some(match name {
            b"id" => &mut self.id,
            b"cwd" => &mut self.cwd,
            b"parent_thread_id" => &mut self.parent_thread_id,
            b"thread_source" => &mut self.thread_source,
            b"source" => &mut self.source,
            b"forked_from_id" => &mut self.forked_from_id,
            b"history_base" => &mut self.history_base,
            _ => return None,
        })
    }

    /// The thread that began this one as its sub-agent, where that is told.
    pub(super) fn parent(&self) -> Option<Text<'a>> {
        let field = |value: Option<Value<'a>>, name| value.and_then(Value::object).and_then(|it| it.fields([name])[0]);
        let spawned = field(field(self.source, "subagent"), "thread_spawn");
        match self.parent_thread_id.filter(|id| id.is_set()).or(field(spawned, "parent_thread_id"))? {
            Value::String(id) => Some(id),
            _ => None,
        }
    }
}

impl From<MetaMembers<'_>> for Meta {
    fn from(members: MetaMembers<'_>) -> Self {
        let set = |value: Option<Value<'_>>| value.is_some_and(Value::is_set);
        let source = members.thread_source;
        let a_users = !set(source) || source.and_then(Value::text).as_deref() == Some("user");
        let source = members.source.and_then(Value::object);
        let [subagent, internal] = source.map(|object| object.fields(["subagent", "internal"])).unwrap_or_default();
        let id = members.id.filter(|id| id.is_set());
        Self {
            id: id.map(|id| id.text().map_or_else(|| id.spelled(), |text| text.into_owned())),
            cwd: members.cwd.and_then(Value::text).filter(|text| !text.is_empty()).map(|text| text.into_owned()),
            root: !set(members.parent_thread_id) && a_users && !set(subagent) && !set(internal),
            forked: set(members.forked_from_id),
            base: members.history_base.and_then(Value::object).and_then(HistoryBase::read),
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

impl Pack for Meta {
    fn pack(&self, packer: &mut Packer) {
        self.id.pack(packer);
        self.cwd.pack(packer);
        self.root.pack(packer);
        self.forked.pack(packer);
        self.base.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self {
            id: Option::unpack(unpacker)?,
            cwd: Option::unpack(unpacker)?,
            root: bool::unpack(unpacker)?,
            forked: bool::unpack(unpacker)?,
            base: Option::unpack(unpacker)?,
        })
    }
}

impl Pack for HistoryBase {
    fn pack(&self, packer: &mut Packer) {
        self.rollout.pack(packer);
        packer.number(self.end);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self { rollout: Uuid::unpack(unpacker)?, end: unpacker.number()? })
    }
}
