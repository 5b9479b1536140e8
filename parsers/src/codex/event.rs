//! The rows that matter, as values.

use smallvec::SmallVec;

use super::meta::{Meta, MetaMembers};
use crate::json::{Bad, Object, Reader, Text, Value};
use crate::text::Folder;
use crate::time::parse_ms;
use crate::uuid::Uuid;

/// What one row does to the turns of its rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `session_meta`.
    Meta(Box<Meta>),
    /// `task_started`, `turn_started`.
    Started {
        /// The id of the turn that opens.
        turn: Option<TurnId>,
    },
    /// `task_complete`, `turn_complete`, `turn_aborted`: a turn is over.
    Ended {
        /// The turn that it names.
        turn: Option<TurnId>,
        /// How it ended.
        end: End,
    },
    /// `thread_rolled_back`.
    RolledBack {
        /// How many prompts are undone.
        prompts: u64,
    },
    /// A message of either side.
    Said {
        /// The turn that an item names; an event names none.
        turn: Option<TurnId>,
        /// What was said.
        message: Message,
    },
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Aborted.
    Aborted,
    /// Completed with an `error`: over, but not completed.
    Failed,
    /// Completed.
    Completed {
        /// When, in milliseconds since the epoch: the row's time, else the payload's.
        at: Option<i64>,
        /// It has a `last_agent_message`, which stands in where the turn has no assistant text. That is seldom, so it is
        /// read (by [`said_in`](super::said_in)) when it is needed.
        last_message: bool,
    },
}

/// The two sides of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The person (or program) that asks.
    User,
    /// The agent.
    Assistant,
}

/// The two shapes in which Codex writes the same message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `user_message`, `agent_message`.
    Event,
    /// `item_completed`.
    Item,
}

/// A message that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// Folded. Empty for a prompt without words (images), which counts as a prompt; never empty for the assistant.
    pub text: String,
    /// How it was written.
    pub shape: Shape,
}

/// The id of a turn: a UUID in practice, any text in principle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TurnId {
    /// A UUID in its canonical spelling.
    Uuid(Uuid),
    /// Anything else.
    Text(Box<str>),
}

impl TurnId {
    fn read(text: Option<Text<'_>>) -> Option<Self> {
        let text = text?.decode();
        Some(text.parse().map_or_else(|Bad| Self::Text(text.into()), Self::Uuid))
    }
}

mod tape;

pub(super) use tape::read_row;

/// Reads the object at the reader. `Ok(None)` when it is a row that changes nothing.
///
/// # Errors
/// [`Bad`] when no JSON value stands here; a value that is no object is `Ok(None)` and not passed over.
pub(super) fn read_object(reader: &mut Reader<'_>) -> Result<Option<Event>, Bad> {
    look_at_object(reader, &mut LookedAt::default())
}

/// What a row says besides what it does to the turns.
#[derive(Default)]
pub(super) struct LookedAt<'a> {
    /// Its type.
    pub(super) kind: Option<Text<'a>>,
    /// The type of its payload.
    pub(super) inner: Option<Text<'a>>,
    /// The version of the program that wrote it.
    pub(super) writer: Option<Text<'a>>,
    /// The thread at the root of its tree of agents.
    pub(super) tree: Option<Text<'a>>,
    /// The thread that began it.
    pub(super) parent: Option<Text<'a>>,
    /// What rows without a type had before September 2025.
    pub(super) record_type: Option<Text<'a>>,
    has_id: bool,
    has_time: bool,
    last_agent_message: Option<Text<'a>>,
}

impl LookedAt<'_> {
    /// Whether it is the row that a file began with before September 2025.
    pub(super) fn is_header(&self) -> bool {
        self.has_id && self.has_time
    }
}

/// The same as [`read_object`], and tells what else the row says.
pub(super) fn look_at_object<'a>(reader: &mut Reader<'a>, looked_at: &mut LookedAt<'a>) -> Result<Option<Event>, Bad> {
    let (mut time, mut payload) = (None, Payload::default());
    reader.object(|key, reader| {
        match &*key.name() {
            b"type" => looked_at.kind = string(reader)?,
            b"timestamp" => (time, looked_at.has_time) = (string(reader)?, true),
            b"payload" => payload = Payload::read(reader)?,
            b"record_type" => looked_at.record_type = string(reader)?,
            b"id" => {
                looked_at.has_id = true;
                reader.skip()?;
            }
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    (looked_at.inner, looked_at.last_agent_message) = (payload.kind, payload.last_agent_message);
    Ok(match looked_at.kind.map(Text::name).as_deref() {
        Some(b"session_meta") => {
            (looked_at.writer, looked_at.tree) = (payload.writer, payload.session_id);
            looked_at.parent = payload.meta.parent();
            Some(Event::Meta(Box::new(payload.meta.into())))
        }
        Some(b"event_msg") => payload.event(time),
        _ => None,
    })
}

/// The folded text of the message that an object tells of, `last_agent_message` included.
pub(super) fn read_text(reader: &mut Reader<'_>) -> Result<Option<String>, Bad> {
    let mut looked_at = LookedAt::default();
    let event = look_at_object(reader, &mut looked_at)?;
    Ok(match event {
        Some(Event::Said { message, .. }) => Some(message.text),
        Some(Event::Ended { .. }) => Some(folded(looked_at.last_agent_message)),
        _ => None,
    })
}

/// The value if it is a string.
fn string<'a>(reader: &mut Reader<'a>) -> Result<Option<Text<'a>>, Bad> {
    Ok(match reader.value()? {
        Value::String(text) => Some(text),
        _ => None,
    })
}

/// The members of a payload that any event could need, not yet looked at.
#[derive(Default)]
struct Payload<'a> {
    meta: MetaMembers<'a>,
    kind: Option<Text<'a>>,
    turn_id: Option<Text<'a>>,
    message: Option<Text<'a>>,
    last_agent_message: Option<Text<'a>>,
    /// `cli_version`
    writer: Option<Text<'a>>,
    session_id: Option<Text<'a>>,
    item: Option<Item<'a>>,
    error: bool,
    num_turns: Option<i64>,
    completed_at: Option<i64>,
}

/// The members of an item that matter.
#[derive(Default)]
struct Item<'a> {
    kind: Option<Text<'a>>,
    text: Option<Text<'a>>,
    /// The texts of its content.
    content: SmallVec<[Text<'a>; 1]>,
}

impl<'a> Payload<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Bad> {
        let mut payload = Self::default();
        if !reader.object(|key, reader| payload.member(&key.name(), reader))? {
            reader.skip()?;
        }
        Ok(payload)
    }

    fn member(&mut self, name: &[u8], reader: &mut Reader<'a>) -> Result<(), Bad> {
        match name {
            b"type" => self.kind = string(reader)?,
            b"turn_id" => self.turn_id = string(reader)?,
            b"message" => self.message = string(reader)?,
            b"last_agent_message" => self.last_agent_message = string(reader)?,
            b"session_id" => self.session_id = string(reader)?,
            b"cli_version" => self.writer = string(reader)?,
            b"item" => self.item = reader.value()?.object().map(Item::read),
            b"error" => self.error = reader.value()?.object().is_some(),
            b"num_turns" => self.num_turns = reader.value()?.whole(),
            b"completed_at" => self.completed_at = reader.value()?.whole(),
            name => match self.meta.member(name) {
                Some(member) => *member = Some(reader.value()?),
                None => reader.skip()?,
            },
        }
        Ok(())
    }

    fn event(self, time: Option<Text<'_>>) -> Option<Event> {
        let turn = TurnId::read(self.turn_id);
        let event = |role, text| Some(Event::Said { turn: None, message: Message::new(role, text, Shape::Event)? });
        match &*self.kind?.name() {
            b"task_started" | b"turn_started" => Some(Event::Started { turn }),
            b"task_complete" | b"turn_complete" => Some(Event::Ended { turn, end: self.end(time) }),
            b"turn_aborted" => Some(Event::Ended { turn, end: End::Aborted }),
            b"thread_rolled_back" => {
                Some(Event::RolledBack { prompts: self.num_turns.and_then(|n| n.try_into().ok()).unwrap_or(0) })
            }
            b"user_message" => event(Role::User, folded(self.message)),
            b"agent_message" => event(Role::Assistant, folded(self.message)),
            b"item_completed" => Some(Event::Said { turn, message: self.item?.message()? }),
            _ => None,
        }
    }

    fn end(self, time: Option<Text<'_>>) -> End {
        if self.error {
            return End::Failed;
        }
        let stated = self.completed_at.filter(|seconds| (0..=crate::json::MAX_WHOLE / 1000).contains(seconds));
        let at = time.and_then(|time| parse_ms(&time.decode())).or(stated.map(|seconds| seconds * 1000));
        End::Completed { at, last_message: self.last_agent_message.is_some() }
    }
}

impl Message {
    /// `None` when it does not count: text that the host injected, an assistant's message without text.
    fn new(role: Role, text: String, shape: Shape) -> Option<Self> {
        let counts = match role {
            Role::User => !text.starts_with("# AGENTS.md instructions") && !text.starts_with("<hook_prompt"),
            Role::Assistant => !text.is_empty(),
        };
        counts.then_some(Self { role, text, shape })
    }
}

impl<'a> Item<'a> {
    fn read(object: Object<'a>) -> Self {
        let string = |value: Option<Value<'a>>| match value {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let [kind, text, content] = object.fields(["type", "text", "content"]);
        let parts = content.and_then(Value::array).into_iter().flat_map(|array| array.items());
        let content = parts.filter_map(|part| string(part.object()?.fields(["text"])[0])).collect();
        Self { kind: string(kind), text: string(text), content }
    }

    fn message(&self) -> Option<Message> {
        let (role, text) = match &*self.kind?.name() {
            b"UserMessage" => (Role::User, self.folded_content()),
            b"AgentMessage" => (Role::Assistant, self.folded_content()),
            b"Plan" => (Role::Assistant, folded(self.text)),
            _ => return None,
        };
        Message::new(role, text, Shape::Item)
    }

    /// The texts of the content, one behind the other.
    fn folded_content(&self) -> String {
        let mut folder = Folder::default();
        self.content.iter().for_each(|text| text.decode_into(&mut folder));
        folder.finish()
    }
}

fn folded(text: Option<Text<'_>>) -> String {
    text.map(Text::decode_folded).unwrap_or_default()
}
