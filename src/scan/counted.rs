//! A log of which every row is counted, read without mapping: a file that is cut short meanwhile ends the reading, not the
//! process.
//!
//! A plain file is read in parts, each into a buffer; those of a large one on all cores, with their rows applied in order.
//! A row that crosses parts and has to be read is read once more by itself. A packed file is read as a stream.
//!
//! The reading of a plain file can begin at a [`Place`] behind any LF, with what an earlier one had made of the rows in
//! front of that, and tells the place at which the next one may begin.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use rayon::prelude::*;
use throughline_parsers::codex::{MissingRow, RowRef};
use throughline_parsers::count::{Counting, Name, Seen, Sifted, Tally, Unreadable};
use throughline_parsers::lines::{Block, Joiner, Line, Scanner, Sieve, Spelling as _};

use super::buffer::lend;
use super::file::{FileFrom, Rollout};
use super::parts::{lines_of, within};
use super::rows::{Print, Rows, print_of};
use super::stops;
use super::stream::{self, Told};

mod place;

pub use self::place::{Place, Resumable};

/// How a plain file is read.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// So much is read at once: it stays in the core's cache until it has been looked at.
    part: u64,
    /// A larger file is read by all cores.
    large: u64,
}

const SIZES: Sizes = Sizes { part: 256 << 10, large: 8 << 20 };
/// So many parts of a large file are read together before their rows are put in order.
const PARTS_AT_ONCE: u64 = 64;

/// A longer line that has to be read is not held in memory: it counts as one broken row.
const LONGEST_LINE: u64 = 1 << 30;

/// What is made of the rows of one log, in the order of the file.
pub trait Ledger: Send {
    /// Whose log it is.
    type Host: Counting + Send + Sync;

    /// Whether a row has to be the same when the log is read on.
    fn matters(row: &<Self::Host as Counting>::Row) -> bool;

    /// Takes the next row that was read, which stands there. `fetch` gives bytes of the file.
    ///
    /// # Errors
    /// [`MissingRow`] when bytes that it needs are not there, or not those that were read.
    fn apply(&mut self, row: <Self::Host as Counting>::Row, at: RowRef, fetch: Fetch<'_>) -> Result<(), MissingRow>;
}

/// Gives bytes of the file that is read, if they are there.
pub type Fetch<'f> = &'f dyn Fn(Range<u64>) -> Option<Vec<u8>>;

/// Whoever waits for the reading: is told of bytes that were read, and can stop it.
pub trait Watch: Sync {
    /// So many more bytes were read.
    fn read(&self, bytes: u64);
    /// Whether reading is to end.
    fn stopped(&self) -> bool;
}

/// A log that was read.
#[derive(Debug)]
pub struct Counted<L> {
    /// What was made of the rows that were read.
    pub ledger: L,
    /// All rows.
    pub tally: Tally,
    /// Where the first row begins that was passed over.
    pub first_passed: Option<u64>,
    /// The last time that a row has, in milliseconds since the epoch, as far as the first bytes of rows tell.
    pub last_time: Option<i64>,
    /// It is packed, and not all of it can be decoded.
    pub damaged: bool,
    /// The rows that mattered, where they are kept.
    rows: Option<Rows>,
    /// Bytes were not there, or not what they had been: the file changed while it was read, or since.
    changed: bool,
}

impl<L: Ledger> Counted<L> {
    fn new(ledger: L) -> Self {
        let tally = Tally::of::<L::Host>();
        Self { ledger, tally, first_passed: None, last_time: None, damaged: false, rows: None, changed: false }
    }

    /// Whether it is what every other reading of the same bytes comes to, wherever that began.
    pub fn is_sound(&self) -> bool {
        !self.changed && !self.tally.is_full()
    }

    /// Counts a line that is passed over, of the type that is counted there.
    fn passed(&mut self, span: Range<u64>, index: usize) {
        self.first_passed.get_or_insert(span.start);
        self.tally.add(index, span.end - span.start);
    }

    fn line(&mut self, line: &Line, bytes: &[u8], fetch: Fetch<'_>) {
        let head = &bytes[..bytes.len().min(L::Host::LOOKAHEAD)];
        self.last_time = <L::Host as Counting>::time_of(head).or(self.last_time);
        let keeps = self.rows.is_some();
        <L::Host as Counting>::look(bytes, line.span.start, line.ended, |seen| {
            self.tally.see(&seen);
            if let Seen::Row { row, at, .. } = seen {
                let print = (keeps && L::matters(&row)).then(|| print_of(&bytes[within(&at.span(), line.span.start)]));
                self.row(Printed { row, at, print }, fetch);
            }
        });
    }

    fn row(&mut self, Printed { row, at, print }: Printed<L::Host>, fetch: Fetch<'_>) {
        if let (Some(rows), Some(print)) = (&mut self.rows, print) {
            rows.push(at, print);
        }
        self.changed |= self.ledger.apply(row, at, fetch).is_err();
    }
}

/// A row that was read.
struct Printed<H: Counting> {
    row: H::Row,
    at: RowRef,
    /// Its print, where that is kept.
    print: Option<Print>,
}

/// Counts the rows that are passed over.
struct Sieving<'t, H> {
    tally: &'t mut Tally,
    /// Where the type of the row that passed last is counted.
    last: usize,
    /// Where those begin that were passed over.
    passed: Vec<usize>,
    host: PhantomData<H>,
}

impl<'t, H> Sieving<'t, H> {
    fn into(tally: &'t mut Tally) -> Self {
        Self { tally, last: 0, passed: Vec::new(), host: PhantomData }
    }
}

impl<H: Counting> Sieve for Sieving<'_, H> {
    fn passes(&mut self, start: &[u8]) -> bool {
        match H::sift(start) {
            Some(sifted) => {
                self.last = self.tally.index(sifted);
                true
            }
            None => false,
        }
    }

    fn passed(&mut self, line: Range<usize>) {
        self.passed.push(line.start);
        self.tally.add(self.last, line.len() as u64);
    }
}

/// Reads the first `len` bytes of a plain file; `None` when it was stopped.
///
/// # Errors
/// The file cannot be read.
pub fn plain<L: Ledger>(file: &File, len: u64, ledger: L, watch: &dyn Watch) -> io::Result<Option<Counted<L>>> {
    plain_from(Place::start(ledger), file, len, watch, |_| {})
}

/// Reads a plain file on from a place, up to byte `len`; `None` when it was stopped. `leave` is told the place behind the
/// last LF, from where the next reading may go on: what stands behind that may not be all of its row yet.
///
/// # Errors
/// The file cannot be read.
pub fn plain_from<L: Ledger>(
    place: Place<L>,
    file: &File,
    len: u64,
    watch: &dyn Watch,
    leave: impl FnOnce(&Place<L>),
) -> io::Result<Option<Counted<L>>> {
    plain_in(SIZES, place, file, len, watch, leave)
}

fn plain_in<L: Ledger>(
    sizes: Sizes,
    Place { offset, counted }: Place<L>,
    file: &File,
    len: u64,
    watch: &dyn Watch,
    leave: impl FnOnce(&Place<L>),
) -> io::Result<Option<Counted<L>>> {
    let keeps = counted.rows.is_some();
    let parts = Parts::<L> { file, from: offset, len, size: sizes.part, keeps, scanner: stops::scanner_of() };
    let mut joined = Joined { counted, joiner: Joiner::at(offset), end: offset, under_way: None };
    let new = len.saturating_sub(offset);
    let count = new.div_ceil(sizes.part);
    if new <= sizes.large {
        for n in 0..count {
            if watch.stopped() {
                return Ok(None);
            }
            joined.take(&parts, n, watch)?;
        }
        return joined.finish(&parts, leave).map(Some);
    }
    let mut ready: Vec<Part<L::Host>> = Vec::new();
    for first in (0..count).step_by(PARTS_AT_ONCE as usize) {
        if watch.stopped() {
            return Ok(None);
        }
        // While the rows of some parts are applied, the next ones are read.
        let before = std::mem::take(&mut ready);
        let scan = || (first..count.min(first + PARTS_AT_ONCE)).into_par_iter().map(|n| parts.scan(n, watch)).collect();
        let (scanned, applied): (io::Result<Vec<_>>, _) = rayon::join(scan, || joined.apply(&parts, before));
        applied?;
        ready = scanned?;
    }
    joined.apply(&parts, ready)?;
    joined.finish(&parts, leave).map(Some)
}

/// Reads a packed file as if it ended at byte `end` of what is packed; `None` when it was stopped.
///
/// # Errors
/// The file cannot be read.
pub fn packed<L: Ledger>(
    rollout: &Rollout,
    end: u64,
    ledger: impl Fn() -> L,
    watch: &dyn Watch,
) -> io::Result<Option<Counted<L>>> {
    if watch.stopped() {
        return Ok(None);
    }
    let (source, damaged) = rollout.as_packed(end);
    let mut counted = Counted::new(ledger());
    stream::every_line::<L::Host>(&source, |told| match told {
        Told::Anew => counted = Counted::new(ledger()),
        Told::Passed(span, head) => {
            let sifted = <L::Host as Counting>::sift(head).unwrap_or(Sifted::Unknown(Name { row: b"", inner: b"" }));
            let index = counted.tally.index(sifted);
            counted.passed(span, index);
            counted.last_time = <L::Host as Counting>::time_of(head).or(counted.last_time);
        }
        Told::Line(line, bytes) => counted.line(line, bytes, &|span| {
            let within = span.start.checked_sub(line.span.start)?..span.end.checked_sub(line.span.start)?;
            bytes.get(within.start as usize..within.end as usize).map(<[u8]>::to_vec)
        }),
    })?;
    counted.damaged = damaged.load(Ordering::Relaxed);
    Ok(Some(counted))
}

/// A plain file in parts.
struct Parts<'f, L: Ledger> {
    file: &'f File,
    /// Where the first one begins: behind an LF, or at the start.
    from: u64,
    /// That of the file.
    len: u64,
    /// That of a part.
    size: u64,
    /// Whether the rows that matter are kept.
    keeps: bool,
    scanner: Scanner<L::Host>,
}

/// What one part holds.
struct Part<H: Counting> {
    found: Found<H>,
    len: usize,
    tally: Tally,
    rows: Vec<Printed<H>>,
}

/// Where the rows of a part are.
struct Found<H> {
    block: Block,
    first_passed: Option<u64>,
    last_time: Option<i64>,
    /// Where the type of the row is counted that does not end here, and its time.
    tail: (usize, Option<i64>),
    host: PhantomData<H>,
}

/// The bytes of a part, and what stands behind them.
struct Bytes<'b> {
    start: u64,
    bytes: &'b [u8],
    len: usize,
    at_line: bool,
}

impl<L: Ledger> Parts<'_, L> {
    /// Reads a part, and does that with its bytes.
    fn with<T>(&self, n: u64, watch: &dyn Watch, with: impl FnOnce(Bytes<'_>) -> T) -> io::Result<T> {
        let start = self.from + n * self.size;
        // The byte in front tells whether a line begins here.
        let from = start.saturating_sub(1);
        let wanted = (self.len - from).min(self.size + (start - from) + L::Host::LOOKAHEAD as u64);
        lend(|buffer| {
            buffer.fill(&mut FileFrom { file: self.file, at: from }, wanted as usize)?;
            let (before, bytes) = buffer.bytes().split_at(((start - from) as usize).min(buffer.bytes().len()));
            let len = bytes.len().min(self.size as usize);
            watch.read(len as u64);
            let at_line = before.last().is_none_or(|byte| *byte == b'\n');
            Ok(with(Bytes { start, bytes, len, at_line }))
        })
    }

    /// Reads a part by itself.
    fn scan(&self, n: u64, watch: &dyn Watch) -> io::Result<Part<L::Host>> {
        self.with(n, watch, |bytes| {
            let mut tally = Tally::of::<L::Host>();
            let found = self.find(&bytes, &mut tally);
            let rows = self.rows(&found, &bytes, &mut tally);
            Part { found, len: bytes.len, tally, rows }
        })
    }

    /// Finds the rows of a part, and counts those that are passed over.
    fn find(&self, bytes: &Bytes<'_>, tally: &mut Tally) -> Found<L::Host> {
        let Bytes { start, bytes, len, at_line } = *bytes;
        let time_at = |at: usize| L::Host::time_of(&bytes[at..bytes.len().min(at + L::Host::LOOKAHEAD)]);
        let mut sieve = Sieving::<L::Host>::into(tally);
        let block = self.scanner.scan_through(bytes, len, at_line, &mut sieve);
        let tail = (sieve.last, block.tail().and_then(time_at));
        let passed = sieve.passed;
        let first_passed = passed.first().map(|first| start + *first as u64);
        // Of the rows that have a time the last one, wherever the part ends.
        let timed = |at: usize| Some((at, time_at(at)?));
        let last_passed = passed.iter().rev().find_map(|at| timed(*at));
        let last_read = block.lines().iter().rev().find_map(|line| timed(line.start));
        let last_time = last_passed.max(last_read).map(|(_, time)| time);
        Found { block, first_passed, last_time, tail, host: PhantomData }
    }

    /// Reads the lines that have to be read, counts what stands in them, and gives the rows.
    fn rows(&self, found: &Found<L::Host>, bytes: &Bytes<'_>, tally: &mut Tally) -> Vec<Printed<L::Host>> {
        let mut rows = Vec::new();
        for line in lines_of(&found.block, bytes.start) {
            let at = within(&line.span, bytes.start);
            L::Host::look(&bytes.bytes[at], line.span.start, true, |seen| {
                tally.see(&seen);
                if let Seen::Row { row, at, .. } = seen {
                    let print = || print_of(&bytes.bytes[within(&at.span(), bytes.start)]);
                    let print = (self.keeps && L::matters(&row)).then(print);
                    rows.push(Printed { row, at, print });
                }
            });
        }
        rows
    }

    fn fetch(&self, span: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(span.end - span.start).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, span.start)?;
        Ok(bytes)
    }
}

/// The parts so far, put together.
struct Joined<L> {
    counted: Counted<L>,
    joiner: Joiner,
    /// So far the file has been read.
    end: u64,
    /// Where the type of the row is counted that is under way, and its time.
    under_way: Option<(usize, Option<i64>)>,
}

impl<L: Ledger> Joined<L> {
    /// Reads the next part.
    fn take(&mut self, parts: &Parts<'_, L>, n: u64, watch: &dyn Watch) -> io::Result<()> {
        parts.with(n, watch, |bytes| {
            let found = parts.find(&bytes, &mut self.counted.tally);
            self.cross(parts, &found, bytes.len)?;
            let rows = parts.rows(&found, &bytes, &mut self.counted.tally);
            self.rows(parts, rows);
            self.goes_on(&found, found.tail.0);
            Ok(())
        })?
    }

    /// Takes parts that were read, which are the next ones.
    fn apply(&mut self, parts: &Parts<'_, L>, ready: Vec<Part<L::Host>>) -> io::Result<()> {
        for Part { found, len, tally, rows } in ready {
            self.cross(parts, &found, len)?;
            self.counted.tally.merge(&tally);
            self.rows(parts, rows);
            let index = self.counted.tally.index_of_other(&tally, found.tail.0);
            self.goes_on(&found, index);
        }
        Ok(())
    }

    fn rows(&mut self, parts: &Parts<'_, L>, rows: Vec<Printed<L::Host>>) {
        rows.into_iter().for_each(|row| self.counted.row(row, &|span| parts.fetch(span).ok()));
    }

    /// Takes the line that has come to its end in the next part.
    fn cross(&mut self, parts: &Parts<'_, L>, found: &Found<L::Host>, len: usize) -> io::Result<()> {
        self.end += len as u64;
        match self.joiner.cross(&found.block, len) {
            Some(crossed) if crossed.read => self.read(parts, &crossed.line)?,
            Some(crossed) => self.passed(crossed.line.span),
            None => {}
        }
        self.counted.first_passed = self.counted.first_passed.or(found.first_passed);
        Ok(())
    }

    /// The rest of a part: the line that does not end there is of the type that is counted there.
    fn goes_on(&mut self, found: &Found<L::Host>, index: usize) {
        self.counted.last_time = found.last_time.or(self.counted.last_time);
        if found.block.tail().is_some() {
            self.under_way = Some((index, found.tail.1));
        }
    }

    fn passed(&mut self, span: Range<u64>) {
        if let Some((index, time)) = self.under_way.take() {
            self.counted.passed(span, index);
            self.counted.last_time = time.or(self.counted.last_time);
        }
    }

    fn read(&mut self, parts: &Parts<'_, L>, line: &Line) -> io::Result<()> {
        let len = line.span.end - line.span.start;
        if len > LONGEST_LINE {
            let broken: Seen<'_, ()> = Seen::Unreadable(Unreadable::Broken, len);
            self.counted.tally.see(&broken);
            return Ok(());
        }
        let bytes = match parts.fetch(line.span.clone()) {
            // What was there has been cut off meanwhile.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.counted.changed = true;
                return Ok(());
            }
            bytes => bytes?,
        };
        self.counted.line(line, &bytes, &|span| parts.fetch(span).ok());
        Ok(())
    }

    fn finish(mut self, parts: &Parts<'_, L>, leave: impl FnOnce(&Place<L>)) -> io::Result<Counted<L>> {
        // What was there has been cut off meanwhile.
        self.counted.changed |= self.end < parts.len;
        let place = Place { offset: self.joiner.line_start(), counted: self.counted };
        leave(&place);
        self.counted = place.counted;
        if let Some(last) = std::mem::take(&mut self.joiner).finish_crossing() {
            if last.read {
                self.read(parts, &last.line)?;
            } else if last.whole {
                // It ends as a row does; else it is not there yet.
                self.passed(last.line.span);
            }
        }
        Ok(self.counted)
    }
}

#[cfg(test)]
mod tests;
