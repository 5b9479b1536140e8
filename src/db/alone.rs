//! A database that nobody else has open is read as a file that does not change: that takes a third of the system calls, and
//! leaves no log and no index of one beside it.
//!
//! That it does not change is proven by what SQLite itself keeps to: whoever writes makes a log (or a journal) beside the
//! database first, and takes it away again only while nobody has a lock on the database. So with such a lock, no log before
//! and none after mean none in between.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use rustix::fs::{CWD, Mode, OFlags};

use crate::scan::stamps::{Moment, Stamps};

/// How long a lock of somebody else is waited for.
const BUSY: Duration = Duration::from_secs(1);

/// Reads the database at this path. Where somebody opened it meanwhile, that is done once more, and what comes of the second
/// time counts.
///
/// # Errors
/// The database cannot be opened, or what `read` says.
pub fn read<T, E: From<rusqlite::Error>>(path: &Path, read: impl Fn(&mut Connection) -> Result<T, E>) -> Result<T, E> {
    if let Some(alone) = Alone::with(path) {
        let found = open(path, true).map_err(E::from).and_then(|mut database| read(&mut database));
        if alone.still_is() {
            return found;
        }
    }
    read(&mut open(path, false)?)
}

/// A file of SQLite's beside the database.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    PathBuf::from(name)
}

fn open(path: &Path, alone: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let mut name = b"file:".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | b'?' | b'#' => name.extend(format!("%{byte:02x}").bytes()),
            _ => name.push(*byte),
        }
    }
    name.extend(if alone { &b"?immutable=1"[..] } else { b"" });
    let database = Connection::open_with_flags(OsString::from_vec(name), flags)?;
    database.busy_timeout(BUSY)?;
    Ok(database)
}

/// A database that nobody else has open.
struct Alone<'p> {
    path: &'p Path,
    stamps: Stamps,
    /// Holds the lock.
    _file: File,
}

impl<'p> Alone<'p> {
    /// `None` where somebody may have it open, or has left a log.
    fn with(path: &'p Path) -> Option<Self> {
        // Where it is a link, the log stands elsewhere; opening a pipe would wait for somebody to write to it.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
        let proven = lock(&file);
        let found = Stamps::of_open(&file).ok().filter(|found| found.is_file())?;
        let proven = proven || found.stamps.settled(Moment::now(Duration::ZERO));
        let alone = Self { path, stamps: found.stamps, _file: file };
        (proven && alone.still_is()).then_some(alone)
    }

    /// Whether nobody has opened it, or put another one in its place.
    fn still_is(&self) -> bool {
        let found = Stamps::of_path(CWD, self.path);
        let is_same = matches!(found, Ok(Some(found)) if found.stamps == self.stamps);
        let is_absent = |end| matches!(Stamps::of_path(CWD, &beside(self.path, end)), Ok(None));
        is_same && is_absent("-wal") && is_absent("-journal")
    }
}

/// Takes the lock that SQLite's readers take, for as long as this file is open; false where that cannot be had. Writers that
/// are there already, or come, are not kept from writing to their log.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn lock(file: &File) -> bool {
    use std::os::fd::AsRawFd;

    // From SQLite's file format: the bytes of the file on which shared locks stand.
    const FIRST_SHARED: libc::off_t = 0x4000_0002;
    const SHARED: libc::off_t = 510;
    // SAFETY: all of its fields are numbers, for which 0 is a value.
    let mut of_readers: libc::flock = unsafe { std::mem::zeroed() };
    of_readers.l_type = libc::F_RDLCK as libc::c_short;
    of_readers.l_whence = libc::SEEK_SET as libc::c_short;
    (of_readers.l_start, of_readers.l_len) = (FIRST_SHARED, SHARED);
    // The lock is this open file's: the usual ones are the process', and SQLite would let go of it.
    // SAFETY: the descriptor is open, and this call reads the structure, which lives until it has returned.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const of_readers) == 0 }
}

/// Elsewhere there are no locks that are an open file's.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn lock(_: &File) -> bool {
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::db::capture::{CodexTurn, store_codex_thread};
    use crate::db::schema;
    use std::cell::Cell;
    use std::fs;

    fn store(database: &mut Connection, session: &str) {
        let turn = CodexTurn { turn_number: 1, user: Some("one"), assistant: Some("answer"), completed_at: Some(1) };
        store_codex_thread(database, session, "/p", &[turn], 5).unwrap();
    }

    fn sessions(database: &Connection) -> rusqlite::Result<i64> {
        database.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0))
    }

    fn names(path: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    /// What a read finds, and how often it looked.
    fn found(path: &Path, meanwhile: impl Fn(u32)) -> (i64, u32) {
        let times = Cell::new(0);
        let found = read(path, |database| {
            let found = sessions(database)?;
            times.set(times.get() + 1);
            meanwhile(times.get());
            Ok::<_, rusqlite::Error>(found)
        });
        (found.unwrap(), times.get())
    }

    #[test]
    fn nobody_leaves_a_trace_and_what_is_only_in_a_log_is_seen() {
        let home = tempfile::tempdir().unwrap();
        // What means something in the name of a database.
        let path = schema::path(&home.path().join("a?b#c%41 d"));
        let mut database = schema::open(&path).unwrap();
        store(&mut database, "t");
        assert_eq!(found(&path, |_| {}), (1, 1));
        store(&mut database, "u");
        assert_eq!(found(&path, |_| {}), (2, 1));
        drop(database);
        assert_eq!(found(&path, |_| {}), (2, 1));
        assert_eq!(names(&path), ["throughline.db"]);
    }

    #[test]
    fn who_writes_meanwhile_is_seen_although_nothing_is_left_of_it() {
        let home = tempfile::tempdir().unwrap();
        let path = schema::path(home.path());
        store(&mut schema::open(&path).unwrap(), "t");
        assert_eq!(names(&path), ["throughline.db"]);
        let write_once = |time| {
            if time == 1 {
                store(&mut schema::open(&path).unwrap(), "u");
            }
        };
        assert_eq!(found(&path, write_once), (2, 2));
        // The next writer takes away what was left.
        store(&mut schema::open(&path).unwrap(), "v");
        assert_eq!(names(&path), ["throughline.db"]);
        assert_eq!(found(&path, |_| {}), (3, 1));
    }

    #[test]
    fn another_one_in_its_place_is_seen() {
        let home = tempfile::tempdir().unwrap();
        let (path, other) = (schema::path(&home.path().join("a")), schema::path(&home.path().join("b")));
        store(&mut schema::open(&path).unwrap(), "t");
        drop(schema::open(&other).unwrap());
        let put_once = |time| {
            if time == 1 {
                fs::rename(&other, &path).unwrap()
            }
        };
        assert_eq!(found(&path, put_once), (0, 2));
    }

    #[test]
    fn a_journal_of_a_writer_that_died_is_not_passed_over() {
        let home = tempfile::tempdir().unwrap();
        let path = schema::path(home.path());
        store(&mut schema::open(&path).unwrap(), "t");
        assert!(Alone::with(&path).is_some());
        for end in ["-journal", "-wal"] {
            fs::write(beside(&path, end), "").unwrap();
            assert!(Alone::with(&path).is_none());
            fs::remove_file(beside(&path, end)).unwrap();
        }
        std::os::unix::fs::symlink(&path, home.path().join("link")).unwrap();
        assert!(Alone::with(&home.path().join("link")).is_none());
    }
}
