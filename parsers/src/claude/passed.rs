//! The rows that are told by their first bytes not to matter.

use std::sync::LazyLock;

use memchr::memchr;
use memchr::memmem::Finder;

use crate::json::plain_len;
use crate::lines::{NextStop, Spelling};

/// How a row begins that has a place in the conversation.
pub(super) const ROW_START: &[u8] = b"{\"parentUuid\":";
/// How a row begins that has none. Objects within rows begin so, too.
pub(super) const TYPE_START: &[u8] = b"{\"type\":";

/// How Claude writes its transcripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transcript;

impl Spelling for Transcript {
    const ROW_START: &'static [u8] = ROW_START;
    /// In front of the type stand a folder, a branch, two ids. Where they are longer the row is read.
    const LOOKAHEAD: usize = 1024;
    const NEXT_STOP: NextStop = next_stop;

    /// `{"parentUuid":…,"isSidechain":false,…,"type":"T",` or `{"type":"T",`: members that are no objects or arrays, up to
    /// the type.
    fn is_passed_over(start: &[u8]) -> bool {
        passed_over(start).is_some()
    }

    /// A row that was cut ends otherwise, mostly.
    fn may_end_in(last: u8) -> bool {
        last == b'}'
    }
}

/// The type of a row that begins so, if that does not matter.
pub(super) fn passed_over(start: &[u8]) -> Option<&[u8]> {
    if !start.starts_with(ROW_START) && !start.starts_with(TYPE_START) {
        return None;
    }
    kind_of(&start[1..]).filter(|kind| !matches!(*kind, b"user" | b"assistant" | b"attachment"))
}

/// Each line is gone through twice, while it is in the cache: what makes a row's start is too common in a transcript, and
/// the whole of it too rare, to look for one byte of it.
fn next_stop(bytes: &[u8], from: usize) -> usize {
    static ROW: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(ROW_START));
    let rest = &bytes[from..];
    let line = memchr(b'\n', rest).unwrap_or(rest.len());
    from + ROW.find(&rest[..line]).unwrap_or(line)
}

/// The name that the member `type` has, if only plain members stand in front of it.
fn kind_of(members: &[u8]) -> Option<&[u8]> {
    let mut rest = members;
    loop {
        let (key, value) = string(rest)?;
        let value = value.strip_prefix(b":")?;
        if key == b"type" {
            let (kind, behind) = string(value)?;
            let is_name =
                !kind.is_empty() && kind.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
            return (is_name && matches!(behind.first(), Some(b',' | b'}'))).then_some(kind);
        }
        rest = behind_plain(value)?.strip_prefix(b",")?;
    }
}

/// The text of a string without escapes, and what stands behind it.
fn string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let len = plain_len(text);
    (text.get(len) == Some(&b'"')).then(|| (&text[..len], &text[len + 1..]))
}

/// What stands behind a string, a number or a word.
fn behind_plain(value: &[u8]) -> Option<&[u8]> {
    if let Some((_, behind)) = string(value) {
        return Some(behind);
    }
    let len =
        value.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')).count();
    let (plain, behind) = value.split_at(len);
    let number = plain.iter().all(|byte| byte.is_ascii_digit());
    (matches!(plain, b"true" | b"false" | b"null") || (number && len > 0)).then_some(behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::{Joiner, Line, Scanner};
    use memchr::memmem;

    const PROGRESS: &str = r#"{"parentUuid":"fc816c02-6c06-4e23-8efb-709af755ee9f","isSidechain":false,"userType":"external","cwd":"/work/äpp","sessionId":"s","version":"2.1.30","gitBranch":"HEAD","slug":"a-b","type":"progress","data":{"type":"hook_progress"}}"#;
    const USER: &str =
        r#"{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":"ask"}}"#;

    #[test]
    fn rows_of_no_interest_are_passed_over() {
        for (row, passed) in [
            (PROGRESS, true),
            (USER, false),
            (r#"{"type":"queue-operation","operation":"#, true),
            (r#"{"type":"mode"}"#, true),
            (r#"{"type":"user","message":"#, false),
            (r#"{"parentUuid":null,"logicalParentUuid":"x","n":12,"type":"system","#, true),
            (r#"{"parentUuid":null,"isSidechain":false,"message":{"id":"m","type":"message","#, false),
            (r#"{"parentUuid":null,"isSidechain":false,"attachment":{"type":"file","#, false),
            (r#"{"parentUuid":null,"isSidechain":false,"type":"attachment","#, false),
            (r#"{"parentUuid":"cut,"data":{"message":{"type":"assistant","#, false),
            (r#"{"parentUuid":"cut{"parentUuid":null,"type":"progress","#, false),
            ("{\"parentUuid\":\"cut\n{\"parentUuid\":null,\"type\":\"progress\",", false),
            (r#"{"parentUuid":"a\\","type":"progress","#, false),
            (r#"{"parentUuid":nulL,"type":"progress","#, false),
            (r#"{"parentUuid":,"type":"progress","#, false),
            (r#"{"parentUuid": null,"type":"progress","#, false),
            (r#"{"parentUuid":null,"type":"Progress","#, false),
            (r#"{"parentUuid":null,"type":"progress""#, false),
            (r#"{"parentUuid":null,"type":"pro"#, false),
            (r#"{"uuid":"x","parentUuid":null,"type":"progress","#, false),
            (r#" {"type":"progress","#, false),
            ("", false),
        ] {
            assert_eq!(Transcript::is_passed_over(row.as_bytes()), passed, "{row}");
        }
    }

    /// The lines to be read of `text`, found in blocks of `size` bytes.
    fn found(text: &[u8], size: usize) -> Vec<Line> {
        let (scanner, mut joiner, mut lines) = (Scanner::<Transcript>::default(), Joiner::default(), Vec::new());
        for base in (0..text.len()).step_by(size) {
            let len = size.min(text.len() - base);
            let bytes = &text[base..text.len().min(base + len + Transcript::LOOKAHEAD)];
            let block = scanner.scan(bytes, len, base == 0 || text[base - 1] == b'\n');
            lines.extend(joiner.join(&block, len));
            let at = |position: usize| (base + position) as u64;
            let spans = block.lines().iter().map(|line| Line { span: at(line.start)..at(line.end), ended: true });
            lines.extend(spans);
        }
        lines.extend(joiner.finish());
        lines
    }

    /// The same, one line after the other.
    fn naive(text: &[u8]) -> Vec<Line> {
        let (mut lines, mut start) = (Vec::new(), 0);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let row = line.strip_suffix(b"\n").unwrap_or(line);
            let ended = row.len() < line.len();
            let passed = Transcript::is_passed_over(&row[..row.len().min(Transcript::LOOKAHEAD)])
                && memmem::find(&row[1..], ROW_START).is_none()
                && (row.ends_with(b"}") || !ended);
            if !passed {
                lines.push(Line { span: start..start + row.len() as u64, ended });
            }
            start += line.len() as u64;
        }
        lines
    }

    #[test]
    fn lines_are_the_same_whatever_the_size_of_the_blocks() {
        let spliced = format!("{}{USER}", &PROGRESS[..230]);
        let long = PROGRESS.replace("hook_progress", &"x\":{\"parent".repeat(2000));
        let far = PROGRESS.replace("/work", &"/work".repeat(250));
        let cut = &PROGRESS[..PROGRESS.len() - 1];
        let text =
            [PROGRESS, USER, "", &spliced, &long, &far, cut, PROGRESS, &long[..9000], USER, "\r", PROGRESS].join("\n");
        for text in
            [text.clone() + "\n", text.clone() + "\n" + cut, text, USER.to_owned(), String::new(), "\n\n".to_owned()]
        {
            let lines = naive(text.as_bytes());
            for size in [1, 2, 12, 13, 14, 97, 1000, 1023, 1024, 1025, 1 << 20] {
                assert_eq!(found(text.as_bytes(), size), lines, "blocks of {size}");
            }
        }
    }
}
