//! A mapped rollout read in parts by all cores. Parts are let go when they have been read, so that neither the size of the
//! file nor that of its rows is held in memory.

use std::ops::Range;

use memmap2::{Mmap, UncheckedAdvice};
use rayon::prelude::*;
use throughline_parsers::codex::{Row, read_line};
use throughline_parsers::lines::{Block, Joiner, LOOKAHEAD, Line, Scanner};

use super::reading::Reading;
use super::stops;

/// One core's part of a mapped file: small enough that its rows are still in the core's cache when they are read.
const PART: usize = 512 << 10;
/// How much the system maps around a page that is touched, at the least.
const MAPPED_AROUND: usize = 64 << 10;
/// How many parts are scanned together before their rows are put in order and their pages are let go.
const PARTS_AT_ONCE: usize = 128;

/// A mapped file in parts.
pub struct Parts<'m> {
    map: &'m Mmap,
    scanner: Scanner,
}

/// What one part holds.
struct Part {
    block: Block,
    len: usize,
    rows: Vec<Row>,
}

impl<'m> Parts<'m> {
    /// The parts of this file.
    pub fn of(map: &'m Mmap) -> Self {
        Self { map, scanner: stops::scanner() }
    }

    /// Scans the parts on all cores and gives their rows to `reading` in order. While the rows of some parts are applied,
    /// the next ones are scanned.
    pub fn read_into(&self, reading: &mut Reading) {
        let mut joiner = Joiner::default();
        let mut ready: Vec<Part> = Vec::new();
        let count = self.map.len().div_ceil(PART);
        for first in (0..count).step_by(PARTS_AT_ONCE) {
            let scan = || (first..count.min(first + PARTS_AT_ONCE)).into_par_iter().map(|n| self.scan(n)).collect();
            let apply = || {
                self.apply(&ready, &mut joiner, reading);
                self.let_go(first.saturating_sub(PARTS_AT_ONCE)..first);
            };
            (ready, ()) = rayon::join(scan, apply);
        }
        self.apply(&ready, &mut joiner, reading);
        if let Some(last) = joiner.finish() {
            self.read(&last).into_iter().for_each(|row| reading.apply(&row, |at| self.bytes(&at.span())));
        }
    }

    fn scan(&self, n: usize) -> Part {
        let from = n * PART;
        let len = PART.min(self.map.len() - from);
        let bytes = &self.map[from..self.map.len().min(from + len + LOOKAHEAD)];
        let block = self.scanner.scan(bytes, len, from == 0 || self.map[from - 1] == b'\n');
        let rows = lines_of(&block, from as u64).flat_map(|line| self.read(&line)).collect();
        Part { block, len, rows }
    }

    fn apply(&self, parts: &[Part], joiner: &mut Joiner, reading: &mut Reading) {
        for part in parts {
            let crossed = joiner.join(&part.block, part.len);
            let crossed = crossed.iter().flat_map(|line| self.read(line));
            for row in crossed {
                reading.apply(&row, |at| self.bytes(&at.span()));
            }
            part.rows.iter().for_each(|row| reading.apply(row, |at| self.bytes(&at.span())));
        }
    }

    fn read(&self, line: &Line) -> impl IntoIterator<Item = Row> + use<> {
        read_line(self.bytes(&line.span), line.span.start, line.ended)
    }

    fn bytes(&self, span: &Range<u64>) -> &[u8] {
        &self.map[within(span, 0)]
    }

    /// Gives the pages of parts back; they stay in the page cache, and would come from there again.
    fn let_go(&self, parts: Range<usize>) {
        if parts.is_empty() {
            return;
        }
        // The look at the byte in front of the first part has mapped some pages there again.
        let from = (parts.start * PART).saturating_sub(MAPPED_AROUND);
        // SAFETY: the mapping is read-only and of a file, so its pages hold nothing but the file's bytes, and dropping
        // them loses nothing: a later look at them (a row that crosses parts) maps them again.
        let advised =
            unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, from, parts.end * PART - from) };
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
