//! The members of a row that could matter, not yet looked at.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::key::Key;
use super::wording::is_blank;
use crate::json::{Bad, Object, Reader, Text, Value};

/// The members of a row.
#[derive(Default)]
pub(super) struct Members<'a> {
    pub(super) kind: Option<Text<'a>>,
    pub(super) uuid: Option<Text<'a>>,
    pub(super) timestamp: Option<Text<'a>>,
    pub(super) session: Option<Key>,
    /// The same, as it is written.
    pub(super) session_id: Option<Text<'a>>,
    /// The version of the program that wrote the row.
    pub(super) version: Option<Text<'a>>,
    pub(super) cwd: Option<Text<'a>>,
    pub(super) message: Message<'a>,
    pub(super) attachment: Option<Object<'a>>,
    /// `origin.kind`
    pub(super) origin: Option<Text<'a>>,
    pub(super) is_sidechain: bool,
    pub(super) is_meta: bool,
    pub(super) is_api_error: bool,
    /// `sourceToolUseID`
    pub(super) of_tool: bool,
    is_compact_summary: bool,
    /// `isVisibleInTranscriptOnly`, `teamName`
    not_said: [bool; 2],
    ids: [bool; 3],
}

/// The members of a message.
#[derive(Default)]
pub(super) struct Message<'a> {
    pub(super) role: Option<Value<'a>>,
    pub(super) id: Option<Text<'a>>,
    pub(super) is_synthetic: bool,
    pub(super) stop_reason: Option<Value<'a>>,
    pub(super) content: Content<'a>,
}

/// What a message is made of.
#[derive(Default)]
pub(super) struct Content<'a> {
    texts: SmallVec<[Text<'a>; 1]>,
    /// How many texts stand in front of the first tool request.
    texts_before_tool: Option<usize>,
    /// Anything but text and thinking.
    pub(super) has_more: bool,
    /// What tools answered.
    pub(super) results: SmallVec<[Value<'a>; 1]>,
}

impl<'a> Members<'a> {
    /// Reads the object at the reader.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, Bad> {
        let mut members = Self::default();
        reader.object(|key, reader| members.member(&key.name(), reader))?;
        Ok(members)
    }

    fn member(&mut self, name: &[u8], reader: &mut Reader<'a>) -> Result<(), Bad> {
        match name {
            b"type" => self.kind = string(reader.value()?),
            b"timestamp" => self.timestamp = string(reader.value()?),
            b"message" => self.message = Message::read(reader)?,
            b"attachment" => self.attachment = reader.value()?.object(),
            b"origin" => {
                self.origin = reader.value()?.object().and_then(|origin| origin.fields(["kind"])[0]).and_then(string)
            }
            b"isSidechain" => self.is_sidechain = is_true(reader.value()?),
            b"isMeta" => self.is_meta = is_true(reader.value()?),
            b"isApiErrorMessage" => self.is_api_error = is_true(reader.value()?),
            b"sourceToolUseID" => self.of_tool = reader.value()?.is_truthy(),
            b"isCompactSummary" => self.is_compact_summary = is_true(reader.value()?),
            b"isVisibleInTranscriptOnly" => self.not_said[0] = is_true(reader.value()?),
            b"teamName" => self.not_said[1] = reader.value()?.is_truthy(),
            b"uuid" => (self.uuid, self.ids[0]) = (string(reader.value()?), true),
            b"sessionId" => {
                let id = reader.value()?;
                (self.session, self.session_id, self.ids[1]) = (Key::of_value(id), string(id), true);
            }
            b"version" => self.version = string(reader.value()?),
            b"cwd" => self.cwd = string(reader.value()?),
            b"parentUuid" => {
                self.ids[2] = true;
                reader.skip()?;
            }
            _ => reader.skip()?,
        }
        Ok(())
    }

    /// Whether it is no part of the conversation though it may look so.
    pub(super) fn is_ignored(&self) -> bool {
        self.is_compact_summary || self.is_not_said()
    }

    /// Whether nobody said it here: it was sent by another agent, or only stands in the transcript.
    pub(super) fn is_not_said(&self) -> bool {
        self.not_said.contains(&true)
    }

    /// Whether it has the ids of a row itself; objects within rows do not.
    pub(super) fn has_ids(&self) -> bool {
        self.ids == [true; 3]
    }
}

impl<'a> Message<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Bad> {
        let mut message = Self::default();
        let is_object = reader.object(|key, reader| {
            match &*key.name() {
                b"role" => message.role = Some(reader.value()?),
                b"id" => message.id = string(reader.value()?),
                b"model" => {
                    message.is_synthetic =
                        string(reader.value()?).is_some_and(|model| *model.name() == *b"<synthetic>");
                }
                b"stop_reason" => message.stop_reason = Some(reader.value()?),
                b"content" => message.content = Content::read(reader)?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        if !is_object {
            reader.skip()?;
        }
        Ok(message)
    }
}

impl<'a> Content<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Bad> {
        let mut content = Self::default();
        let is_array = reader.array(|reader| content.block(reader))?;
        if !is_array && let Some(text) = string(reader.value()?) {
            content.texts.push(text);
        }
        Ok(content)
    }

    fn block(&mut self, reader: &mut Reader<'a>) -> Result<(), Bad> {
        let (mut kind, mut text, mut content) = (None, None, None);
        let is_object = reader.object(|key, reader| {
            match &*key.name() {
                b"type" => kind = string(reader.value()?),
                b"text" => text = string(reader.value()?),
                b"content" => content = Some(reader.value()?),
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        if !is_object {
            reader.skip()?;
        }
        match kind.map(Text::name).as_deref() {
            Some(b"text") => self.texts.extend(text),
            Some(b"thinking" | b"redacted_thinking") => {}
            other => {
                self.has_more = true;
                match other {
                    Some(b"tool_use") => self.texts_before_tool = self.texts_before_tool.or(Some(self.texts.len())),
                    Some(b"tool_result") => self.results.extend(content),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Whether a tool is asked for.
    pub(super) fn has_tool_use(&self) -> bool {
        self.texts_before_tool.is_some()
    }

    /// Whether a tool is asked for before anything that can be read.
    pub(super) fn begins_with_tool(&self) -> bool {
        let before = self.texts_before_tool.map(|count| &self.texts[..count]);
        before.is_some_and(|texts| texts.iter().all(|text| is_blank(&text.decode())))
    }

    /// The texts, one behind the other.
    pub(super) fn text(&self) -> String {
        let mut whole = String::new();
        self.texts.iter().for_each(|text| text.decode_into(&mut whole));
        whole
    }
}

/// The text of an attachment that is part of what the agent was asked: a prompt that was typed while it worked, or what a
/// Stop hook added.
pub(super) fn aside(attachment: Object<'_>) -> Option<String> {
    let [kind, mode, origin, is_meta, prompt, event, content] =
        attachment.fields(["type", "commandMode", "origin", "isMeta", "prompt", "hookEvent", "content"]);
    let is = |value: Option<Value<'_>>, name: &[u8]| value.and_then(string).is_some_and(|text| *text.name() == *name);
    let text = if is(kind, b"queued_command") {
        let origin = origin.and_then(Value::object).and_then(|origin| origin.fields(["kind"])[0]);
        let of_a_person = origin.is_none() || is(origin, b"human");
        (is(mode, b"prompt") && of_a_person && !is_meta.is_some_and(is_true)).then(|| texts_of(prompt?))
    } else {
        (is(kind, b"hook_additional_context") && is(event, b"Stop")).then(|| texts_of(content?))
    };
    text.flatten().filter(|text| !text.is_empty())
}

/// A string, or the texts of a list of blocks or strings, a line each.
fn texts_of(value: Value<'_>) -> Option<String> {
    let Some(array) = value.array() else { return string(value).map(|text| text.decode().into_owned()) };
    Some(array.items().filter_map(text_of).collect::<Vec<_>>().join("\n"))
}

/// A string, or the text of a block.
fn text_of(item: Value<'_>) -> Option<Cow<'_, str>> {
    match item.object() {
        Some(block) => block.fields(["text"])[0].and_then(Value::text),
        None => item.text(),
    }
}

fn string(value: Value<'_>) -> Option<Text<'_>> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn is_true(value: Value<'_>) -> bool {
    matches!(value, Value::Bool(true))
}
