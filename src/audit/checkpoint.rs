//! How far a large log was read, and what had been made of it there: where it has only grown, the next audit reads on.
//!
//! The rules are those of a rollout's [`checkpoint`](crate::scan::checkpoint): the same file that is larger, or of the same
//! stamps, of which the beginning, the bytes in front of the place, and the rows that mattered (the last ones, and a part of
//! the others) are what they were. Where anything is doubtful the log is read whole.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use throughline_parsers::pack::{Pack, Packer, Unpacker};

use super::gather::Reader;
use super::record::{Log, table_digest};
use crate::cache::{About, Cache, Name};
use crate::scan::counted::{Counted, Place, plain_from};
use crate::scan::proof::Proof;
use crate::scan::stamps::Stamps;

/// A smaller log is read whole: that takes no longer, and of many small ones nothing more has to be stored.
const WORTH_KEEPING: u64 = 4 << 20;
/// Room for what is saved of most logs. What is not used of it is never touched.
const ROOM: usize = 1 << 20;

/// What is remembered of a large log besides its record.
#[derive(Debug)]
struct Checkpoint<L: Log> {
    /// What the file was.
    stamps: Stamps,
    proof: Proof,
    /// The last LF that it had.
    place: Place<L::Ledger>,
}

impl<L: Log> Checkpoint<L> {
    fn load(cache: &Cache, path: &Path) -> Option<Self> {
        Self::unpack(path, &cache.load(&name_of::<L>(path))?.next_block()?)
    }

    fn unpack(path: &Path, block: &[u8]) -> Option<Self> {
        let mut unpacker = Unpacker::new(block);
        if unpacker.counted()? != path.as_os_str().as_bytes() || unpacker.number()? != table_digest::<L>() {
            return None;
        }
        let (stamps, proof) = (Stamps::unpack(&mut unpacker)?, Proof::unpack(&mut unpacker)?);
        let place = Place::unpack(&mut unpacker)?;
        unpacker.is_at_end().then_some(Self { stamps, proof, place })
    }
}

fn packed<L: Log>(path: &Path, stamps: Stamps, proof: Proof, place: &Place<L::Ledger>) -> Vec<u8> {
    let mut packer = Packer::with_capacity(ROOM);
    packer.counted(path.as_os_str().as_bytes());
    packer.number(table_digest::<L>());
    stamps.pack(&mut packer);
    proof.pack(&mut packer);
    place.pack(&mut packer);
    packer.finish()
}

fn name_of<L: Log>(path: &Path) -> Name {
    Name::of(About::Audit, &[b"checkpoint", L::WORD.as_bytes(), path.as_os_str().as_bytes()])
}

/// An open plain log that is large enough for a checkpoint.
#[derive(Debug)]
pub struct LargeLog<'r, L> {
    reader: &'r Reader<'r>,
    cache: &'r Cache,
    path: &'r Path,
    file: &'r File,
    /// What it was when it was opened. What is appended later is not read.
    stamps: Stamps,
    log: std::marker::PhantomData<L>,
}

/// What came of a reading, and what the next one needs to go on behind it.
type ReadLog<L> = (Counted<<L as Log>::Ledger>, Option<Vec<u8>>);

impl<'r, L: Log> LargeLog<'r, L> {
    /// The log, if it is large, and if anything is remembered.
    pub fn of(reader: &'r Reader<'r>, path: &'r Path, file: &'r File, stamps: Stamps) -> Option<Self> {
        let cache = reader.cache.filter(|_| stamps.size >= WORTH_KEEPING)?;
        Some(Self { reader, cache, path, file, stamps, log: std::marker::PhantomData })
    }

    /// Reads it, as much of it as is not remembered; `None` when it was stopped.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn count(&self) -> io::Result<Option<Counted<L::Ledger>>> {
        let known = Checkpoint::<L>::load(self.cache, self.path).filter(|known| self.has_only_grown_from(known));
        if let Some(Checkpoint { stamps, proof, place }) = known {
            self.reader.progress.spare(place.offset);
            let Some((counted, saved)) = self.read_from(place, Some(&proof))? else { return Ok(None) };
            if counted.is_sound() {
                // What was found unchanged is stored already.
                self.store(saved.filter(|_| stamps != self.stamps));
                return Ok(Some(counted));
            }
            self.cache.forget(&name_of::<L>(self.path));
            self.reader.progress.expect(0, self.stamps.size);
        }
        let Some((counted, saved)) = self.read_from(Place::provable_start(L::ledger()), None)? else { return Ok(None) };
        self.store(saved);
        Ok(Some(counted))
    }

    fn has_only_grown_from(&self, known: &Checkpoint<L>) -> bool {
        self.stamps.can_have_grown_from(&known.stamps)
            && known.place.offset <= self.stamps.size
            && known.place.is_proven(&known.proof, &self.read_at())
    }

    fn read_from(&self, place: Place<L::Ledger>, earlier: Option<&Proof>) -> io::Result<Option<ReadLog<L>>> {
        let mut saved = None;
        let counted = plain_from(place, self.file, self.stamps.size, self.reader.progress, |place| {
            let proof = place.proof(&self.read_at());
            let proof = proof.map(|new| earlier.map_or(new, |earlier| new.with_slice_behind(earlier)));
            saved = proof.map(|proof| packed::<L>(self.path, self.stamps, proof, place));
        })?;
        Ok(counted.map(|counted| (counted, saved)))
    }

    fn store(&self, saved: Option<Vec<u8>>) {
        let Some(saved) = saved else { return };
        // What was written while it was read may be in there or not.
        if Stamps::of_open(self.file).is_ok_and(|now| now.stamps.can_have_grown_from(&self.stamps)) {
            self.cache.store(&name_of::<L>(self.path), &[saved]);
        }
    }

    fn read_at(&self) -> impl Fn(u64, &mut [u8]) -> bool + Sync {
        |offset: u64, buffer: &mut [u8]| self.file.read_exact_at(buffer, offset).is_ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    use crate::audit::Progress;
    use crate::audit::rollouts::Rollout;
    use crate::audit::transcripts::Transcript;
    use crate::scan::stamps::Moment;

    #[test]
    fn what_is_saved_is_one_logs_checkpoint_or_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let rows = [
            r#"{"timestamp":"2026-02-03T00:00:00.000Z","type":"session_meta","payload":{"id":"a","cwd":"/p"}}"#,
            r#"{"timestamp":"2026-02-03T00:00:01.000Z","type":"event_msg","payload":{"type":"task_started","turn_id":"t"}}"#,
            r#"{"timestamp":"2026-02-03T00:00:02.000Z","type":"event_msg","payload":{"type":"user_message","message":"m"}}"#,
        ];
        std::fs::write(file.path(), rows.join("\n") + "\n").unwrap();
        let (progress, cache) = (Progress::default(), Cache::below(file.path().with_extension("none")));
        let reader = Reader { cache: Some(&cache), now: Moment::now(Duration::ZERO), progress: &progress };
        let stamps = Stamps::of_open(file.as_file()).unwrap().stamps;
        assert!(LargeLog::<Rollout>::of(&reader, file.path(), file.as_file(), stamps).is_none(), "it is small");
        let log = LargeLog::<Rollout> {
            reader: &reader,
            cache: &cache,
            path: file.path(),
            file: file.as_file(),
            stamps,
            log: std::marker::PhantomData,
        };
        let (_, saved) = log.read_from(Place::provable_start(Rollout::ledger()), None).unwrap().unwrap();
        let saved = saved.unwrap();
        let known = Checkpoint::<Rollout>::unpack(file.path(), &saved).unwrap();
        assert!(log.has_only_grown_from(&known));
        assert_eq!((known.stamps, known.place.offset), (stamps, stamps.size));
        assert_eq!(packed::<Rollout>(file.path(), stamps, known.proof, &known.place), saved);
        assert!(Checkpoint::<Rollout>::unpack(Path::new("/another"), &saved).is_none());
        assert!(Checkpoint::<Transcript>::unpack(file.path(), &saved).is_none());
        assert!((0..saved.len()).all(|len| Checkpoint::<Rollout>::unpack(file.path(), &saved[..len]).is_none()));
        assert!(Checkpoint::<Rollout>::unpack(file.path(), &[&saved[..], b"0"].concat()).is_none());
    }
}
