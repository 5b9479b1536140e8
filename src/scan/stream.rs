//! A rollout read block by block: one row besides a block is all that is held of it.

use std::io::{self, Read};

use throughline_parsers::codex::{Turns, read_line};
use throughline_parsers::lines::{Joiner, LOOKAHEAD, Line};

use super::buffer::Buffer;
use super::parts::{lines_of, within};
use super::reading::{Contents, Reading, first_object_of};
use super::stops;

/// How much is read at once where a file is not mapped.
const BLOCK: usize = 256 << 10;

/// Reads a rollout from a stream, which `open` opens at its start, through `buffer`, which then holds at most one row
/// besides a block.
///
/// # Errors
/// The stream's.
pub fn streamed<R: Read>(open: impl Fn() -> io::Result<R>, turns: &Turns, buffer: &mut Buffer) -> io::Result<Contents> {
    let first = first_object_of(&mut open()?, buffer)?;
    for keep in [Keep::RowsToRead, Keep::AllRows] {
        let mut reading = Reading::begin(first.clone(), turns);
        let whole = Stream { bytes: open()?, buffer, keep }.read(|line, span| {
            for row in read_line(line, span.span.start, span.ended) {
                reading.apply(&row, |at| &line[within(&at.span(), span.span.start)]);
            }
        })?;
        if whole {
            return Ok(reading.finish());
        }
    }
    Err(io::Error::other("a row that was kept is not there"))
}

/// What of a row that crosses the end of a block stays in the buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// A row that is passed over is let go. Should another row start within it, the stream has to be read once more.
    RowsToRead,
    /// Every row.
    AllRows,
}

struct Stream<'b, R> {
    bytes: R,
    buffer: &'b mut Buffer,
    keep: Keep,
}

impl<R: Read> Stream<'_, R> {
    /// Calls `line` with each line that has to be read. False when one of them had been let go.
    fn read(mut self, mut line: impl FnMut(&[u8], Line)) -> io::Result<bool> {
        let (scanner, mut joiner, mut at_line) = (stops::scanner(), Joiner::default(), true);
        // Where the buffer begins in the stream, and how much of it has been scanned.
        let (mut start, mut scanned) = (0, 0);
        self.buffer.clear();
        loop {
            let more = self.buffer.fill(&mut self.bytes, scanned + BLOCK + LOOKAHEAD)?;
            let bytes = self.buffer.bytes();
            let len = bytes.len() - scanned - if more { LOOKAHEAD } else { 0 };
            let block = scanner.scan(&bytes[scanned..], len, at_line);
            let base = start + scanned as u64;
            let crossed = joiner.join(&block, len);
            if crossed.as_ref().is_some_and(|line| line.span.start < start) {
                return Ok(false);
            }
            for found in crossed.into_iter().chain(lines_of(&block, base)) {
                line(&bytes[within(&found.span, start)], found);
            }
            scanned += len;
            at_line = bytes[..scanned].last() == Some(&b'\n');
            if !more {
                break;
            }
            let kept = match self.keep {
                Keep::RowsToRead => joiner.unfinished(),
                Keep::AllRows => joiner.under_way(),
            };
            let done = kept.map_or(scanned, |kept| (kept.max(start) - start) as usize);
            self.buffer.drop_first(done);
            start += done as u64;
            scanned -= done;
        }
        match joiner.finish() {
            Some(last) if last.span.start < start => Ok(false),
            Some(last) => {
                line(&self.buffer.bytes()[within(&last.span, start)], last);
                Ok(true)
            }
            None => Ok(true),
        }
    }
}
