//! The rows of one line, as what they do to the turns.

use memchr::memmem;
use smallvec::SmallVec;

use super::key::Key;
use super::members::{Members, aside};
use super::passed::{ROW_START, TYPE_START};
use super::sight::Sight;
use super::wording::{as_asked, is_blank, is_error, is_interrupt, is_no_prompt, is_no_response, is_stop_feedback};
use crate::json::{Reader, Text, Value};
use crate::row::{LineText, Piece, RowRef};
use crate::time::parse_ms;

/// One row of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub(super) at: RowRef,
    /// Milliseconds since the epoch.
    pub(super) time: Option<i64>,
    /// What tells whether it is a repeat, where that matters.
    pub(super) uuid: Option<Key>,
    pub(super) session: Option<Key>,
    /// It is a text row and has an index.
    pub(super) is_text: bool,
    pub(super) act: Act,
    pub(super) sight: Sight,
}

/// What a row does to the turns, unless it is a repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing.
    None,
    /// It opens a turn.
    Prompt(String),
    /// It adds to what the open turn was asked.
    Aside(String),
    /// The user stopped the agent.
    Interrupt,
    /// The agent could not answer.
    Failure,
    /// The agent goes on.
    Reply(Reply),
}

/// A row of one of the agent's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// The message; without an id it is one of its own.
    pub(super) message: Option<Key>,
    /// Empty where there is nothing to be read.
    pub(super) text: String,
    pub(super) stop: Option<Stop>,
    pub(super) is_synthetic: bool,
    pub(super) has_tool_use: bool,
    /// Anything but thinking.
    pub(super) is_seen: bool,
}

/// Why a message stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Since the agent has said what it had to say, or cannot say more.
    Terminal,
    /// For anything else, a tool first of all.
    Other,
}

/// What another session may say under the user's name that the agent acts on.
const MACHINES: [&[u8]; 5] = [b"task-notification", b"peer", b"channel", b"coordinator", b"auto-continuation"];

/// The rows of one line, in order, and in their place what is unreadable: a row that does nothing to the turns. `offset` is where the line begins in its file (a byte order mark at 0 is blank); `ended`
/// says that its LF is there: of an unterminated line only the whole objects at its start count, for more bytes may follow.
///
/// After something unreadable, reading goes on where in the line an object begins as a row does; since those within rows
/// begin so too, only those count that have the ids of a row.
pub fn read_line(line: &[u8], offset: u64, ended: bool) -> SmallVec<[Row; 1]> {
    let mut rows = SmallVec::new();
    let line = LineText { bytes: line, offset, ended };
    line.for_each_object(next_row, Members::read, |piece| {
        match piece {
            Piece::Object { value, at, damaged } if !damaged || value.has_ids() => rows.push(Row::new(value, at)),
            Piece::Object { .. } => {}
            Piece::Unreadable(_, at) => rows.push(Row { sight: Sight::Unreadable, ..Row::empty(at) }),
        }
        true
    });
    rows
}

/// Where in the bytes behind the start of something unreadable the next row may begin.
pub(super) fn next_row(bytes: &[u8]) -> Option<usize> {
    let row = memmem::find(bytes, ROW_START);
    let typed = memmem::find(&bytes[..row.unwrap_or(bytes.len())], TYPE_START);
    typed.or(row)
}

/// The text of a row that was read before: a prompt, an aside, a reply; `None` when no such row stands there any more.
pub(super) fn said_in(object: &[u8]) -> Option<String> {
    let members = Members::read(&mut Reader::new(object, 0)).ok()?;
    match Row::new(members, RowRef { offset: 0, len: object.len() as u64 }).act {
        Act::Prompt(text) | Act::Aside(text) => Some(text),
        Act::Reply(reply) => Some(reply.text),
        Act::None | Act::Interrupt | Act::Failure => None,
    }
}

impl Row {
    /// Where its object stands.
    pub fn at(&self) -> RowRef {
        self.at
    }

    /// Whether it says something of a turn, besides that the agent was at work: what was asked or answered, or how the turn
    /// went.
    pub fn tells(&self) -> bool {
        match &self.act {
            Act::None => self.is_text,
            Act::Reply(reply) => self.is_text || !reply.text.is_empty(),
            Act::Prompt(_) | Act::Aside(_) | Act::Interrupt | Act::Failure => true,
        }
    }

    fn empty(at: RowRef) -> Self {
        Self { at, time: None, uuid: None, session: None, is_text: false, act: Act::None, sight: Sight::None }
    }

    /// How many bytes of text it adds to its turn.
    pub fn said_bytes(&self) -> u64 {
        let text = match &self.act {
            Act::Prompt(text) | Act::Aside(text) => text,
            Act::Reply(reply) => &reply.text,
            Act::None | Act::Interrupt | Act::Failure => "",
        };
        text.len() as u64
    }

    /// When it was written, in milliseconds since the epoch.
    pub fn time(&self) -> Option<i64> {
        self.time
    }

    pub(super) fn new(members: Members<'_>, at: RowRef) -> Self {
        let time = members.timestamp.and_then(|time| parse_ms(&time.decode()));
        let mut row = Self { time, session: members.session, ..Self::empty(at) };
        let kind = members.kind.map(Text::name);
        let Some(kind @ (b"user" | b"assistant" | b"attachment")) = kind.as_deref() else { return row };
        row.uuid = members.uuid.map(|uuid| Key::of(&uuid.decode()));
        if members.is_sidechain {
            return row;
        }
        if kind == b"attachment" {
            row.act = members.attachment.and_then(aside).map_or(Act::None, Act::Aside);
            return row;
        }
        let text = members.message.content.text();
        row.is_text = !text.is_empty();
        row.sight = Sight::of(kind, &members, &text);
        if !members.is_ignored() {
            row.act = match members.role(kind).as_slice() {
                b"user" => members.asked(text),
                b"assistant" => members.replied(text),
                _ => Act::None,
            };
        }
        row
    }
}

impl Members<'_> {
    /// `message.role`, else the row's type; empty for a role that is no name.
    fn role(&self, kind: &[u8]) -> SmallVec<[u8; 16]> {
        match self.message.role.filter(|role| role.is_truthy()) {
            None => kind.into(),
            Some(Value::String(role)) => (*role.name()).into(),
            Some(_) => SmallVec::new(),
        }
    }

    fn asked(&self, text: String) -> Act {
        if is_no_prompt(&text) {
            return Act::None;
        }
        if is_interrupt(&text) {
            return Act::Interrupt;
        }
        let of_a_machine = || self.origin.is_some_and(|origin| MACHINES.contains(&&*origin.name()));
        let is_for_show = self.is_meta && !is_stop_feedback(&text) && !of_a_machine();
        if self.of_tool || is_for_show { Act::None } else { Act::Prompt(as_asked(text)) }
    }

    fn replied(&self, text: String) -> Act {
        let message = &self.message;
        if message.is_synthetic && is_no_response(&text) {
            return Act::None;
        }
        if self.is_api_error || (message.is_synthetic && is_error(&text)) {
            return Act::Failure;
        }
        let text = if is_blank(&text) { String::new() } else { text };
        Act::Reply(Reply {
            message: message.id.map(|id| Key::of(&id.decode())),
            stop: message.stop_reason.and_then(Stop::read),
            is_synthetic: message.is_synthetic,
            has_tool_use: message.content.has_tool_use(),
            is_seen: message.content.has_more || !text.is_empty(),
            text,
        })
    }
}

impl Stop {
    fn read(reason: Value<'_>) -> Option<Self> {
        let is_terminal = |name: &[u8]| matches!(name, b"end_turn" | b"stop_sequence" | b"max_tokens" | b"refusal");
        match reason {
            Value::Null => None,
            Value::String(name) if is_terminal(&name.name()) => Some(Self::Terminal),
            _ => Some(Self::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"parentUuid":null,"type":"user","message":{"content":"ask"},"uuid":"u","sessionId":"s"}"#;

    fn acts(line: &str, ended: bool) -> Vec<Act> {
        let rows = read_line(line.as_bytes(), 7, ended);
        rows.into_iter().filter(|row| row.sight != Sight::Unreadable).map(|row| row.act).collect()
    }

    /// Where in a line something is unreadable.
    fn unreadable(line: &str, ended: bool) -> Vec<std::ops::Range<u64>> {
        let rows = read_line(line.as_bytes(), 7, ended);
        let unreadable = rows.iter().filter(|row| row.sight == Sight::Unreadable);
        unreadable.map(|row| row.at.offset - 7..row.at.span().end - 7).collect()
    }

    fn asks(count: usize) -> Vec<Act> {
        vec![Act::Prompt("ask".to_owned()); count]
    }

    #[test]
    fn several_objects_of_a_line_are_each_a_row() {
        assert_eq!(acts(&format!("\0\0 {WHOLE}\0{WHOLE} 7 [] {WHOLE}\r"), true), asks(3));
        let rows = read_line(format!("{WHOLE}{WHOLE}").as_bytes(), 7, true);
        assert_eq!(rows[1].at, RowRef { offset: 7 + WHOLE.len() as u64, len: WHOLE.len() as u64 });
    }

    #[test]
    fn what_is_unreadable_is_told_in_its_place() {
        let len = WHOLE.len() as u64;
        let cut = &WHOLE[..40];
        assert_eq!(unreadable(&format!("{WHOLE} \t[7] {WHOLE}\r"), true), []);
        assert_eq!(unreadable(&format!(" \0\0{WHOLE} \0"), true), [0..3, 3 + len..5 + len]);
        assert_eq!(unreadable(&format!("{cut}{WHOLE}x"), true), [0..40, 40 + len..41 + len]);
        // Of a line that may go on only what stands in front of a whole object is known.
        assert_eq!(unreadable(&format!("\0{WHOLE}\0{cut}"), false), vec![0..1; 1]);
        assert_eq!(unreadable(&cut.repeat(9), true).len(), 8);
    }

    #[test]
    fn a_whole_row_behind_a_cut_one_is_found_unless_its_line_may_go_on() {
        let line = format!("{}{WHOLE}", &WHOLE[..40]);
        assert_eq!(acts(&line, true), asks(1));
        assert_eq!(acts(&line, false), asks(0));
        assert_eq!(acts(&format!("{WHOLE}{}", &WHOLE[..40]), false), asks(1));
        let typed = r#"{"type":"user","message":{"content":"ask"},"parentUuid":null,"uuid":"u","sessionId":"s"}"#;
        assert_eq!(acts(&format!("{}{typed}", &WHOLE[..40]), true), asks(1));
    }

    #[test]
    fn behind_something_unreadable_an_object_within_a_row_is_no_row() {
        let nested = r#"{"type":"user","message":{"content":"ask"},"uuid":"u","sessionId":"s"}"#;
        assert_eq!(acts(nested, true), asks(1));
        assert_eq!(acts(&format!(r#"{{"parentUuid":"cut,"data":{nested}}}"#), true), asks(0));
        assert_eq!(acts(&format!(r#"{{"parentUuid":"cut,"data":{nested}}}{WHOLE}"#), true), asks(1));
    }

    #[test]
    fn the_eighth_unreadable_piece_ends_a_line() {
        let cut = &WHOLE[..20];
        assert_eq!(acts(&format!("{}{WHOLE}", cut.repeat(7)), true), asks(1));
        assert_eq!(acts(&format!("{}{WHOLE}", cut.repeat(8)), true), asks(0));
    }

    #[test]
    fn only_keys_of_the_row_itself_say_what_it_is() {
        let row =
            r#"{"parentUuid":null,"message":{"type":"user","role":"assistant","content":"a"},"type":"assistant"}"#;
        assert!(matches!(&acts(row, true)[..], [Act::Reply(reply)] if reply.text == "a" && reply.is_seen));
        assert_eq!(acts(r#"{"message":{"type":"user","content":"ask"}}"#, true), [Act::None]);
        assert_eq!(acts(r#"{"type":"progress","type":"user","message":{"content":"ask"}}"#, true), asks(1));
    }

    #[test]
    fn a_text_is_read_again_as_it_was() {
        assert_eq!(said_in(WHOLE.as_bytes()).as_deref(), Some("ask"));
        assert_eq!(said_in(&WHOLE.as_bytes()[..40]), None);
        assert_eq!(said_in(br#"{"type":"user","message":{"content":[]}}"#), None);
    }
}
