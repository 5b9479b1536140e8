//! A rollout read block by block: one row besides a block is all that is held of it.

use std::io::{self, Read};
use std::marker::PhantomData;
use std::ops::Range;

use throughline_parsers::codex::{MissingRow, RowRef, read_line};
use throughline_parsers::lines::{Joiner, Line, Scanner, Sieve, Spelling};

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
        if !few && let Some(contents) = rollout(source, state.clone(), Keep::RowsToRead, buffer)? {
            return Ok(contents);
        }
        rollout(source, state, Keep::AllRows, buffer)?.ok_or_else(not_kept)
    })
}

/// Reads to the end; `None` when a row had been let go that has to be read.
fn rollout(
    source: &impl Source,
    state: State,
    keep: Keep,
    buffer: &mut Buffer,
) -> io::Result<Option<Result<Contents, MissingRow>>> {
    let offset = state.offset;
    let mut reading = Reading::from(state);
    let end = each_line::<_, false>(source, &stops::scanner(), offset, keep, buffer, |told| {
        let Told::Line(line, bytes) = told else { return };
        for row in printed(read_line(bytes, line.span.start, true), bytes, line.span.start) {
            reading.apply(&row, |at| row_bytes(source, line, bytes, at));
        }
    })?;
    Ok(end.map(|End { offset, last }| match last {
        Some((line, at)) => {
            let bytes = &buffer.bytes()[at];
            let rows = read_line(bytes, line.span.start, false);
            reading.finish(offset, rows, |at| row_bytes(source, &line, bytes, at))
        }
        None => reading.finish(offset, None, |_| None::<&[u8]>),
    }))
}

fn not_kept() -> io::Error {
    io::Error::other("a row that was kept is not there")
}

/// Calls `each` with every line from an offset on that has to be read, and its bytes; the last one can lack its LF. Gives
/// the offset just past the last LF.
///
/// # Errors
/// The stream's.
pub fn lines<S: Spelling>(source: &impl Source, offset: u64, mut each: impl FnMut(&Line, &[u8])) -> io::Result<u64> {
    lend(|buffer| {
        let scanner = Scanner::<S>::default();
        // Lines that were let go come again, and those in front of them too: so they are gathered by their places first.
        let mut read_from = offset;
        for keep in [Keep::RowsToRead, Keep::AllRows] {
            let mut next = read_from;
            let end = each_line::<_, false>(source, &scanner, offset, keep, buffer, |told| {
                let Told::Line(line, bytes) = told else { return };
                if line.span.start >= next {
                    each(line, bytes);
                    next = line.span.end;
                }
            })?;
            read_from = next;
            if let Some(End { offset, last }) = end {
                if let Some((line, at)) = last.filter(|(line, _)| line.span.start >= read_from) {
                    each(&line, &buffer.bytes()[at]);
                }
                return Ok(offset);
            }
        }
        Err(not_kept())
    })
}

/// What is told of a stream of which every line counts.
#[derive(Debug)]
pub enum Told<'b> {
    /// All that was told does not count: the stream is read once more.
    Anew,
    /// A line that has to be read, and its bytes. The last one can lack its LF.
    Line(&'b Line, &'b [u8]),
    /// A line that is passed over: where it stands, and how it begins.
    Passed(Range<u64>, &'b [u8]),
}

/// Tells of every line from the start of the source.
///
/// # Errors
/// The stream's.
pub fn every_line<S: Spelling>(source: &impl Source, mut tell: impl FnMut(Told<'_>)) -> io::Result<()> {
    lend(|buffer| {
        let scanner = stops::scanner_of::<S>();
        for keep in [Keep::RowsToRead, Keep::AllRows] {
            if let Some(End { last, .. }) = each_line::<_, true>(source, &scanner, 0, keep, buffer, &mut tell)? {
                if let Some((line, at)) = last {
                    tell(Told::Line(&line, &buffer.bytes()[at]));
                }
                return Ok(());
            }
            tell(Told::Anew);
        }
        Err(not_kept())
    })
}

/// The lines of a block that are passed over.
struct PassedOver<S> {
    lines: Vec<Range<usize>>,
    spelling: PhantomData<S>,
}

impl<S> Default for PassedOver<S> {
    fn default() -> Self {
        Self { lines: Vec::new(), spelling: PhantomData }
    }
}

impl<S: Spelling> Sieve for PassedOver<S> {
    fn passes(&mut self, start: &[u8]) -> bool {
        S::is_passed_over(start)
    }

    fn passed(&mut self, line: Range<usize>) {
        self.lines.push(line);
    }
}

/// What of a row that crosses the end of a block stays in the buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// A row that is passed over is let go. Should another row start within it, the stream has to be read once more.
    RowsToRead,
    /// Every row.
    AllRows,
}

/// How a stream ended.
struct End {
    /// Just past the last LF.
    offset: u64,
    /// What stands behind that, if it has to be read, and where in the buffer.
    last: Option<(Line, Range<usize>)>,
}

/// Tells of the lines from an offset on that have to be read and have their LF, and of those that are passed over if `ALL` of
/// them count; `None` when one that has to be read had been let go.
fn each_line<S: Spelling, const ALL: bool>(
    source: &impl Source,
    scanner: &Scanner<S>,
    offset: u64,
    keep: Keep,
    buffer: &mut Buffer,
    mut tell: impl FnMut(Told<'_>),
) -> io::Result<Option<End>> {
    let (mut joiner, mut at_line) = (Joiner::at(offset), true);
    let most = source.most_behind(offset).and_then(|bytes| usize::try_from(bytes).ok());
    let block_len = most.map_or(BLOCK, |most| most.min(BLOCK));
    let mut bytes = source.open(offset)?;
    buffer.clear();
    // Where the buffer begins in the stream, and how much of it has been scanned.
    let (mut start, mut scanned) = (offset, 0);
    let mut head = Vec::new();
    loop {
        let more = buffer.fill(&mut bytes, scanned + block_len + S::LOOKAHEAD)?;
        let len = buffer.bytes().len() - scanned - if more { S::LOOKAHEAD } else { 0 };
        let mut passed = PassedOver::<S>::default();
        let bytes_here = &buffer.bytes()[scanned..];
        let block = match ALL {
            true => scanner.scan_through(bytes_here, len, at_line, &mut passed),
            false => scanner.scan(bytes_here, len, at_line),
        };
        let head_at = |at: usize| &bytes_here[at..bytes_here.len().min(at + S::LOOKAHEAD)];
        let mut crossed = joiner.cross(&block, len);
        if let Some(line) = crossed.take_if(|crossed| !crossed.read)
            && ALL
        {
            tell(Told::Passed(line.line.span, &head));
        }
        if crossed.as_ref().is_some_and(|crossed| crossed.line.span.start < start) {
            return Ok(None);
        }
        let base = start + scanned as u64;
        let mut passed = passed.lines.into_iter().peekable();
        for line in crossed.map(|crossed| crossed.line).into_iter().chain(lines_of(&block, base)) {
            while let Some(passed) = passed.next_if(|passed| base + (passed.start as u64) < line.span.start) {
                tell(Told::Passed(base + passed.start as u64..base + passed.end as u64, head_at(passed.start)));
            }
            tell(Told::Line(&line, &buffer.bytes()[within(&line.span, start)]));
        }
        for passed in passed {
            tell(Told::Passed(base + passed.start as u64..base + passed.end as u64, head_at(passed.start)));
        }
        if let Some(tail) = block.tail().filter(|_| ALL) {
            head.clear();
            head.extend_from_slice(head_at(tail));
        }
        scanned += len;
        at_line = buffer.bytes()[..scanned].last().map_or(at_line, |byte| *byte == b'\n');
        if !more {
            break;
        }
        let kept = match keep {
            Keep::RowsToRead => joiner.unfinished(),
            Keep::AllRows => joiner.under_way(),
        };
        let done = kept.map_or(scanned, |kept| (kept.max(start) - start) as usize);
        buffer.drop_first(done);
        start += done as u64;
        scanned -= done;
    }
    let offset = joiner.line_start();
    let mut last = joiner.finish_crossing();
    // One that is passed over is there if it ends as a row does.
    if let Some(passed) = last.take_if(|last| !last.read)
        && ALL
        && passed.whole
    {
        tell(Told::Passed(passed.line.span, &head));
    }
    Ok(match last.map(|last| last.line) {
        Some(last) if last.span.start < start => None,
        Some(last) => {
            let at = within(&last.span, start);
            Some(End { offset, last: Some((last, at)) })
        }
        None => Some(End { offset, last: None }),
    })
}

/// A row of this line, or one that was read before the state was left that this reading began with.
fn row_bytes<'b>(source: &impl Source, line: &Line, bytes: &'b [u8], at: RowRef) -> Option<RowBytes<'b>> {
    match at.offset >= line.span.start {
        true => Some(RowBytes::Here(&bytes[within(&at.span(), line.span.start)])),
        false => source.row(at).map(RowBytes::Again),
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
