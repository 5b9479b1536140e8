//! Where the rows stand that have to be read: blocks of bytes split at LF, rows told apart by their first bytes.
//!
//! A rollout of tens of GB holds few rows that matter; this finds them at the speed of memory. A row that begins in the
//! host's own exact spelling with a type that does not matter is passed over: in the rest of its line only the start of
//! another row is looked for, window by window while the bytes are in the cache, since completions behind a row that was
//! left half written are real. Everything else is to be read.
//!
//! Blocks are scanned without knowing what came before them, so that many can be scanned at once; a [`Joiner`] then puts
//! the lines together that cross from block to block.

use std::ops::Range;

use memchr::{memchr, memmem};

use crate::codex::ROW_START;

/// How many bytes behind a block have to be at hand (fewer at the end of the file): they tell what row begins at its end.
pub const LOOKAHEAD: usize = 256;
/// A row's line feed and the starts of other rows are looked for in windows of this size, so that the second look finds
/// the bytes in the first cache.
const WINDOW: usize = 16 << 10;

/// What one block holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The end of the line that was under way when the block began: the position of the block's first LF, if it has one.
    head_end: Option<usize>,
    /// A row starts within that head.
    head_marked: bool,
    /// The lines that begin and end here and have to be read; without their LF.
    lines: Vec<Range<usize>>,
    /// The line that begins here and does not end here.
    tail: Option<Tail>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tail {
    start: usize,
    read: bool,
}

impl Block {
    /// The lines that lie wholly in the block and have to be read, as positions in it, without their LF.
    pub fn lines(&self) -> &[Range<usize>] {
        &self.lines
    }
}

/// Finds the rows of Codex rollouts that have to be read.
#[derive(Debug, Clone)]
pub struct Scanner {
    row_start: memmem::Finder<'static>,
}

impl Default for Scanner {
    fn default() -> Self {
        Self { row_start: memmem::Finder::new(ROW_START) }
    }
}

impl Scanner {
    /// Scans the first `len` bytes of `bytes`; what stands behind them is looked ahead at. `at_line` says that a line
    /// begins at the first byte (the start of the file, or an LF stands in front of it), else one is under way.
    pub fn scan(&self, bytes: &[u8], len: usize, at_line: bool) -> Block {
        let mut block = Block { head_end: None, head_marked: false, lines: Vec::new(), tail: None };
        let mut start = 0;
        if !at_line {
            let (end, marked) = self.rest(bytes, 0, len);
            (block.head_end, block.head_marked) = (end, marked);
            match end {
                Some(end) => start = end + 1,
                None => return block,
            }
        }
        while start < len {
            let passed = is_passed_over(&bytes[start..bytes.len().min(start + LOOKAHEAD)]);
            let (end, read) = if passed {
                self.rest(bytes, start + 1, len)
            } else {
                (memchr(b'\n', &bytes[start..len]).map(|end| start + end), true)
            };
            match end {
                Some(end) if read => block.lines.push(start..end),
                Some(_) => {}
                None => block.tail = Some(Tail { start, read }),
            }
            start = end.map_or(len, |end| end + 1);
        }
        block
    }

    /// From `from` on: where the line ends within the block, and whether a row starts before that (within the block).
    fn rest(&self, bytes: &[u8], mut from: usize, len: usize) -> (Option<usize>, bool) {
        let mut marked = false;
        while from < len {
            let window = len.min(from + WINDOW);
            let end = memchr(b'\n', &bytes[from..window]).map(|end| from + end);
            let stop = end.unwrap_or(bytes.len().min(window + ROW_START.len() - 1));
            marked = marked || self.row_start.find(&bytes[from..stop]).is_some();
            if end.is_some() {
                return (end, marked);
            }
            from = window;
        }
        (None, marked)
    }
}

/// A line that has to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where it stands in the file, without its LF.
    pub span: Range<u64>,
    /// Whether its LF is there.
    pub ended: bool,
}

/// Joins the lines that cross from block to block; blocks are given in order.
#[derive(Debug, Default)]
pub struct Joiner {
    /// Where the next block begins.
    at: u64,
    under_way: Option<(u64, bool)>,
}

impl Joiner {
    /// Takes the next block, of `len` bytes, and gives the line that came to its end in it if that has to be read. It
    /// stands in front of all [`Block::lines`].
    pub fn join(&mut self, block: &Block, len: usize) -> Option<Line> {
        let base = self.at;
        self.at += len as u64;
        let mut crossed = None;
        if let Some((start, read)) = self.under_way {
            let read = read || block.head_marked;
            self.under_way = Some((start, read));
            let Some(end) = block.head_end else { return None };
            crossed = read.then(|| Line { span: start..base + end as u64, ended: true });
        }
        self.under_way = block.tail.map(|tail| (base + tail.start as u64, tail.read));
        crossed
    }

    /// Where the line begins that the last block left unfinished, if it has to be read when it ends here.
    pub fn unfinished(&self) -> Option<u64> {
        self.under_way.filter(|(_, read)| *read).map(|(start, _)| start)
    }

    /// Where the line begins that the last block left unfinished, whether it has to be read or not.
    pub fn under_way(&self) -> Option<u64> {
        self.under_way.map(|(start, _)| start)
    }

    /// The unterminated line at the end of the file, if it has to be read.
    pub fn finish(self) -> Option<Line> {
        self.unfinished().map(|start| Line { span: start..self.at, ended: false })
    }
}

/// Whether a row that begins so, in Codex's own exact spelling, is of a type that does not matter.
///
/// `{"timestamp":"2026-01-05T10:00:00.000Z",["ordinal":7,]"type":"T"`, and for an event `,"payload":{"type":"E"`.
fn is_passed_over(start: &[u8]) -> bool {
    kind_of(start).is_some_and(|(kind, rest)| match kind {
        b"session_meta" => false,
        b"event_msg" => {
            rest.strip_prefix(b",\"payload\":{\"type\":\"").and_then(word).is_some_and(|(event, _)| !matters(event))
        }
        _ => true,
    })
}

fn kind_of(start: &[u8]) -> Option<(&[u8], &[u8])> {
    const TIME: usize = "2026-01-05T10:00:00.000Z".len();
    let (time, rest) = start.strip_prefix(ROW_START)?.split_at_checked(TIME)?;
    let plain = time.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b':' | b'.' | b'T' | b'Z'));
    let rest = rest.strip_prefix(b"\",").filter(|_| plain)?;
    let rest = match rest.strip_prefix(b"\"ordinal\":") {
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            rest[digits..].strip_prefix(b",").filter(|_| digits > 0)?
        }
        None => rest,
    };
    rest.strip_prefix(b"\"type\":\"").and_then(word)
}

/// A name of lowercase letters, digits and `_` up to its closing quote, and what follows that.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = text.iter().take_while(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')).count();
    (len > 0 && text.get(len) == Some(&b'"')).then(|| (&text[..len], &text[len + 1..]))
}

fn matters(event: &[u8]) -> bool {
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
    #![allow(clippy::unwrap_used)]
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

    /// The lines to be read of `text`, found in blocks of `size` bytes.
    fn found(text: &[u8], size: usize) -> Vec<(Vec<u8>, bool)> {
        let (scanner, mut joiner, mut lines) = (Scanner::default(), Joiner::default(), Vec::new());
        for base in (0..text.len()).step_by(size) {
            let len = size.min(text.len() - base);
            let block = scanner.scan(
                &text[base..text.len().min(base + len + LOOKAHEAD)],
                len,
                base == 0 || text[base - 1] == b'\n',
            );
            lines.extend(joiner.join(&block, len));
            lines.extend(
                block
                    .lines()
                    .iter()
                    .map(|line| Line { span: (base + line.start) as u64..(base + line.end) as u64, ended: true }),
            );
        }
        lines.extend(joiner.finish());
        lines
            .into_iter()
            .map(|line| (text[line.span.start as usize..line.span.end as usize].to_vec(), line.ended))
            .collect()
    }

    /// The same, one line after the other.
    fn naive(text: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let mut lines: Vec<_> = text.split(|byte| *byte == b'\n').map(|line| (line.to_vec(), true)).collect();
        lines.last_mut().unwrap().1 = false;
        if lines.last().unwrap().0.is_empty() {
            lines.pop();
        }
        lines.retain(|(line, _)| {
            !is_passed_over(&line[..line.len().min(LOOKAHEAD)]) || memmem::find(&line[1..], ROW_START).is_some()
        });
        lines
    }

    #[test]
    fn lines_are_the_same_whatever_the_size_of_the_blocks() {
        let spliced = format!("{}{READ}", &PASSED[..70]);
        let long = PASSED.replace("reasoning", &"x".repeat(3 * WINDOW));
        let text = [
            PASSED,
            READ,
            "",
            &spliced,
            &long,
            &spliced.replace("response", &"r".repeat(2 * WINDOW)),
            PASSED,
            READ,
            "\r",
            READ,
            PASSED,
        ]
        .join("\n");
        for text in [text.clone(), text + "\n", READ.to_owned(), String::new(), "\n".to_owned(), "\n\n".to_owned()] {
            for size in [1, 2, 13, 14, 15, 97, 255, 256, 257, 1000, WINDOW - 1, WINDOW, 1 << 20] {
                assert!(found(text.as_bytes(), size) == naive(text.as_bytes()), "blocks of {size}");
            }
        }
    }
}
