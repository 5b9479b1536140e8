//! The rows that are told by their first bytes not to matter.

use super::line::ROW_START;
use crate::lines::{LOOKAHEAD, NextStop, Spelling, next_stop};

/// How Codex writes its rollouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollout;

impl Spelling for Rollout {
    const ROW_START: &'static [u8] = ROW_START;
    const LOOKAHEAD: usize = LOOKAHEAD;
    const NEXT_STOP: NextStop = next_stop;

    fn is_passed_over(start: &[u8]) -> bool {
        is_passed_over(start)
    }
}

/// A longer name of a type is not known; its row is read.
pub(super) const LONGEST_NAME: usize = 64;

/// Whether a row that begins so, in Codex's own exact spelling, is of a type that does not matter.
///
/// `{"timestamp":"2026-01-05T10:00:00.000Z",["ordinal":7,]"type":"T"`, and for an event `,"payload":{"type":"E"`.
pub(super) fn is_passed_over(start: &[u8]) -> bool {
    let Some(kind) = kind_of(start) else { return false };
    if kind.starts_with(b"response_item\"") {
        return true;
    }
    match word(kind) {
        None | Some((b"session_meta", _)) => false,
        Some((b"event_msg", rest)) => {
            let event = rest.strip_prefix(b",\"payload\":{\"type\":\"").and_then(word);
            event.is_some_and(|(event, _)| !matters(event))
        }
        Some(_) => true,
    }
}

/// What stands behind the quote in front of the row's type.
pub(super) fn kind_of(start: &[u8]) -> Option<&[u8]> {
    const SHAPE: [[u8; 8]; 5] = [*b"{\"timest", *b"amp\":\"00", *b"00-00-00", *b"T00:00:0", *b"0.000Z\","];
    /// Where a digit stands, anything from `0` to `?` does: it cannot end the string.
    const CARE: [u64; 5] = {
        let (mut care, mut word) = ([0; 5], 0);
        while word < 5 {
            let (mut bytes, mut n) = ([0xFF; 8], 0);
            while n < 8 {
                bytes[n] = if SHAPE[word][n] == b'0' { 0xF0 } else { 0xFF };
                n += 1;
            }
            care[word] = u64::from_ne_bytes(bytes);
            word += 1;
        }
        care
    };
    let (shape, rest) = start.split_first_chunk::<40>()?;
    let words = shape.as_chunks::<8>().0.iter().zip(SHAPE).zip(CARE);
    let odd =
        words.fold(0, |odd, ((word, like), care)| odd | (u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(like)) & care);
    if odd != 0 {
        return None;
    }
    let rest = match rest.strip_prefix(b"\"ordinal\":") {
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            rest[digits..].strip_prefix(b",").filter(|_| digits > 0)?
        }
        None => rest,
    };
    rest.strip_prefix(b"\"type\":\"")
}

/// A name of lowercase letters, digits and `_` up to its closing quote, and what follows that.
pub(super) fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let len =
        text.iter().take(LONGEST_NAME).take_while(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')).count();
    (len > 0 && text.get(len) == Some(&b'"')).then(|| (&text[..len], &text[len + 1..]))
}

pub(super) fn matters(event: &[u8]) -> bool {
    matches!(
        event,
        b"task_started"
            | b"turn_started"
            | b"task_complete"
            | b"turn_complete"
            | b"turn_aborted"
            | b"thread_rolled_back"
            | b"user_message"
            | b"agent_message"
            | b"item_completed"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: &str =
        r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"response_item","payload":{"type":"reasoning"}}"#;
    const READ: &str =
        r#"{"timestamp":"2026-01-05T10:00:00.000Z","ordinal":1,"type":"event_msg","payload":{"type":"task_started"}}"#;

    #[test]
    fn rows_of_no_interest_are_passed_over() {
        for (row, passed) in [
            (PASSED, true),
            (READ, false),
            (r#"{"timestamp":"2026-01-05T10:00:00.000Z","ordinal":12,"type":"compacted","payload":{"#, true),
            (r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"event_msg","payload":{"type":"token_count","#, true),
            (
                r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"event_msg","payload":{"info":1,"type":"token_count","#,
                false,
            ),
            (r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"event_msg","payload":null"#, false),
            (r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"session_meta""#, false),
            (r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"turn_con"#, false),
            (r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"event\u005fmsg","#, false),
            (r#"{"timestamp":"2026-01-05T10:00:00Z","type":"compacted","#, false),
            (r#"{"timestamp":"","a":"..............","type":"compacted","#, false),
            (r#"{"timestamp": "2026-01-05T10:00:00.000Z","type":"compacted","#, false),
            (r#" {"timestamp":"2026-01-05T10:00:00.000Z","type":"compacted","#, false),
            ("", false),
        ] {
            assert_eq!(is_passed_over(row.as_bytes()), passed, "{row}");
        }
    }
}
