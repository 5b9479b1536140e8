//! What the system says of a file or folder without its bytes: whether it can have changed since.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, FileType, Stat};
use rustix::io::Errno;
use throughline_parsers::pack::{Pack, Packer, Unpacker};

/// A moment in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// The system's time now, and that much later.
    pub fn now(ahead: Duration) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from((since + ahead).as_nanos()).unwrap_or(i64::MAX))
    }

    /// How long it has been since `earlier`; `None` when that was later.
    pub fn since(self, earlier: Self) -> Option<Duration> {
        u64::try_from(self.0.checked_sub(earlier.0)?).ok().map(Duration::from_nanos)
    }
}

impl Pack for Moment {
    fn pack(&self, packer: &mut Packer) {
        packer.signed(self.0);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        unpacker.signed().map(Self)
    }
}

/// What changes when a file or folder does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    device: u64,
    inode: u64,
    /// In bytes.
    pub size: u64,
    modified: Moment,
    changed: Moment,
}

/// A write so soon behind another can leave the same times, where the clock of the file system ticks slowly.
const TICK: Duration = Duration::from_secs(2);

impl Stamps {
    /// Of an open file.
    ///
    /// # Errors
    /// The system's.
    pub fn of_open(file: impl AsFd) -> io::Result<Found> {
        Ok(Found::new(&rustix::fs::fstat(file)?))
    }

    /// Of what stands at a path, seen from an open folder. A link is not followed. `None` when nothing is there.
    ///
    /// # Errors
    /// The system's.
    pub fn of_path(folder: impl AsFd, path: &Path) -> io::Result<Option<Found>> {
        match rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Found::new(&stat))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The same, following links.
    ///
    /// # Errors
    /// The system's.
    pub fn of_linked(path: &Path) -> io::Result<Option<Found>> {
        match rustix::fs::statat(CWD, path, AtFlags::empty()) {
            Ok(stat) => Ok(Some(Found::new(&stat))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a later look that finds the same stamps proves that nothing was written since they were taken: then they were
    /// old enough for any write to show.
    pub fn settled(&self, taken: Moment) -> bool {
        taken.since(self.modified.max(self.changed)).is_some_and(|age| age >= TICK)
    }

    /// Whether a file of these stamps can be the one of the `earlier` ones with bytes added, or none.
    pub fn can_have_grown_from(&self, earlier: &Self) -> bool {
        let same_file = (self.device, self.inode) == (earlier.device, earlier.inode);
        same_file && (self.size > earlier.size || self == earlier)
    }
}

/// What stands somewhere.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Its stamps.
    pub stamps: Stamps,
    /// Its kind.
    pub kind: FileType,
}

impl Found {
    fn new(stat: &Stat) -> Self {
        let moment = |seconds: i64, nanos: i64| Moment(seconds.saturating_mul(1_000_000_000).saturating_add(nanos));
        #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
        let stamps = Stamps {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: moment(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: moment(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        };
        Self { stamps, kind: FileType::from_raw_mode(stat.st_mode) }
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }
}

impl Pack for Stamps {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.device);
        packer.number(self.inode);
        packer.number(self.size);
        self.modified.pack(packer);
        // The two are most often the same moment, or nearly.
        packer.signed(self.changed.0.wrapping_sub(self.modified.0));
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let (device, inode, size) = (unpacker.number()?, unpacker.number()?, unpacker.number()?);
        let modified = Moment::unpack(unpacker)?;
        let changed = Moment(modified.0.wrapping_add(unpacker.signed()?));
        Some(Self { device, inode, size, modified, changed })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    #[test]
    fn stamps_are_settled_two_seconds_behind_the_last_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "x").unwrap();
        let stamps = Stamps::of_path(CWD, &path).unwrap().unwrap().stamps;
        assert_eq!(Stamps::of_open(fs::File::open(&path).unwrap()).unwrap().stamps, stamps);
        assert!(!stamps.settled(Moment::now(Duration::ZERO)));
        assert!(stamps.settled(Moment::now(Duration::from_secs(3))));
        // A file from the future is never settled.
        assert!(!stamps.settled(Moment(0)));
        assert!(Stamps::of_path(CWD, &folder.path().join("none")).unwrap().is_none());
    }

    #[test]
    fn a_file_has_grown_or_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let stamps = |text: &str| {
            fs::write(&path, text).unwrap();
            Stamps::of_path(CWD, &path).unwrap().unwrap().stamps
        };
        let (short, long) = (stamps("x"), stamps("xyz"));
        assert!(short.can_have_grown_from(&short) && long.can_have_grown_from(&short));
        assert!(!short.can_have_grown_from(&long));
        // Another file in its place, whatever its size, is none that has grown.
        fs::write(folder.path().join("other"), "xyz and more").unwrap();
        fs::rename(folder.path().join("other"), &path).unwrap();
        let other = Stamps::of_path(CWD, &path).unwrap().unwrap().stamps;
        assert!(!other.can_have_grown_from(&long));
        let mut packer = Packer::default();
        long.pack(&mut packer);
        assert_eq!(Stamps::unpack(&mut Unpacker::new(&packer.finish())), Some(long));
    }
}
