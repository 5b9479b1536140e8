//! One Claude transcript: its turns, and the bytes that their texts are read from.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use throughline_parsers::claude::{self, Turns, read_line};
use throughline_parsers::codex::RowRef;

use super::file::FileFrom;
use super::stamps::Stamps;
use super::stream::{Source, lines};

/// An open transcript.
#[derive(Debug)]
pub struct Transcript {
    file: File,
    /// What it was when it was opened. What is appended later is not read.
    pub stamps: Stamps,
}

impl Transcript {
    /// Opens a transcript; `None` when it is not there yet, or no regular file.
    ///
    /// # Errors
    /// It is there and cannot be opened.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let found = Stamps::of_open(&file)?;
        Ok(found.is_file().then_some(Self { file, stamps: found.stamps }))
    }

    /// Its turns.
    ///
    /// # Errors
    /// It cannot be read, or changes while it is read.
    pub fn turns(&self) -> io::Result<Turns> {
        let (mut turns, mut missing) = (Turns::default(), false);
        lines::<claude::Transcript>(self, |line, bytes| {
            for row in read_line(bytes, line.span.start, line.ended) {
                missing |= turns.apply(&row, |span| self.bytes(span)).is_err();
            }
        })?;
        if missing { Err(io::Error::other("the transcript changes while it is read")) } else { Ok(turns) }
    }

    /// Bytes of the file, as far as it was there when it was opened.
    pub fn bytes(&self, span: Range<u64>) -> Option<Vec<u8>> {
        let len = span.end.checked_sub(span.start).filter(|_| span.end <= self.stamps.size)?;
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.file.read_exact_at(&mut bytes, span.start).ok()?;
        Some(bytes)
    }
}

impl Source for Transcript {
    type Stream = io::Take<OwnedFileFrom>;

    fn open(&self, offset: u64) -> io::Result<Self::Stream> {
        Ok(OwnedFileFrom { file: self.file.try_clone()?, at: offset }.take(self.stamps.size.saturating_sub(offset)))
    }

    fn row(&self, at: RowRef) -> Option<Vec<u8>> {
        self.bytes(at.span())
    }

    fn most_behind(&self, offset: u64) -> Option<u64> {
        Some(self.stamps.size.saturating_sub(offset))
    }
}

/// A file read from a position of this reader's own.
#[derive(Debug)]
pub struct OwnedFileFrom {
    file: File,
    at: u64,
}

impl Read for OwnedFileFrom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut from = FileFrom { file: &self.file, at: self.at };
        let read = from.read(buffer)?;
        self.at = from.at;
        Ok(read)
    }
}
