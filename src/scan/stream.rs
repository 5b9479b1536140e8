//! A rollout read block by block: one row besides a block is all that is held of it.

use std::io::{self, Read};

use throughline_parsers::codex::{MissingRow, RowRef, read_line};
use throughline_parsers::lines::{Joiner, LOOKAHEAD, Line};

use super::buffer::{Buffer, lend};
use super::parts::{lines_of, within};
use super::reading::{Contents, Reading, State, first_object_of, printed};
use super::stops;

/// How much is read at once where a file is not mapped.
const BLOCK: usize = 256 << 10;

/// What a stream is read from: bytes that can be had again.
pub trait Source {
    /// A stream of them.
    type Stream: Read;

    /// The bytes from this offset on.
    ///
    /// # Errors
    /// They cannot be had.
    fn open(&self, offset: u64) -> io::Result<Self::Stream>;

    /// A row that was read earlier, if it can still be had.
    fn row(&self, at: RowRef) -> Option<Vec<u8>>;

    /// How many bytes there can be behind an offset, if that is known.
    fn most_behind(&self, offset: u64) -> Option<u64>;
}

/// Of so few bytes all rows are kept while they are read.
const FEW: u64 = 1 << 20;

/// Reads a rollout on from a state, through a buffer that holds at most one row besides a block.
///
/// # Errors
/// The stream's.
pub fn streamed(source: &impl Source, mut state: State) -> io::Result<Result<Contents, MissingRow>> {
    lend(|buffer| {
        if state.first.is_none() {
            state.first = first_object_of(&mut source.open(0)?, buffer)?;
        }
        let few = source.most_behind(state.offset).is_some_and(|bytes| bytes <= FEW);
        if !few && let Some(contents) = Stream::new(source, &state, Keep::RowsToRead, buffer)?.read(state.clone())? {
            return Ok(contents);
        }
        let contents = Stream::new(source, &state, Keep::AllRows, buffer)?.read(state)?;
        contents.ok_or_else(|| io::Error::other("a row that was kept is not there"))
    })
}

/// What of a row that crosses the end of a block stays in the buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// A row that is passed over is let go. Should another row start within it, the stream has to be read once more.
    RowsToRead,
    /// Every row.
    AllRows,
}

struct Stream<'s, S: Source> {
    source: &'s S,
    bytes: S::Stream,
    buffer: &'s mut Buffer,
    keep: Keep,
    /// Where the buffer begins in the stream.
    start: u64,
    /// How much is read at once.
    block: usize,
}

impl<'s, S: Source> Stream<'s, S> {
    fn new(source: &'s S, state: &State, keep: Keep, buffer: &'s mut Buffer) -> io::Result<Self> {
        buffer.clear();
        let most = source.most_behind(state.offset).and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = source.open(state.offset)?;
        Ok(Self { source, bytes, buffer, keep, start: state.offset, block: most.map_or(BLOCK, |most| most.min(BLOCK)) })
    }

    /// Reads to the end; `None` when a row had been let go that has to be read.
    fn read(mut self, state: State) -> io::Result<Option<Result<Contents, MissingRow>>> {
        let (scanner, mut joiner, mut at_line) = (stops::scanner(), Joiner::at(state.offset), true);
        let mut reading = Reading::from(state);
        // How much of the buffer has been scanned.
        let mut scanned = 0;
        loop {
            let more = self.buffer.fill(&mut self.bytes, scanned + self.block + LOOKAHEAD)?;
            let bytes = self.buffer.bytes();
            let len = bytes.len() - scanned - if more { LOOKAHEAD } else { 0 };
            let block = scanner.scan(&bytes[scanned..], len, at_line);
            let crossed = joiner.join(&block, len);
            if crossed.as_ref().is_some_and(|line| line.span.start < self.start) {
                return Ok(None);
            }
            for line in crossed.into_iter().chain(lines_of(&block, self.start + scanned as u64)) {
                let rows = read_line(self.bytes_of(&line), line.span.start, true);
                for row in printed(rows, self.bytes_of(&line), line.span.start) {
                    reading.apply(&row, |at| self.row(&line, at));
                }
            }
            scanned += len;
            at_line = self.buffer.bytes()[..scanned].last().map_or(at_line, |byte| *byte == b'\n');
            if !more {
                break;
            }
            let kept = match self.keep {
                Keep::RowsToRead => joiner.unfinished(),
                Keep::AllRows => joiner.under_way(),
            };
            let done = kept.map_or(scanned, |kept| (kept.max(self.start) - self.start) as usize);
            self.buffer.drop_first(done);
            self.start += done as u64;
            scanned -= done;
        }
        let offset = joiner.line_start();
        Ok(match joiner.finish() {
            Some(last) if last.span.start < self.start => None,
            Some(last) => {
                let rows = read_line(self.bytes_of(&last), last.span.start, false);
                Some(reading.finish(offset, rows, |at| self.row(&last, at)))
            }
            None => Some(reading.finish(offset, None, |_| None::<&[u8]>)),
        })
    }

    fn bytes_of(&self, line: &Line) -> &[u8] {
        &self.buffer.bytes()[within(&line.span, self.start)]
    }

    /// A row of this line, or one that was read before the state was left that this reading began with.
    fn row(&self, line: &Line, at: RowRef) -> Option<RowBytes<'_>> {
        match at.offset >= line.span.start {
            true => Some(RowBytes::Here(&self.buffer.bytes()[within(&at.span(), self.start)])),
            false => self.source.row(at).map(RowBytes::Again),
        }
    }
}

enum RowBytes<'b> {
    Here(&'b [u8]),
    Again(Vec<u8>),
}

impl AsRef<[u8]> for RowBytes<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Here(bytes) => bytes,
            Self::Again(bytes) => bytes,
        }
    }
}
