//! One rollout file: opened once, then its identity or its turns are read from that descriptor.
//!
//! A large plain file is mapped where the caller allows it. Everything else (small files, packed ones, and all files where
//! mapping is not allowed) is read through one buffer.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapOptions;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use throughline_parsers::codex::{MissingRow, RowRef};

use super::buffer::lend;
use super::folders::{self, Listed};
use super::parts::Parts;
use super::reading::{Contents, FirstObject, State, first_object_of};
use super::stamps::Stamps;
use super::stream::{Source, streamed};

/// Files up to this size are read into a buffer, which then costs less than mapping.
const SMALL: u64 = 1 << 20;

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
    /// Whether it is a zstd stream.
    pub packed: bool,
    /// What it was when it was opened.
    pub stamps: Stamps,
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
            if let Some(found) = open_path(&listed.path, packed)? {
                return Self::new(found, packed);
            }
        }
        let Some(again) = folders::again(listed)? else { return Ok(None) };
        match open_path(&again.path, again.name.packed)? {
            Some(found) => Self::new(found, again.name.packed),
            None => Ok(None),
        }
    }

    /// Opens a rollout by its name in an open folder; `None` where that is not as simple as that.
    fn open_in(folder: &OwnedFd, listed: &Listed) -> Option<Self> {
        let plain = listed.path.file_name().filter(|_| !listed.name.packed)?;
        let file = rustix::fs::openat(folder, plain, FLAGS, Mode::empty()).ok()?;
        Self::new(File::from(file), false).ok()?
    }

    fn new(file: File, packed: bool) -> io::Result<Option<Self>> {
        let found = Stamps::of_open(&file)?;
        Ok(found.is_file().then_some(Self { file, packed, stamps: found.stamps }))
    }

    /// Its first object, if one can be read.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn first_object(&self) -> io::Result<FirstObject> {
        lend(|buffer| match self.packed {
            true => first_object_of(&mut Packed::of(self, u64::MAX).open(0)?, buffer),
            false => first_object_of(&mut FileFrom { file: &self.file, at: 0 }, buffer),
        })
    }

    /// Everything from a state on up to byte `end` of the (unpacked) file, or up to its present end.
    ///
    /// # Errors
    /// The file cannot be read. Inside, [`MissingRow`] when a message that was read earlier is not where it was.
    pub fn read(
        &self,
        mut state: State,
        end: Option<u64>,
        mapping: Mapping,
    ) -> io::Result<Result<Contents, MissingRow>> {
        if self.packed {
            return streamed(&Packed::of(self, end.unwrap_or(u64::MAX)), state);
        }
        // What is appended from here on is the next read's.
        let len = self.stamps.size.min(end.unwrap_or(u64::MAX));
        let plain = Plain { file: &self.file, len };
        if mapping == Mapping::Never || len.saturating_sub(state.offset) <= SMALL {
            return streamed(&plain, state);
        }
        if state.first.is_none() {
            state.first = lend(|buffer| first_object_of(&mut plain.open(0)?, buffer))?;
        }
        let start = (state.offset == 0).then(|| state.clone());
        let contents = self.mapped(len, state)?;
        if self.now()?.size >= len {
            return Ok(contents);
        }
        // Cut short while it was mapped: parts of it may have read as zeros.
        match start {
            Some(start) => streamed(&plain, start),
            None => Ok(Err(MissingRow)),
        }
    }

    /// The unpacked bytes of a packed file, as if they ended there; and what tells, once they have been read, whether the
    /// stream is damaged.
    pub fn as_packed(&self, end: u64) -> (impl Source + '_, Arc<AtomicBool>) {
        let packed = Packed::of(self, end);
        let damaged = packed.damaged.clone();
        (packed, damaged)
    }

    /// The file itself.
    pub fn into_file(self) -> File {
        self.file
    }

    fn mapped(&self, len: u64, state: State) -> io::Result<Result<Contents, MissingRow>> {
        let len = usize::try_from(len).map_err(|_| ErrorKind::FileTooLarge)?;
        // SAFETY: the mapping is read-only and private to this call. That the file's bytes may change under it is what
        // mapping means here: they are only ever looked at as bytes, every position found in them is used with bounds
        // checks, and no decision that `unsafe` code relies on is made from them. Cutting the file short raises SIGBUS,
        // which whoever chose `Mapping::LargeFiles` has promised to handle.
        let map = unsafe { MmapOptions::new().len(len).map(&self.file)? };
        Ok(Parts::read(&map, state))
    }

    /// What it is now.
    ///
    /// # Errors
    /// The system's.
    pub fn now(&self) -> io::Result<Stamps> {
        Ok(Stamps::of_open(&self.file)?.stamps)
    }

    /// Reads bytes of the file itself into the buffer, all that it holds; false when they cannot be had.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> bool {
        self.file.read_exact_at(buffer, offset).is_ok()
    }
}

/// Opens a regular file that was listed, and tells what it was then; `None` when it is gone or something else has taken its
/// place.
///
/// # Errors
/// It is there and cannot be opened.
pub fn open_listed(path: &Path) -> io::Result<Option<(File, Stamps)>> {
    let Some(file) = open_path(path, false)? else { return Ok(None) };
    let found = Stamps::of_open(&file)?;
    Ok(found.is_file().then_some((file, found.stamps)))
}

fn open_path(plain: &Path, packed: bool) -> io::Result<Option<File>> {
    let path = if packed { packed_path(plain) } else { plain.to_path_buf() };
    match rustix::fs::open(path, FLAGS, Mode::empty()) {
        Ok(file) => Ok(Some(File::from(file))),
        Err(Errno::NOENT | Errno::LOOP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The bytes of a plain file up to where they are read.
struct Plain<'f> {
    file: &'f File,
    len: u64,
}

impl<'f> Source for Plain<'f> {
    type Stream = io::Take<FileFrom<'f>>;

    fn open(&self, offset: u64) -> io::Result<Self::Stream> {
        Ok(FileFrom { file: self.file, at: offset }.take(self.len.saturating_sub(offset)))
    }

    fn row(&self, at: RowRef) -> Option<Vec<u8>> {
        if at.span().end > self.len {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(at.len).ok()?];
        self.file.read_exact_at(&mut bytes, at.offset).ok()?;
        Some(bytes)
    }

    fn most_behind(&self, offset: u64) -> Option<u64> {
        Some(self.len.saturating_sub(offset))
    }
}

/// The bytes in a packed file, which are only ever read from their start.
struct Packed<'f> {
    file: &'f File,
    end: u64,
    /// Set where not all of it can be decoded.
    damaged: Arc<AtomicBool>,
}

impl<'f> Packed<'f> {
    fn of(rollout: &'f Rollout, end: u64) -> Self {
        Self { file: &rollout.file, end, damaged: Arc::default() }
    }
}

impl<'f> Source for Packed<'f> {
    type Stream = io::Take<Decodable<zstd::Decoder<'static, io::BufReader<FileFrom<'f>>>>>;

    fn open(&self, offset: u64) -> io::Result<Self::Stream> {
        let stream = zstd::Decoder::new(FileFrom { file: self.file, at: 0 })?;
        let mut bytes = Decodable { stream, damaged: self.damaged.clone() };
        io::copy(&mut bytes.by_ref().take(offset), &mut io::sink())?;
        Ok(bytes.take(self.end.saturating_sub(offset)))
    }

    fn row(&self, _at: RowRef) -> Option<Vec<u8>> {
        None
    }

    fn most_behind(&self, _offset: u64) -> Option<u64> {
        None
    }
}

/// Opens listed rollouts of one folder: by name in the folder, files cost no walk along their path.
#[derive(Debug)]
pub struct Opener {
    folder: Option<OwnedFd>,
}

impl Opener {
    /// For the files of this folder.
    pub fn of(folder: &Path) -> Self {
        Self { folder: rustix::fs::open(folder, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok() }
    }

    /// The stamps of a rollout, without opening it; `None` when it is not there under its name, or no regular file.
    ///
    /// # Errors
    /// The system's.
    pub fn stamps(&self, listed: &Listed) -> io::Result<Option<Stamps>> {
        let path = listed.file();
        let found = match (&self.folder, path.file_name()) {
            (Some(folder), Some(name)) => Stamps::of_path(folder, Path::new(name))?,
            _ => Stamps::of_path(rustix::fs::CWD, &path)?,
        };
        Ok(found.filter(|found| found.is_file()).map(|found| found.stamps))
    }

    /// Opens a rollout; `None` when it is gone.
    ///
    /// # Errors
    /// It is there and cannot be opened.
    pub fn open(&self, listed: &Listed) -> io::Result<Option<Rollout>> {
        match self.folder.as_ref().and_then(|folder| Rollout::open_in(folder, listed)) {
            Some(rollout) => Ok(Some(rollout)),
            // In any case of doubt as every other file is opened.
            None => Rollout::open(listed),
        }
    }
}

fn packed_path(plain: &Path) -> PathBuf {
    let mut path = plain.as_os_str().to_owned();
    path.push(".zst");
    PathBuf::from(path)
}

/// A file read from a position of this reader's own.
pub struct FileFrom<'f> {
    /// The file.
    pub file: &'f File,
    /// Where the next bytes are read.
    pub at: u64,
}

impl Read for FileFrom<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Of a damaged stream counts what can be decoded: an error is its end.
struct Decodable<R> {
    stream: R,
    damaged: Arc<AtomicBool>,
}

impl<R: Read> Read for Decodable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // What one call decodes in front of damage is lost with it, so calls are kept short: a zstd block is 128 KiB at most.
        let block = buffer.len().min(128 << 10);
        Ok(self.stream.read(&mut buffer[..block]).unwrap_or_else(|_| {
            self.damaged.store(true, Ordering::Relaxed);
            0
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;
    use throughline_parsers::codex::{Meta, Turns};
    use throughline_parsers::pack::{Pack, Packer, Unpacker};

    const THREAD: &str = "019c0000-0000-7000-8000-000000000001";

    /// A rollout of some MB in which rows stand in every way across the ends of parts and blocks: long ones that are
    /// passed over, long ones that are read, and rows behind one that was left half written.
    fn rollout() -> String {
        let row = |kind: &str, payload: String| {
            format!("{{\"timestamp\":\"2026-07-01T00:00:00.000Z\",\"type\":\"{kind}\",\"payload\":{payload}}}")
        };
        let event = |payload: String| row("event_msg", payload);
        let mut text = row("session_meta", format!("{{\"id\":\"{THREAD}\",\"cwd\":\"/p\"}}")) + "\n";
        let sizes = [10, 700 << 10, 300, 80 << 10, (512 << 10) - 200, 5, 40 << 10];
        for n in 0..60 {
            let size = sizes[n % sizes.len()] + n * 17;
            text += &event(format!("{{\"type\":\"task_started\",\"turn_id\":\"t{n}\"}}"));
            text += "\n";
            let passed = row("compacted", format!("{{\"message\":\"{}\"}}", "x".repeat(size)));
            // Now and then such a row is cut, and the next one follows on the same line.
            text += if n % 5 == 3 { &passed[..passed.len() - 2] } else { &passed };
            text += if n % 5 == 3 { "" } else { "\n" };
            text += &event(format!("{{\"type\":\"user_message\",\"message\":\"ask {n} {}\"}}", "y".repeat(size / 3)));
            text += "\n";
            text += &event(format!("{{\"type\":\"agent_message\",\"message\":\"answer {n}\"}}"));
            text += if n % 7 == 6 { "" } else { "\n" };
            text += &event(format!("{{\"type\":\"task_complete\",\"turn_id\":\"t{n}\"}}"));
            text += "\n";
        }
        text.truncate(text.len() - 1);
        text
    }

    fn listed(path: &Path, packed: bool) -> Listed {
        let name = throughline_parsers::codex::RolloutName::parse(path.file_name().unwrap().to_str().unwrap()).unwrap();
        Listed { path: path.to_owned(), name: throughline_parsers::codex::RolloutName { packed, ..name } }
    }

    fn completed(listed: &Listed, end: Option<u64>, mapping: Mapping) -> (Option<Meta>, String) {
        told(&read_on(listed, State::default(), end, mapping))
    }

    fn read_on(listed: &Listed, state: State, end: Option<u64>, mapping: Mapping) -> Contents {
        let rollout = Rollout::open(listed).unwrap().unwrap();
        rollout.read(state, end, mapping).unwrap().unwrap()
    }

    fn told(contents: &Contents) -> (Option<Meta>, String) {
        let completed = contents.turns().completed_in(THREAD.parse().unwrap(), contents.copied());
        (contents.meta().cloned(), format!("{completed:?}"))
    }

    /// A state as it is when it was saved and taken up again.
    fn taken_up(state: &State) -> State {
        let mut packer = Packer::default();
        state.turns.pack(&mut packer);
        State { turns: Turns::unpack(&mut Unpacker::new(&packer.finish())).unwrap(), ..state.clone() }
    }

    #[test]
    fn reading_on_is_reading_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("rollout-2026-07-01T00-00-00-{THREAD}.jsonl"));
        let text = rollout();
        fs::write(&path, &text).unwrap();
        let listed = listed(&path, false);
        let at_once = read_on(&listed, State::default(), None, Mapping::Never);
        let size = text.len() as u64;
        for n in 0..10 {
            let cut = size * n / 10 + n * 31;
            for mapping in [Mapping::Never, Mapping::LargeFiles] {
                let before = read_on(&listed, State::default(), Some(cut), mapping);
                let line_start = text.as_bytes()[..cut as usize].iter().rposition(|byte| *byte == b'\n');
                assert_eq!(before.state.offset, line_start.map_or(0, |at| at as u64 + 1));
                let after = read_on(&listed, taken_up(&before.state), None, mapping);
                assert_eq!(told(&after), told(&at_once), "cut at {cut}, {mapping:?}");
                assert_eq!(after.state.rows, at_once.state.rows, "cut at {cut}, {mapping:?}");
            }
        }
    }

    #[test]
    fn a_rollout_is_the_same_mapped_streamed_and_packed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("rollout-2026-07-01T00-00-00-{THREAD}.jsonl"));
        let text = rollout();
        assert!(text.len() as u64 > 5 * SMALL);
        fs::write(&path, &text).unwrap();
        fs::write(packed_path(&path), zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
        let part = 512 << 10;
        let ends = (2..8).flat_map(|n| [n * part - 15, n * part - 1, n * part, n * part + 1, n * part + 14]);
        for end in ends.map(Some).chain([None]) {
            let streamed = completed(&listed(&path, false), end, Mapping::Never);
            assert!(streamed.0.is_some());
            assert!(completed(&listed(&path, false), end, Mapping::LargeFiles) == streamed, "mapped up to {end:?}");
            assert!(completed(&listed(&path, true), end, Mapping::Never) == streamed, "packed up to {end:?}");
        }
        let (_, all) = completed(&listed(&path, false), None, Mapping::LargeFiles);
        assert_eq!(all.matches("Completed {").count(), 60);
    }

    #[test]
    fn of_a_damaged_stream_counts_what_can_be_decoded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("rollout-2026-07-01T00-00-00-{THREAD}.jsonl"));
        let packed = zstd::encode_all(rollout().as_bytes(), 1).unwrap();
        for (damaged, has_identity) in [(&packed[..packed.len() / 2], true), (&packed[..3], false), (b"no zstd", false)]
        {
            fs::write(packed_path(&path), damaged).unwrap();
            let contents = read_on(&listed(&path, true), State::default(), None, Mapping::Never);
            assert_eq!(contents.meta().is_some(), has_identity);
        }
    }

    #[test]
    fn what_took_the_place_of_a_rollout_is_no_rollout() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("rollout-2026-07-01T00-00-00-{THREAD}.jsonl"));
        assert!(Rollout::open(&listed(&path, false)).unwrap().is_none());
        fs::create_dir(&path).unwrap();
        assert!(Rollout::open(&listed(&path, false)).unwrap().is_none());
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(Rollout::open(&listed(&path, false)).unwrap().is_none());
        assert!(Opener::of(folder.path()).open(&listed(&path, false)).unwrap().is_none());
    }
}
