//! The quick way to read a row: a line that is one row, well formed, goes through simd-json.
//!
//! It needs a copy of the line that it may change and refuses some of what still counts, and of equal keys its documents
//! take the first or the last; so only its tape is used, for rows of ordinary size, and whatever it refuses is left to the
//! tolerant reader.

use std::cell::RefCell;

use simd_json::prelude::StaticNode;
use simd_json::{Buffers, Node, Tape};

use super::{Event, Item, Payload, Text};
use crate::json::MAX_WHOLE;

/// Larger rows are not copied.
const MAX_LEN: usize = 1 << 20;

struct Scratch {
    line: Vec<u8>,
    buffers: Buffers,
    tape: Tape<'static>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> =
        RefCell::new(Scratch { line: Vec::new(), buffers: Buffers::default(), tape: Tape(Vec::new()) });
}

/// Reads a line that is one event row: what it does, and the length of its object. `None` where the tolerant reader has to
/// look at it.
pub(in crate::codex) fn read_row(line: &[u8]) -> Option<(Option<Event>, usize)> {
    let row = line.trim_ascii_end();
    if row.first() != Some(&b'{') || row.len() > MAX_LEN {
        return None;
    }
    SCRATCH.with_borrow_mut(|Scratch { line, buffers, tape: memory }| {
        line.clear();
        line.extend_from_slice(row);
        let mut tape = std::mem::replace(memory, Tape(Vec::new())).reset();
        let read = simd_json::fill_tape(line, buffers, &mut tape);
        let event = read.ok().and_then(|()| event_of(&tape.0));
        *memory = tape.reset();
        Some((event?, row.len()))
    })
}

/// The event of a row; the outer `None` leaves it to the tolerant reader.
fn event_of(row: &[Node<'_>]) -> Option<Option<Event>> {
    let (mut kind, mut time, mut payload) = (None, None, None);
    for (key, value) in members(row) {
        match key {
            "type" => kind = string(value),
            "timestamp" => time = string(value),
            "payload" => payload = Some(value),
            _ => {}
        }
    }
    match kind {
        Some("event_msg") => Some(Payload::on_tape(payload.unwrap_or_default()).event(time.map(Text::from))),
        Some("session_meta") => None,
        _ => Some(None),
    }
}

impl<'a> Payload<'a> {
    fn on_tape(value: &[Node<'a>]) -> Self {
        let mut payload = Self::default();
        for (key, value) in members(value) {
            let text = || string(value).map(Text::from);
            match key {
                "type" => payload.kind = text(),
                "turn_id" => payload.turn_id = text(),
                "message" => payload.message = text(),
                "last_agent_message" => payload.last_agent_message = text(),
                "item" => payload.item = is_object(value).then(|| Item::on_tape(value)),
                "error" => payload.error = is_object(value),
                "num_turns" => payload.num_turns = whole(value),
                "completed_at" => payload.completed_at = whole(value),
                _ => {}
            }
        }
        payload
    }
}

impl<'a> Item<'a> {
    fn on_tape(value: &[Node<'a>]) -> Self {
        let mut item = Self::default();
        for (key, value) in members(value) {
            match key {
                "type" => item.kind = string(value).map(Text::from),
                "text" => item.text = string(value).map(Text::from),
                "content" => item.content = elements(value).filter_map(text_of).map(Text::from).collect(),
                _ => {}
            }
        }
        item
    }
}

/// The `text` of a part of the content, if that is a string.
fn text_of<'a>(part: &[Node<'a>]) -> Option<&'a str> {
    members(part).filter(|(key, _)| *key == "text").last().and_then(|(_, value)| string(value))
}

/// The members of an object; of any other value none. A value is its node and all nodes in it.
fn members<'t, 'a>(value: &'t [Node<'a>]) -> impl Iterator<Item = (&'a str, &'t [Node<'a>])> {
    let mut rest = if is_object(value) { &value[1..] } else { &[] };
    std::iter::from_fn(move || {
        let (key, behind) = rest.split_first()?;
        let value = first_value(behind)?;
        rest = &behind[value.len()..];
        Some((string(std::slice::from_ref(key))?, value))
    })
}

/// The elements of an array; of any other value none.
fn elements<'t, 'a>(value: &'t [Node<'a>]) -> impl Iterator<Item = &'t [Node<'a>]> {
    let mut rest = if matches!(value.first(), Some(Node::Array { .. })) { &value[1..] } else { &[] };
    std::iter::from_fn(move || {
        let value = first_value(rest)?;
        rest = &rest[value.len()..];
        Some(value)
    })
}

/// The value that begins here, with all its nodes.
fn first_value<'t, 'a>(nodes: &'t [Node<'a>]) -> Option<&'t [Node<'a>]> {
    let below = match nodes.first()? {
        Node::Object { count, .. } | Node::Array { count, .. } => *count,
        Node::String(_) | Node::Static(_) => 0,
    };
    nodes.get(..=below)
}

fn is_object(value: &[Node<'_>]) -> bool {
    matches!(value.first(), Some(Node::Object { .. }))
}

fn string<'a>(value: &[Node<'a>]) -> Option<&'a str> {
    match value.first() {
        Some(Node::String(text)) => Some(text),
        _ => None,
    }
}

/// A whole number within ±(2^53 − 1), spelled in any way.
fn whole(value: &[Node<'_>]) -> Option<i64> {
    let whole = match value.first()? {
        Node::Static(StaticNode::I64(n)) => *n,
        Node::Static(StaticNode::U64(n)) => i64::try_from(*n).ok()?,
        // The cast is exact: the value is whole and within 2^53.
        Node::Static(StaticNode::F64(n)) if n.fract() == 0.0 && n.abs() <= MAX_WHOLE as f64 => *n as i64,
        _ => return None,
    };
    (-MAX_WHOLE..=MAX_WHOLE).contains(&whole).then_some(whole)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::codex::event::read_object;
    use crate::json::Reader;

    const MEMBERS: [&str; 12] = [
        r#""type":"event_msg""#,
        r#""timestamp":"2026-07-01T00:00:00.000Z""#,
        r#""payload":{"type":"agent_message","message":" a\n\u00e9 \ud83d\ude80 "}"#,
        r#""payload":{"type":"user_message","message":"a","message":"the last key wins"}"#,
        r#""payload":{"type":"task_complete","turn_id":"x","completed_at":1782900000.0,"last_agent_message":null}"#,
        r#""payload":{"type":"task_complete","completed_at":1782900000,"last_agent_message":"m","error":{}}"#,
        r#""payload":{"type":"thread_rolled_back","num_turns":3}"#,
        r#""payload":{"num_turns":-3e0,"type":"thread_rolled_back"}"#,
        r#""payload":{"type":"item_completed","turn_id":"019c0000-0000-7000-8000-000000000001","item":{"content":[{"text":"a"},7,{"text":1},[{"text":"no"}],{"text":"x","text":"b"}],"type":"UserMessage"}}"#,
        r#""payload":{"type":"item_completed","item":{"type":"Plan","text":"p","content":{"text":"no"}}}"#,
        r#""payload":[{"type":"task_started"}]"#,
        r#""extra":{"a":[[],{},[{"type":"turn_aborted"}]],"type":"session_meta"}"#,
    ];

    /// What the tolerant reader makes of a row.
    fn tolerant(row: &str) -> Option<Event> {
        read_object(&mut Reader::new(row.as_bytes(), 0)).unwrap()
    }

    #[test]
    fn the_quick_reader_reads_what_the_tolerant_one_reads() {
        for first in MEMBERS {
            for second in MEMBERS {
                for third in MEMBERS {
                    let row = format!("{{{first}, {second} ,{third}}}");
                    assert_eq!(read_row(row.as_bytes()), Some((tolerant(&row), row.len())), "{row}");
                }
            }
        }
    }

    #[test]
    fn what_simd_json_refuses_is_left_to_the_tolerant_reader() {
        let event =
            |text: &str| format!("{{\"type\":\"event_msg\",\"payload\":{{\"type\":\"agent_message\",{text}}}}}");
        for odd in [
            event(r#""message":"lone \ud83d""#),
            event(r#""message":"a","n":1e400"#),
            event(r#""message":"a""#) + "{}",
            "\0".to_owned() + &event(r#""message":"a""#),
            event("\"message\":\"tab\t\""),
            r#"{"type":"session_meta","payload":{"id":"a"}}"#.to_owned(),
            "[]".to_owned(),
            String::new(),
        ] {
            assert_eq!(read_row(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn simd_json_accepts_nothing_that_is_no_json() {
        for bad in [
            "01",
            "-01",
            "1.",
            "1.e5",
            ".5",
            "+1",
            "1e",
            "1e+",
            "-",
            "--1",
            "0x10",
            "1_000",
            "NaN",
            "-Infinity",
            "Infinity",
            "nul",
            "nulll",
            "tru",
            "True",
            "'a'",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\\u12\"",
            "\"a\u{1}\"",
            "\"a",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "{\"a\":}",
            "{a:1}",
            "{,}",
            "{1:2}",
            "[",
            "]",
            "{",
            "[}",
            "1 2",
            "",
            ",",
            "\u{a0}1",
        ] {
            let row = format!("{{\"type\":\"event_msg\",\"n\":{bad}}}");
            assert!(read_object(&mut Reader::new(row.as_bytes(), 0)).is_err(), "{row}");
            assert_eq!(read_row(row.as_bytes()), None, "{row}");
        }
        for bytes in [&b"\xff"[..], b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe6\x87"] {
            let row = [b"{\"type\":\"event_msg\",\"n\":\"", bytes, b"\"}"].concat();
            assert_eq!(read_row(&row), None, "{bytes:?}");
        }
    }
}
