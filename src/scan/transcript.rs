//! One Claude transcript: an open file, and the rows in it.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use throughline_parsers::claude::{self, Row, read_line};
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

/// A row, the bytes of its object, and whether its line has ended: only then nothing can come behind it there.
#[derive(Clone, Copy, Debug)]
pub struct ReadRow<'r> {
    /// The row.
    pub row: &'r Row,
    /// Its object's bytes.
    pub bytes: &'r [u8],
    /// Its line has its LF.
    pub ended: bool,
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

    /// The same as if it ended there, in bytes.
    #[must_use]
    pub fn up_to(self, end: u64) -> Self {
        let mut stamps = self.stamps;
        stamps.size = stamps.size.min(end);
        Self { stamps, ..self }
    }

    /// What it is now.
    ///
    /// # Errors
    /// The system's.
    pub fn now(&self) -> io::Result<Stamps> {
        Ok(Stamps::of_open(&self.file)?.stamps)
    }

    /// Calls `each` with every row that is read from an offset behind an LF on. Gives the offset just past the last LF.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn rows(&self, offset: u64, mut each: impl FnMut(ReadRow<'_>)) -> io::Result<u64> {
        lines::<claude::Transcript>(&self, offset, |line, bytes| {
            for row in &read_line(bytes, line.span.start, line.ended) {
                let start = (row.at().offset - line.span.start) as usize;
                let bytes = &bytes[start..start + row.at().len as usize];
                each(ReadRow { row, bytes, ended: line.ended });
            }
        })
    }

    /// Bytes of the file, as far as it was there when it was opened.
    pub fn bytes(&self, span: Range<u64>) -> Option<Vec<u8>> {
        let len = span.end.checked_sub(span.start).filter(|_| span.end <= self.stamps.size)?;
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.read_at(span.start, &mut bytes).then_some(bytes)
    }

    /// Reads bytes of the file into the buffer, all that it holds; false when they cannot be had.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> bool {
        self.file.read_exact_at(buffer, offset).is_ok()
    }
}

impl<'t> Source for &'t Transcript {
    type Stream = io::Take<FileFrom<'t>>;

    fn open(&self, offset: u64) -> io::Result<Self::Stream> {
        Ok(FileFrom { file: &self.file, at: offset }.take(self.stamps.size.saturating_sub(offset)))
    }

    fn row(&self, at: RowRef) -> Option<Vec<u8>> {
        self.bytes(at.span())
    }

    fn most_behind(&self, offset: u64) -> Option<u64> {
        Some(self.stamps.size.saturating_sub(offset))
    }
}
