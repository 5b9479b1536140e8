//! A mapped rollout read in parts by all cores. Parts are let go when they have been read, so that neither the size of the
//! file nor that of its rows is held in memory.

use std::ops::Range;

use memmap2::{Mmap, UncheckedAdvice};
use rayon::prelude::*;
use throughline_parsers::codex::{MissingRow, Row, RowRef, read_line};
use throughline_parsers::lines::{Block, Joiner, LOOKAHEAD, Line, Scanner};

use super::reading::{Contents, Printed, Reading, State, printed};
use super::stops;

/// One core's part of a mapped file: small enough that its rows are still in the core's cache when they are read.
const PART: usize = 512 << 10;
/// How much the system maps around a page that is touched, at the least.
const MAPPED_AROUND: usize = 64 << 10;
/// What is let go has to begin at a page: they are at most this large.
const PAGES: usize = 64 << 10;
/// How many parts are scanned together before their rows are put in order and their pages are let go.
const PARTS_AT_ONCE: usize = 128;
/// How many of them one core takes at a time: with more the others would wait for it at the end.
const PARTS_OF_ONE: usize = 4;

/// A mapped file in parts, from a place behind an LF on.
pub struct Parts<'m> {
    map: &'m Mmap,
    from: usize,
    scanner: Scanner,
}

/// What one part holds.
struct Part {
    block: Block,
    len: usize,
    rows: Vec<Printed>,
}

impl<'m> Parts<'m> {
    /// Reads the whole of this file on from a state: the parts are scanned on all cores, their rows are applied in order.
    /// While the rows of some parts are applied, the next ones are scanned.
    ///
    /// # Errors
    /// [`MissingRow`] when a message that was read earlier is not where it was.
    pub fn read(map: &'m Mmap, state: State) -> Result<Contents, MissingRow> {
        let from = (state.offset as usize).min(map.len());
        Self { map, from, scanner: stops::scanner() }.read_into(Reading::from(state))
    }

    fn read_into(&self, mut reading: Reading) -> Result<Contents, MissingRow> {
        let mut joiner = Joiner::at(self.from as u64);
        let mut ready: Vec<Part> = Vec::new();
        let count = (self.map.len() - self.from).div_ceil(PART);
        for first in (0..count).step_by(PARTS_AT_ONCE) {
            let parts = (first..count.min(first + PARTS_AT_ONCE)).into_par_iter().with_max_len(PARTS_OF_ONE);
            let scan = || parts.map(|n| self.scan(n)).collect();
            let apply = || {
                self.apply(&ready, &mut joiner, &mut reading);
                self.let_go(first.saturating_sub(PARTS_AT_ONCE)..first);
            };
            (ready, ()) = rayon::join(scan, apply);
        }
        self.apply(&ready, &mut joiner, &mut reading);
        let offset = joiner.line_start();
        let tail = joiner.finish().map(|last| self.rows(&last));
        reading.finish(offset, tail.into_iter().flatten(), |at| self.row(at))
    }

    fn scan(&self, n: usize) -> Part {
        let start = self.from + n * PART;
        let len = PART.min(self.map.len() - start);
        let bytes = &self.map[start..self.map.len().min(start + len + LOOKAHEAD)];
        let block = self.scanner.scan(bytes, len, start == self.from || self.map[start - 1] == b'\n');
        let rows = lines_of(&block, start as u64).flat_map(|line| self.read_line(line)).collect();
        Part { block, len, rows }
    }

    fn apply(&self, parts: &[Part], joiner: &mut Joiner, reading: &mut Reading) {
        for part in parts {
            let crossed = joiner.join(&part.block, part.len);
            for row in crossed.into_iter().flat_map(|line| self.read_line(line)) {
                reading.apply(&row, |at| self.row(at));
            }
            part.rows.iter().for_each(|row| reading.apply(row, |at| self.row(at)));
        }
    }

    fn read_line(&self, line: Line) -> impl Iterator<Item = Printed> {
        printed(self.rows(&line), self.bytes(&line.span), line.span.start)
    }

    fn rows(&self, line: &Line) -> impl IntoIterator<Item = Row> + use<> {
        read_line(self.bytes(&line.span), line.span.start, line.ended)
    }

    fn row(&self, at: RowRef) -> Option<&[u8]> {
        (at.span().end <= self.map.len() as u64).then(|| self.bytes(&at.span()))
    }

    fn bytes(&self, span: &Range<u64>) -> &[u8] {
        &self.map[within(span, 0)]
    }

    /// Gives the pages of parts back; they stay in the page cache, and would come from there again.
    fn let_go(&self, parts: Range<usize>) {
        if parts.is_empty() {
            return;
        }
        let [start, end] = [parts.start, parts.end].map(|part| (self.from + part * PART).next_multiple_of(PAGES));
        // The look at the byte in front of the first part has mapped some pages there again.
        let from = start.saturating_sub(MAPPED_AROUND);
        // SAFETY: the mapping is read-only and of a file, so its pages hold nothing but the file's bytes, and dropping
        // them loses nothing: a later look at them (a row that crosses parts) maps them again.
        let advised =
            unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, from, end.min(self.map.len()) - from) };
        // Memory that is not given back costs room, not truth.
        drop(advised);
    }
}

/// The lines of a block to be read, as positions in the file, where the block begins at `base`.
pub fn lines_of(block: &Block, base: u64) -> impl Iterator<Item = Line> {
    let at = move |position: usize| base + position as u64;
    block.lines().iter().map(move |line| Line { span: at(line.start)..at(line.end), ended: true })
}

/// Positions in the file as positions in bytes that begin at `start`.
pub fn within(span: &Range<u64>, start: u64) -> Range<usize> {
    (span.start - start) as usize..(span.end - start) as usize
}
