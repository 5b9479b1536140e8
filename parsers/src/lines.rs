//! Where the rows stand that have to be read: blocks of bytes split at LF, rows told apart by their first bytes.
//!
//! A log of tens of GB holds few rows that matter; this finds them at the speed of memory. A row that begins in the
//! host's own exact spelling with a type that does not matter is passed over: in the rest of its line only the start of
//! another row is looked for, since rows behind one that was left half written are real. Everything else is to be read.
//! What a host's own spelling is, its [`Spelling`] says.
//!
//! Blocks are scanned without knowing what came before them, so that many can be scanned at once; a [`Joiner`] then puts
//! the lines together that cross from block to block.

use std::marker::PhantomData;
use std::ops::Range;

use memchr::{memchr, memchr2};

use crate::codex::{ROW_START, Rollout};

/// How a host writes its rows, as far as a [`Scanner`] has to know it.
pub trait Spelling {
    /// How a row begins that may stand behind another one in its line.
    const ROW_START: &'static [u8];
    /// How many bytes behind a block have to be at hand (fewer at the end of the file): they tell what row begins at its
    /// end.
    const LOOKAHEAD: usize;
    /// The plain search for the next stop.
    const NEXT_STOP: NextStop;

    /// Whether a row that begins so, in the host's own exact spelling, is of a type that does not matter.
    fn is_passed_over(start: &[u8]) -> bool;

    /// Whether a row that ends so can be passed over.
    fn may_end_in(_last: u8) -> bool {
        true
    }
}

/// [`Spelling::LOOKAHEAD`] of Codex.
pub const LOOKAHEAD: usize = 256;

/// What one block holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The end of the line that was under way when the block began: the position of the block's first LF, if it has one.
    head_end: Option<usize>,
    /// A row starts within that head.
    head_marked: bool,
    /// Whether the head's last byte can be that of a row that is passed over; `None` when it has no byte.
    head_whole: Option<bool>,
    /// The lines that begin and end here and have to be read; without their LF.
    lines: Vec<Range<usize>>,
    /// The line that begins here and does not end here.
    tail: Option<Tail>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tail {
    start: usize,
    read: bool,
    /// Whether its last byte here can be that of a row that is passed over.
    whole: bool,
}

impl Block {
    /// The lines that lie wholly in the block and have to be read, as positions in it, without their LF.
    pub fn lines(&self) -> &[Range<usize>] {
        &self.lines
    }

    /// Where the line begins that begins in the block and does not end in it.
    pub fn tail(&self) -> Option<usize> {
        self.tail.map(|tail| tail.start)
    }
}

/// How a [`Scanner`] finds its way: the position of the first stop at or behind `from`, or the length of `bytes`. A stop is
/// an LF, or a place where a row may start. Not all of what looks like one has to be.
pub type NextStop = fn(bytes: &[u8], from: usize) -> usize;

/// What Codex's [`next_stop`] takes for a place where a row may start: a `{` with an `m` four bytes on (or with less than
/// that behind it).
pub const ROW_MARK: (u8, usize, u8) = (ROW_START[0], 4, ROW_START[4]);

/// The plain [`NextStop`] of Codex; a program that knows its processor may have a faster one.
pub fn next_stop(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(found) = memchr2(b'\n', ROW_MARK.0, &bytes[at..]) {
        at += found;
        if bytes[at] == b'\n' || bytes.get(at + ROW_MARK.1).is_none_or(|byte| *byte == ROW_MARK.2) {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

/// Tells which rows are passed over, and sees those that are.
pub trait Sieve {
    /// Whether a row that begins so, in the host's own exact spelling, is of a type that does not matter.
    fn passes(&mut self, start: &[u8]) -> bool;

    /// The row that passed last is passed over, all of its line: this one in the block, without its LF.
    fn passed(&mut self, line: Range<usize>);
}

/// Lets rows pass as the host's spelling says, and does not look at them.
struct Plain<S>(PhantomData<S>);

impl<S: Spelling> Sieve for Plain<S> {
    fn passes(&mut self, start: &[u8]) -> bool {
        S::is_passed_over(start)
    }

    fn passed(&mut self, _line: Range<usize>) {}
}

/// Finds the rows that have to be read: of Codex's rollouts, if nothing else is said.
#[derive(Debug)]
pub struct Scanner<S = Rollout> {
    next_stop: NextStop,
    spelling: PhantomData<S>,
}

impl<S> Clone for Scanner<S> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<S: Spelling> Default for Scanner<S> {
    fn default() -> Self {
        Self::new(S::NEXT_STOP)
    }
}

impl<S: Spelling> Scanner<S> {
    /// A scanner that finds its way so.
    pub fn new(next_stop: NextStop) -> Self {
        Self { next_stop, spelling: PhantomData }
    }

    /// Scans the first `len` bytes of `bytes`; what stands behind them is looked ahead at. `at_line` says that a line
    /// begins at the first byte (the start of the file, or an LF stands in front of it), else one is under way.
    pub fn scan(&self, bytes: &[u8], len: usize, at_line: bool) -> Block {
        self.scan_through(bytes, len, at_line, &mut Plain(PhantomData::<S>))
    }

    /// The same through a sieve, which sees the rows that are passed over.
    pub fn scan_through(&self, bytes: &[u8], len: usize, at_line: bool, sieve: &mut impl Sieve) -> Block {
        let mut block = Block { head_end: None, head_marked: false, head_whole: None, lines: Vec::new(), tail: None };
        let mut start = 0;
        if !at_line {
            let (end, marked) = self.rest(bytes, 0, len);
            (block.head_end, block.head_marked) = (end, marked);
            block.head_whole = bytes[..end.unwrap_or(len)].last().map(|last| S::may_end_in(*last));
            match end {
                Some(end) => start = end + 1,
                None => return block,
            }
        }
        while start < len {
            let passed = sieve.passes(&bytes[start..bytes.len().min(start + S::LOOKAHEAD)]);
            let (end, read) = if passed {
                self.rest(bytes, start + 1, len)
            } else {
                (memchr(b'\n', &bytes[start..len]).map(|end| start + end), true)
            };
            let whole = bytes[start..end.unwrap_or(len)].last().is_none_or(|last| S::may_end_in(*last));
            match end {
                Some(end) if read || !whole => block.lines.push(start..end),
                Some(end) => sieve.passed(start..end),
                None => block.tail = Some(Tail { start, read, whole }),
            }
            start = end.map_or(len, |end| end + 1);
        }
        block
    }

    /// From `from` on: where the line ends within the block, and whether a row starts before that (within the block).
    fn rest(&self, bytes: &[u8], from: usize, len: usize) -> (Option<usize>, bool) {
        let bytes = &bytes[..bytes.len().min(len + S::ROW_START.len() - 1)];
        let mut at = from;
        loop {
            at = (self.next_stop)(bytes, at);
            match bytes.get(at) {
                Some(b'\n') if at < len => return (Some(at), false),
                Some(_) if at < len && bytes[at..].starts_with(S::ROW_START) => break,
                Some(_) if at < len => at += 1,
                _ => return (None, false),
            }
        }
        // The line will be read; of it only the end is still to be found.
        (memchr(b'\n', &bytes[at..len]).map(|end| at + end), true)
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

/// A line that crosses from block to block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crossed {
    /// Where it stands.
    pub line: Line,
    /// Whether it has to be read.
    pub read: bool,
    /// Whether it ends as a row that is passed over does.
    pub whole: bool,
}

/// Joins the lines that cross from block to block; blocks are given in order.
#[derive(Debug, Default)]
pub struct Joiner {
    /// Where the next block begins.
    at: u64,
    under_way: Option<UnderWay>,
}

/// A line that has not come to its end yet.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    start: u64,
    read: bool,
    whole: bool,
}

impl Joiner {
    /// Begins at the start of a line, at this offset of the file.
    pub fn at(offset: u64) -> Self {
        Self { at: offset, under_way: None }
    }

    /// Takes the next block, of `len` bytes, and gives the line that came to its end in it if that has to be read. It
    /// stands in front of all [`Block::lines`].
    pub fn join(&mut self, block: &Block, len: usize) -> Option<Line> {
        self.cross(block, len).filter(|crossed| crossed.read).map(|crossed| crossed.line)
    }

    /// The same, but also gives a line that does not have to be read.
    pub fn cross(&mut self, block: &Block, len: usize) -> Option<Crossed> {
        let base = self.at;
        self.at += len as u64;
        let mut crossed = None;
        if let Some(line) = &mut self.under_way {
            line.read = line.read || block.head_marked;
            line.whole = block.head_whole.unwrap_or(line.whole);
            let end = base + block.head_end? as u64;
            crossed = Some(Crossed {
                line: Line { span: line.start..end, ended: true },
                read: line.read || !line.whole,
                whole: line.whole,
            });
        }
        self.under_way =
            block.tail.map(|Tail { start, read, whole }| UnderWay { start: base + start as u64, read, whole });
        crossed
    }

    /// Where the line begins that the last block left unfinished, if it has to be read when it ends here.
    pub fn unfinished(&self) -> Option<u64> {
        self.under_way.filter(|line| line.read).map(|line| line.start)
    }

    /// Where the line begins that the last block left unfinished, whether it has to be read or not.
    pub fn under_way(&self) -> Option<u64> {
        self.under_way.map(|line| line.start)
    }

    /// Just past the last LF: where the line begins that is under way, or the next one.
    pub fn line_start(&self) -> u64 {
        self.under_way().unwrap_or(self.at)
    }

    /// The unterminated line at the end of the file, if it has to be read.
    pub fn finish(self) -> Option<Line> {
        self.finish_crossing().filter(|crossed| crossed.read).map(|crossed| crossed.line)
    }

    /// The unterminated line at the end of the file, whether it has to be read or not.
    pub fn finish_crossing(self) -> Option<Crossed> {
        let UnderWay { start, read, whole } = self.under_way?;
        Some(Crossed { line: Line { span: start..self.at, ended: false }, read, whole })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use memchr::memmem;

    /// Longer than any stride.
    const LONG: usize = 16 << 10;
    const PASSED: &str =
        r#"{"timestamp":"2026-01-05T10:00:00.000Z","type":"response_item","payload":{"type":"reasoning"}}"#;
    const READ: &str =
        r#"{"timestamp":"2026-01-05T10:00:00.000Z","ordinal":1,"type":"event_msg","payload":{"type":"task_started"}}"#;

    #[test]
    fn no_stop_is_missed() {
        let text = [&"x{y:z".repeat(50), "\n", PASSED, &"{time".repeat(40), "{", PASSED, "\n{\"t", "\n"].concat();
        let text = text.as_bytes();
        let stops: Vec<_> =
            (0..text.len()).filter(|at| text[*at] == b'\n' || text[*at..].starts_with(ROW_START)).collect();
        for from in 0..=text.len() {
            let found = next_stop(text, from);
            let next = stops.iter().copied().find(|stop| *stop >= from).unwrap_or(text.len());
            assert!((from..=next).contains(&found), "from {from}: {found} is behind {next}");
            assert!(found == text.len() || matches!(text[found], b'\n' | b'{'), "from {from}: {found} is no stop");
        }
    }

    /// The lines to be read of `text`, found in blocks of `size` bytes.
    fn found(text: &[u8], size: usize) -> Vec<(Vec<u8>, bool)> {
        let (scanner, mut joiner, mut lines) = (<Scanner>::default(), Joiner::default(), Vec::new());
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
            !Rollout::is_passed_over(&line[..line.len().min(LOOKAHEAD)])
                || memmem::find(&line[1..], ROW_START).is_some()
        });
        lines
    }

    #[test]
    fn lines_are_the_same_whatever_the_size_of_the_blocks() {
        let spliced = format!("{}{READ}", &PASSED[..70]);
        let long = PASSED.replace("reasoning", &"x".repeat(3 * LONG));
        let text = [
            PASSED,
            READ,
            "",
            &spliced,
            &long,
            &spliced.replace("response", &"r".repeat(2 * LONG)),
            PASSED,
            READ,
            "\r",
            READ,
            PASSED,
        ]
        .join("\n");
        for text in [text.clone(), text + "\n", READ.to_owned(), String::new(), "\n".to_owned(), "\n\n".to_owned()] {
            for size in [1, 2, 13, 14, 15, 97, 255, 256, 257, 1000, LONG - 1, LONG, 1 << 20] {
                assert!(found(text.as_bytes(), size) == naive(text.as_bytes()), "blocks of {size}");
            }
        }
    }
}
