//! One rollout file: opened once, then its identity or its turns are read from that descriptor.
//!
//! A large plain file is mapped where the caller allows it. Everything else (small files, packed ones, and all files where
//! mapping is not allowed) is read through one buffer.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memmap2::MmapOptions;
use rayon::prelude::*;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use throughline_parsers::codex::{Meta, Turns};

use super::buffer::Buffer;
use super::folders::{self, Folder, Listed};
use super::parts::Parts;
use super::reading::{Contents, FirstObject, Reading, first_object_of};
use super::stream::streamed;

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
    stamps: Metadata,
    packed: bool,
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
        let mut reading = Reading::begin(first_object_of(&mut self.plain().take(len as u64), buffer)?, turns);
        Parts::of(&map).read_into(&mut reading);
        Ok(reading.finish())
    }

    fn first_object(&self, buffer: &mut Buffer) -> io::Result<FirstObject> {
        match self.packed {
            true => first_object_of(&mut self.unpacked()?, buffer),
            false => first_object_of(&mut self.plain(), buffer),
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
    first_object_of(&mut FileFrom { file: &File::from(file), at: 0 }, buffer).ok()
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

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
        let rollout = Rollout::open(listed).unwrap().unwrap();
        let contents = rollout.contents(end, Turns::default(), mapping, &mut Buffer::default()).unwrap();
        (contents.meta, format!("{:?}", contents.turns.completed_in(THREAD.parse().unwrap(), contents.copied)))
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
            let rollout = Rollout::open(&listed(&path, true)).unwrap().unwrap();
            let contents = rollout.contents(None, Turns::default(), Mapping::Never, &mut Buffer::default()).unwrap();
            assert_eq!(contents.meta.is_some(), has_identity);
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
        let folder = Folder { path: folder.path().to_owned(), rollouts: vec![listed(&path, false)] };
        assert!(identities(folder).unwrap().is_empty());
    }
}
