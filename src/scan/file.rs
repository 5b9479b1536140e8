//! One rollout file: opened once, then its identity or its turns are read from that descriptor.
//!
//! A large plain file is mapped (where the caller allows it) and scanned in parts by all cores, each part let go again
//! when it has been read, so that neither the size of the file nor that of its rows is held in memory. Everything else
//! (small files, packed ones, and all files where mapping is not allowed) is read through one buffer.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memmap2::{Mmap, MmapOptions, UncheckedAdvice};
use rayon::prelude::*;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use throughline_parsers::codex::{Event, Meta, Row, RowRef, Turns, first_object, read_line, said_in};
use throughline_parsers::lines::{Block, Joiner, LOOKAHEAD, Line, Scanner};

use super::buffer::Buffer;
use super::folders::{self, Folder, Listed};
use super::stops;

/// Files up to this size are read into a buffer, which then costs less than mapping.
const SMALL: u64 = 1 << 20;
/// One core's part of a mapped file: small enough that its rows are still in the core's cache when they are read.
const PART: usize = 512 << 10;
/// How much the system maps around a page that is touched, at the least.
const MAPPED_AROUND: usize = 64 << 10;
/// How many parts are scanned together before their rows are put in order and their pages are let go.
const PARTS_AT_ONCE: usize = 128;
/// How much is read at once where a file is not mapped.
const BLOCK: usize = 256 << 10;
/// How much of a file is read for its first row before more is.
const HEAD: usize = 8 << 10;

/// A pipe or a link may have taken the place of a file that was listed: neither is waited for nor followed.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Whether large files may be mapped into memory.
///
/// A mapped file that is cut short while it is read ends the process with SIGBUS, unless the program handles that; so it
/// is the program's choice, not the library's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// Files are read through a buffer.
    #[default]
    Never,
    /// Large files are mapped. The process has to handle SIGBUS.
    LargeFiles,
}

/// An open rollout.
#[derive(Debug)]
pub struct Rollout {
    file: File,
    stamps: Metadata,
    packed: bool,
}

/// What a rollout holds.
#[derive(Debug)]
pub struct Contents {
    /// Its identity; `None` when its first readable object is no `session_meta`: then it is no thread's file.
    pub meta: Option<Meta>,
    /// A later `session_meta` names another thread: the file holds a copied history.
    pub copied: bool,
    /// Its turns.
    pub turns: Turns,
}

impl Rollout {
    /// Opens a listed rollout. It may have been packed or unpacked meanwhile, or moved away: then its other name is tried
    /// and its folder listed once more. `None` when it is gone, or no longer a regular file.
    ///
    /// # Errors
    /// It is there and cannot be opened.
    pub fn open(listed: &Listed) -> io::Result<Option<Self>> {
        let packed = listed.name.packed;
        for packed in [packed, !packed] {
            if let Some(found) = Self::open_path(&listed.path, packed)? {
                return Ok(found.regular());
            }
        }
        match folders::again(listed)? {
            Some(again) => Ok(Self::open_path(&again.path, again.name.packed)?.and_then(Self::regular)),
            None => Ok(None),
        }
    }

    fn open_path(plain: &Path, packed: bool) -> io::Result<Option<Self>> {
        let path = if packed { packed_path(plain) } else { plain.to_path_buf() };
        let file = match rustix::fs::open(path, FLAGS, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stamps = file.metadata()?;
        Ok(Some(Self { file, stamps, packed }))
    }

    fn regular(self) -> Option<Self> {
        self.stamps.is_file().then_some(self)
    }

    /// Everything up to byte `end` of the (unpacked) file, or up to its present end. `turns` is the state to begin with, at
    /// the start of the file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn contents(
        &self,
        end: Option<u64>,
        turns: Turns,
        mapping: Mapping,
        buffer: &mut Buffer,
    ) -> io::Result<Contents> {
        if self.packed {
            return streamed(|| Ok(self.unpacked()?.take(end.unwrap_or(u64::MAX))), &turns, buffer);
        }
        // What is appended from here on is the next read's.
        let len = self.stamps.len().min(end.unwrap_or(u64::MAX));
        let plain = || Ok(self.plain().take(len));
        if mapping == Mapping::Never || len <= SMALL {
            return streamed(plain, &turns, buffer);
        }
        let contents = self.mapped(len, &turns, buffer)?;
        if self.file.metadata()?.size() < len {
            // Cut short while it was mapped: parts of it may have read as zeros.
            return streamed(plain, &turns, buffer);
        }
        Ok(contents)
    }

    fn mapped(&self, len: u64, turns: &Turns, buffer: &mut Buffer) -> io::Result<Contents> {
        let len = usize::try_from(len).map_err(|_| ErrorKind::FileTooLarge)?;
        // SAFETY: the mapping is read-only and private to this call. That the file's bytes may change under it is what
        // mapping means here: they are only ever looked at as bytes, every position found in them is used with bounds
        // checks, and no decision that `unsafe` code relies on is made from them. Cutting the file short raises SIGBUS,
        // which whoever chose `Mapping::LargeFiles` has promised to handle.
        let map = unsafe { MmapOptions::new().len(len).map(&self.file)? };
        let mut reading = Reading::begin(identity(&mut self.plain().take(len as u64), buffer)?, turns);
        Parts { map: &map, scanner: stops::scanner() }.read_into(&mut reading);
        Ok(reading.contents)
    }

    fn first_object(&self, buffer: &mut Buffer) -> io::Result<FirstObject> {
        match self.packed {
            true => identity(&mut self.unpacked()?, buffer),
            false => identity(&mut self.plain(), buffer),
        }
    }

    /// The bytes of a plain file from its start.
    fn plain(&self) -> FileFrom<'_> {
        FileFrom { file: &self.file, at: 0 }
    }

    /// The bytes in a packed file from their start.
    fn unpacked(&self) -> io::Result<impl Read> {
        Ok(Decodable(zstd::Decoder::new(self.plain())?))
    }
}

/// The identities of the rollouts of one folder: those that have one.
///
/// # Errors
/// A rollout cannot be read.
pub fn identities(folder: Folder) -> io::Result<Vec<(Listed, Meta)>> {
    // Opened by name in their folder, files cost no walk along their path.
    let directory = rustix::fs::open(&folder.path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok();
    let identify = |buffer: &mut Buffer, listed: Listed| {
        let first = match directory.as_ref().and_then(|directory| first_object_in(directory, &listed, buffer)) {
            Some(first) => first,
            // In any case of doubt as every other file is opened.
            None => match Rollout::open(&listed)? {
                Some(rollout) => rollout.first_object(buffer)?,
                None => None,
            },
        };
        Ok(first.and_then(|(meta, _)| Some((listed, meta?))))
    };
    let identities = folder.rollouts.into_par_iter().map_init(Buffer::default, identify);
    identities.filter_map(Result::transpose).collect()
}

/// The first object of a rollout in this folder; `None` where it cannot be read as simply as that.
fn first_object_in(directory: &OwnedFd, listed: &Listed, buffer: &mut Buffer) -> Option<FirstObject> {
    let plain = listed.path.file_name().filter(|_| !listed.name.packed)?;
    let file = rustix::fs::openat(directory, plain, FLAGS, Mode::empty()).ok()?;
    identity(&mut FileFrom { file: &File::from(file), at: 0 }, buffer).ok()
}

fn packed_path(plain: &Path) -> PathBuf {
    let mut path = plain.as_os_str().to_owned();
    path.push(".zst");
    PathBuf::from(path)
}

/// A file read from a position of this reader's own.
struct FileFrom<'f> {
    file: &'f File,
    at: u64,
}

impl Read for FileFrom<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Of a damaged stream counts what can be decoded: an error is its end.
struct Decodable<R>(R);

impl<R: Read> Read for Decodable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // What one call decodes in front of damage is lost with it, so calls are kept short: a zstd block is 128 KiB at most.
        let block = buffer.len().min(128 << 10);
        Ok(self.0.read(&mut buffer[..block]).unwrap_or(0))
    }
}

/// The first object of a stream, if there is one: whether it is a `session_meta`, and where it stands.
type FirstObject = Option<(Option<Meta>, RowRef)>;

/// Finds the first object of a stream.
fn identity(stream: &mut impl Read, buffer: &mut Buffer) -> io::Result<FirstObject> {
    buffer.clear();
    // Where the buffer's first byte stands in the stream.
    let (mut offset, mut wanted) = (0, HEAD);
    loop {
        let ended = !buffer.fill(stream, wanted)?;
        let bytes = buffer.bytes();
        let mut line_start = 0;
        while let Some(len) = memchr::memchr(b'\n', &bytes[line_start..]) {
            let line = &bytes[line_start..line_start + len];
            if let Some(first) = first_object(line, offset + line_start as u64, true) {
                return Ok(Some(first));
            }
            line_start += len + 1;
        }
        // An object that stands whole at the start of the line is the first one, whatever else the line will hold.
        let first = first_object(&bytes[line_start..], offset + line_start as u64, false);
        if first.is_some() || ended {
            return Ok(first);
        }
        offset += line_start as u64;
        buffer.drop_first(line_start);
        wanted = (buffer.bytes().len() * 4).max(HEAD);
    }
}

/// A rollout while it is read.
struct Reading {
    contents: Contents,
    /// Where the row stands that gives the identity.
    identity: Option<RowRef>,
}

impl Reading {
    fn begin(first: FirstObject, turns: &Turns) -> Self {
        let (meta, identity) = match first {
            Some((meta, at)) => (meta, Some(at)),
            None => (None, None),
        };
        Self { contents: Contents { meta, copied: false, turns: turns.clone() }, identity }
    }

    /// Takes the next row; `bytes_of` gives the bytes of its object.
    fn apply<'b>(&mut self, row: &Row, bytes_of: impl Fn(RowRef) -> &'b [u8]) {
        if let Event::Meta(later) = &row.event {
            let first = self.contents.meta.as_ref().and_then(|meta| meta.id.as_ref());
            let other = later.id.is_some() && later.id.as_ref() != first && Some(row.at) != self.identity;
            self.contents.copied |= other;
        }
        // Everything is read in one go here, so that no row but this one is ever asked for.
        let applied = self.contents.turns.apply(row, |at| said_in(bytes_of(at)));
        debug_assert_eq!(applied, Ok(()), "all messages were read in this process");
    }
}

/// Reads a stream from its start through `buffer`, which then holds at most one row besides a block.
fn streamed<R: Read>(open: impl Fn() -> io::Result<R>, turns: &Turns, buffer: &mut Buffer) -> io::Result<Contents> {
    let first = identity(&mut open()?, buffer)?;
    for keep in [Keep::RowsToRead, Keep::AllRows] {
        let mut reading = Reading::begin(first.clone(), turns);
        let whole = Stream { bytes: open()?, buffer, keep }.read(|line, span| {
            for row in read_line(line, span.span.start, span.ended) {
                reading.apply(&row, |at| &line[within(&at.span(), span.span.start)]);
            }
        })?;
        if whole {
            return Ok(reading.contents);
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

fn lines_of(block: &Block, base: u64) -> impl Iterator<Item = Line> {
    let at = move |position: usize| base + position as u64;
    block.lines().iter().map(move |line| Line { span: at(line.start)..at(line.end), ended: true })
}

fn within(span: &Range<u64>, start: u64) -> Range<usize> {
    (span.start - start) as usize..(span.end - start) as usize
}

/// A mapped file in parts.
struct Parts<'m> {
    map: &'m Mmap,
    scanner: Scanner,
}

/// What one part holds.
struct Part {
    block: Block,
    len: usize,
    rows: Vec<Row>,
}

impl Parts<'_> {
    /// Scans the parts on all cores and gives their rows to `reading` in order. While the rows of some parts are applied,
    /// the next ones are scanned.
    fn read_into(&self, reading: &mut Reading) {
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
