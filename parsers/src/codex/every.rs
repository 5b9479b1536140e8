//! Every row of a rollout, for those who count them.

use std::sync::LazyLock;

use memchr::{memchr, memmem};
use smallvec::SmallVec;

use super::event::{Event, LookedAt, look_at_object, read_row};
use super::line::ROW_START;
use super::passed::{LONGEST_NAME, Rollout, kind_of, matters, word};
use crate::count::{Counting, Name, Seen, Sifted, Table};
use crate::json::{Reader, Text};
use crate::lines::{LOOKAHEAD, NextStop, Spelling};
use crate::pack::{Pack, Packer, Unpacker};
use crate::row::{LineText, Piece, RowRef, Unreadable};
use crate::time::parse_ms;

/// How Codex writes its rollouts, for those who count every row: one that is passed over counts as readable if it ends as a
/// row does, and is read if it does not. Passed over are also items of a type that does not matter, where that stands in its
/// own exact spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EveryRow;

impl Spelling for EveryRow {
    const ROW_START: &'static [u8] = ROW_START;
    const LOOKAHEAD: usize = LOOKAHEAD;
    const NEXT_STOP: NextStop = Rollout::NEXT_STOP;

    fn is_passed_over(start: &[u8]) -> bool {
        Self::sift(start).is_some()
    }

    fn may_end_in(last: u8) -> bool {
        last == b'}'
    }
}

/// What one row does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// What it does to the turns, if it matters to them.
    pub event: Option<Event>,
    /// What else a `session_meta` says.
    pub origin: Option<Box<Origin>>,
}

/// Where a thread comes from, as far as its `session_meta` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The version of the program that wrote the row.
    pub writer: Option<String>,
    /// The thread at the root of its tree of agents; often it is that itself.
    pub tree: Option<String>,
    /// The thread that began it as its sub-agent.
    pub parent: Option<String>,
}

impl Pack for Origin {
    fn pack(&self, packer: &mut Packer) {
        [&self.writer, &self.tree, &self.parent].into_iter().for_each(|text| text.pack(packer));
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self {
            writer: Option::unpack(unpacker)?,
            tree: Option::unpack(unpacker)?,
            parent: Option::unpack(unpacker)?,
        })
    }
}

const KNOWN: [&str; 35] = [
    "(header)",
    "compacted",
    "event_msg/agent_message",
    "event_msg/agent_reasoning",
    "event_msg/context_compacted",
    "event_msg/entered_review_mode",
    "event_msg/exec_command_end",
    "event_msg/exited_review_mode",
    "event_msg/item_completed",
    "event_msg/patch_apply_end",
    "event_msg/task_complete",
    "event_msg/task_started",
    "event_msg/thread_rolled_back",
    "event_msg/thread_settings_applied",
    "event_msg/token_count",
    "event_msg/turn_aborted",
    "event_msg/turn_complete",
    "event_msg/turn_started",
    "event_msg/user_message",
    "function_call",
    "function_call_output",
    "message",
    "reasoning",
    "record_type/state",
    "response_item/custom_tool_call",
    "response_item/custom_tool_call_output",
    "response_item/function_call",
    "response_item/function_call_output",
    "response_item/ghost_snapshot",
    "response_item/message",
    "response_item/reasoning",
    "session_meta",
    "token_usage_record",
    "turn_context",
    "world_state",
];

impl Counting for EveryRow {
    type Row = Looked;

    fn table() -> &'static Table {
        static TABLE: LazyLock<Table> = LazyLock::new(|| Table::of(&KNOWN));
        &TABLE
    }

    fn sift(start: &[u8]) -> Option<Sifted<'_>> {
        let Spelled { name, known, behind } = Spelled::read(start)?;
        if name.row == b"event_msg" {
            match name.inner {
                b"" => return None,
                b"item_completed" if is_item_of_no_matter(behind) => {}
                inner if matters(inner) => return None,
                _ => {}
            }
        } else if name.row == b"session_meta" {
            return None;
        }
        Some(known.or_else(|| Self::table().find(name)).map_or(Sifted::Unknown(name), Sifted::Known))
    }

    fn time_of(start: &[u8]) -> Option<i64> {
        let time = start.strip_prefix(ROW_START)?;
        parse_ms(str::from_utf8(&time[..memchr(b'"', time)?]).ok()?)
    }

    fn look(line: &[u8], offset: u64, ended: bool, mut each: impl FnMut(Seen<'_, Looked>)) {
        if let Some(Spelled { name, .. }) = Spelled::read(&line[..line.len().min(LOOKAHEAD)])
            && name.row != b"session_meta"
            && let Some((event, len)) = read_row(line)
        {
            let at = RowRef { offset, len: len as u64 };
            return each(Seen::Row { name, at, row: Looked { event, origin: None } });
        }
        let next_row = |bytes: &[u8]| memmem::find(bytes, ROW_START);
        LineText { bytes: line, offset, ended }.for_each_object(next_row, read, |found| {
            match found {
                Piece::Object { value: (named, row), at, .. } => each(Seen::Row { name: named.name(), at, row }),
                // Between the rows of a rollout they are blank.
                Piece::Unreadable(Unreadable::Hole, _) => {}
                Piece::Unreadable(why, at) => each(Seen::Unreadable(why, at.len)),
            }
            true
        });
    }
}

/// The beginning of a row in Codex's own exact spelling.
struct Spelled<'n> {
    name: Name<'n>,
    /// Its number in the table, where it was looked up.
    known: Option<usize>,
    /// What stands behind the name.
    behind: &'n [u8],
}

impl<'n> Spelled<'n> {
    fn read(start: &'n [u8]) -> Option<Self> {
        const PAYLOAD: &[u8] = b"\",\"payload\":{\"type\":\"";
        let kind = kind_of(start)?;
        for row in [&b"response_item"[..], b"event_msg"] {
            if let Some(text) = kind.strip_prefix(row).and_then(|rest| rest.strip_prefix(PAYLOAD)) {
                // Of a name that is known not every byte has to be looked at by itself.
                let len = memchr(b'"', &text[..text.len().min(LONGEST_NAME + 1)])?;
                let name = Name { row, inner: &text[..len] };
                if let Some(known) = EveryRow::table().find(name) {
                    return Some(Self { name, known: Some(known), behind: &text[len + 1..] });
                }
                if let Some((inner, behind)) = word(text) {
                    return Some(Self { name: Name { row, inner }, known: None, behind });
                }
            }
        }
        let (row, behind) = match kind.strip_prefix(b"response_item\"") {
            Some(rest) => (&kind[..b"response_item".len()], rest),
            None => word(kind)?,
        };
        Some(Self { name: Name { row, inner: b"" }, known: None, behind })
    }
}

/// Whether an item of this row, of which this stands behind the type of its payload, is of a type that does not matter.
fn is_item_of_no_matter(behind: &[u8]) -> bool {
    let id = |text: &'_ [u8], key: &[u8]| -> Option<usize> {
        let rest = text.strip_prefix(key)?;
        let len = rest.iter().take(ID).position(|byte| *byte == b'"')?;
        let plain = rest[..len].iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        plain.then_some(key.len() + len + 1)
    };
    let kind = || {
        let behind = &behind[id(behind, b",\"thread_id\":\"")?..];
        let behind = &behind[id(behind, b",\"turn_id\":\"")?..];
        let kind = behind.strip_prefix(b",\"item\":{\"type\":\"")?;
        let len = kind.iter().take(ID).position(|byte| *byte == b'"')?;
        Some(&kind[..len]).filter(|kind| kind.iter().all(u8::is_ascii_alphabetic))
    };
    kind().is_some_and(|kind| !matches!(kind, b"UserMessage" | b"AgentMessage" | b"Plan"))
}

/// No longer text is taken for an id, or for the name of an item's type.
const ID: usize = 64;

/// A name as it is spelled in a row.
struct Named {
    row: SmallVec<[u8; 32]>,
    inner: SmallVec<[u8; 32]>,
}

impl Named {
    fn name(&self) -> Name<'_> {
        Name { row: &self.row, inner: &self.inner }
    }
}

fn read(reader: &mut Reader<'_>) -> Result<(Named, Looked), crate::json::Bad> {
    let mut looked_at = LookedAt::default();
    let event = look_at_object(reader, &mut looked_at)?;
    let bytes = |text: Option<Text<'_>>| text.map_or_else(SmallVec::new, |text| SmallVec::from_slice(&text.name()));
    let (row, inner) = (bytes(looked_at.kind), bytes(looked_at.inner));
    let named = match &row[..] {
        b"event_msg" | b"response_item" => Named { row, inner },
        // Before September 2025 a file began with a row of its own kind, and states had none.
        b"" if looked_at.record_type.is_some() => {
            Named { row: SmallVec::from_slice(b"record_type"), inner: bytes(looked_at.record_type) }
        }
        b"" if looked_at.is_header() => Named { row: SmallVec::from_slice(b"(header)"), inner: SmallVec::new() },
        _ => Named { row, inner: SmallVec::new() },
    };
    let text = |text: Option<Text<'_>>| text.map(|text| text.decode().into_owned()).filter(|text| !text.is_empty());
    let [writer, tree, parent] = [looked_at.writer, looked_at.tree, looked_at.parent].map(text);
    let is_meta = matches!(event, Some(Event::Meta(_)));
    let origin = is_meta.then(|| Box::new(Origin { writer, tree, parent }));
    Ok((named, Looked { event, origin }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn names(line: &str, ended: bool) -> Vec<String> {
        let mut names = Vec::new();
        EveryRow::look(line.as_bytes(), 0, ended, |seen| {
            names.push(match seen {
                Seen::Row { name, .. } => {
                    format!("{}/{}", String::from_utf8_lossy(name.row), String::from_utf8_lossy(name.inner))
                }
                Seen::Unreadable(why, bytes) => format!("{why:?} {bytes}"),
            });
        });
        names
    }

    #[test]
    fn rows_are_called_the_same_however_they_are_spelled() {
        for (row, name) in [
            (
                r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"event_msg","payload":{"type":"task_started"}}"#,
                "event_msg/task_started",
            ),
            (
                r#"{"timestamp":"2026-01-05T10:00:00.000Z","ordinal":3,"type":"response_item","payload":{"type":"reasoning"}}"#,
                "response_item/reasoning",
            ),
            (r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"compacted","payload":{"type":"x"}}"#, "compacted/"),
            (r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"event_msg","payload":null}"#, "event_msg/"),
        ] {
            let respelled = format!(
                " {}",
                row.replace(':', ": ").replace("T10: 00: 00", "T10:00:00").replace("_msg", "\\u005fmsg")
            );
            assert_eq!(names(row, true), [name]);
            assert_eq!(names(&respelled, true), [name], "{respelled}");
        }
        assert_eq!(names(r#"{"record_type":"state"}"#, true), ["record_type/state"]);
        assert_eq!(names(r#"{"id":"x","timestamp":"y","instructions":null,"git":{}}"#, true), ["(header)/"]);
        assert_eq!(names(r#"{"type":7}{} [] 3"#, true), ["/", "/"]);
    }

    #[test]
    fn what_is_passed_over_is_what_a_read_passes_over_and_items_of_no_matter() {
        let event = |more: &str| {
            format!(
                r#"{{"timestamp":"2026-01-05T10:00:00.000Z","ordinal":7,"type":"event_msg","payload":{{"type":{more}"#
            )
        };
        let item = |kind: &str| {
            event(&format!(r#""item_completed","thread_id":"a-1","turn_id":"b_2","item":{{"type":"{kind}","id":"c""#))
        };
        for (row, name) in [
            (item("CommandExecution"), Some("event_msg/item_completed")),
            (item("UserMessage"), None),
            (item("AgentMessage"), None),
            (item("Plan"), None),
            (item("Pl\\u0061n"), None),
            (item("").replace("a-1", "a\\\"1"), None),
            (event(r#""item_completed","turn_id":"b","item":{"type":"CommandExecution""#), None),
            (event(r#""token_count","info""#), Some("event_msg/token_count")),
            (event(r#""future_event","info""#), Some("event_msg/future_event")),
            (event(r#""task_started","turn_id""#), None),
            (event(r#"7"#), None),
            (
                r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"response_item","payload":{"id":1"#.to_owned(),
                Some("response_item"),
            ),
            (r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"session_meta","payload":{"#.to_owned(), None),
            (r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"future","payload":{"#.to_owned(), Some("future")),
        ] {
            let sifted = EveryRow::sift(row.as_bytes()).map(|sifted| match sifted {
                Sifted::Known(n) => EveryRow::table().names()[n].to_owned(),
                Sifted::Unknown(Name { row, inner: b"" }) => String::from_utf8_lossy(row).into_owned(),
                Sifted::Unknown(Name { row, inner }) => {
                    format!("{}/{}", String::from_utf8_lossy(row), String::from_utf8_lossy(inner))
                }
            });
            assert_eq!(sifted.as_deref(), name, "{row}");
            let is_item = name == Some("event_msg/item_completed");
            assert_eq!(Rollout::is_passed_over(row.as_bytes()), name.is_some() && !is_item, "{row}");
        }
    }

    #[test]
    fn what_is_unreadable_is_told_once_for_each_object() {
        let row = r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"compacted","payload":1}"#;
        let cut = &row[..30];
        assert_eq!(names(&format!("{cut}{row}"), true), ["Spliced 30", "compacted/"]);
        assert_eq!(names(&format!("{row}{cut}"), true), ["compacted/", "Broken 30"]);
        assert_eq!(names(&format!("{row}{cut}"), false), ["compacted/"]);
        assert_eq!(names(&format!("\0\0{row}\0"), true), ["compacted/"]);
        assert_eq!(names(&cut.repeat(9), true).len(), 8);
        assert_eq!(names("", true), [""; 0]);
    }

    #[test]
    fn a_meta_tells_where_its_thread_comes_from() {
        for (more, tree, parent) in [
            ("", None, None),
            (r#","session_id":"t","parent_thread_id":"p""#, Some("t"), Some("p")),
            (
                r#","parent_thread_id":"","source":{"subagent":{"thread_spawn":{"parent_thread_id":"q","depth":1}}}"#,
                None,
                Some("q"),
            ),
            (r#","source":{"subagent":"review"}"#, None, None),
        ] {
            let meta = format!(
                r#"{{"timestamp":"2026-01-05T10:00:00.000Z","type":"session_meta","payload":{{"id":"a","cli_version":"0.171.0"{more}}}}}"#
            );
            EveryRow::look(meta.as_bytes(), 0, true, |seen| {
                let Seen::Row { row: Looked { event, origin }, .. } = seen else { panic!("{seen:?}") };
                let origin = origin.unwrap();
                assert_eq!(origin.writer.as_deref(), Some("0.171.0"));
                assert_eq!((origin.tree.as_deref(), origin.parent.as_deref()), (tree, parent), "{more}");
                assert!(matches!(event, Some(Event::Meta(_))));
            });
        }
    }
}
