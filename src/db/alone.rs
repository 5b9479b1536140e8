//! A database that nobody else has open is read as a file that does not change: that takes a third of the system calls, and
//! leaves no log and no index of one beside it.
//!
//! That it does not change is proven by what SQLite itself keeps to: whoever writes makes a log (or a journal) beside the
//! database first, and takes it away again only while nobody has a lock on the database; without either it writes only
//! while nobody has. So with such a lock, no log before and none after mean that nobody wrote in between.
//!
//! The locks of SQLite are a process': they go when any descriptor of the file is closed there. So a process that has the
//! database open in other ways as well, in rollback mode, must not read it so at the same time.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
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
    if let Some(alone) = Alone::with(path, Moment::now(Duration::ZERO)) {
        let found = open(path, true).map_err(E::from).and_then(|mut database| read(&mut database));
        if alone.still_is() {
            return found;
        }
    }
    read_among_others(path, read)
}

/// Reads the database as one of several that may have it open.
///
/// # Errors
/// The database cannot be opened, or what `read` says.
pub fn read_among_others<T, E: From<rusqlite::Error>>(
    path: &Path,
    read: impl Fn(&mut Connection) -> Result<T, E>,
) -> Result<T, E> {
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
    // Without an authority, the two slashes that a path can begin with would be one.
    let mut name = if path.is_absolute() { b"file://".to_vec() } else { b"file:".to_vec() };
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
    fn with(path: &'p Path, now: Moment) -> Option<Self> {
        if !has_no_log(path) {
            return None;
        }
        // Where it is a link, the log stands elsewhere; opening a pipe would wait for somebody to write to it.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
        let lock = lock(&file)?;
        let found = Stamps::of_open(&file).ok().filter(|found| found.is_file())?;
        // Without a lock, that the stamps stay the same has to prove it.
        let proven = lock == Lock::Held || found.stamps.settled(now);
        let alone = Self { path, stamps: found.stamps, _file: file };
        (proven && alone.still_is()).then_some(alone)
    }

    /// Whether nobody has opened it, or put another one in its place.
    fn still_is(&self) -> bool {
        let found = Stamps::of_path(CWD, self.path);
        let is_same = matches!(found, Ok(Some(found)) if found.stamps == self.stamps);
        is_same && has_no_log(self.path)
    }
}

fn has_no_log(path: &Path) -> bool {
    ["-wal", "-journal"].iter().all(|end| matches!(Stamps::of_path(CWD, &beside(path, end)), Ok(None)))
}

/// The lock of SQLite's readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    /// It is held for as long as the file is open.
    #[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code, reason = "it has none"))]
    Held,
    /// Nobody keeps it from being had, but the system, or the file system, has no locks that are an open file's.
    Free,
}

/// Takes the lock that SQLite's readers take; `None` where a writer has it. Writers that are there already, or come, are not
/// kept from writing to their log.
fn lock(file: &File) -> Option<Lock> {
    // It is to be this open file's: the usual ones are the process', and SQLite would let go of it.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(taken) = on_shared_bytes(file, libc::F_OFD_SETLK, libc::F_RDLCK) {
        return taken.then_some(Lock::Held);
    }
    on_shared_bytes(file, libc::F_GETLK, libc::F_RDLCK).unwrap_or(false).then_some(Lock::Free)
}

/// Takes a lock where SQLite's readers have theirs, or asks for it: whether it can be had; `None` where there are no such
/// locks.
fn on_shared_bytes(file: &File, command: libc::c_int, kind: libc::c_int) -> Option<bool> {
    // From SQLite's file format: the bytes of the file on which shared locks stand.
    const FIRST_SHARED: libc::off_t = 0x4000_0002;
    const SHARED: libc::off_t = 510;
    // SAFETY: all of its fields are numbers, for which 0 is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    (lock.l_start, lock.l_len) = (FIRST_SHARED, SHARED);
    // SAFETY: the descriptor is open, and the call reads and writes the structure, which lives until it has returned.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    match done {
        0 => Some(command != libc::F_GETLK || lock.l_type == libc::F_UNLCK as libc::c_short),
        _ => match io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Some(false),
            _ => None,
        },
    }
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

    /// When no stamps are too new to tell.
    const LATER: Moment = Moment(i64::MAX);

    #[cfg(target_os = "linux")]
    #[test]
    fn a_writer_that_keeps_the_database_to_itself_is_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let path = schema::path(home.path());
        store(&mut schema::open(&path).unwrap(), "t");
        // As another process has it that writes without a journal: a lock of an open file is nobody else's.
        let writer = File::options().read(true).write(true).open(&path).unwrap();
        assert_eq!(on_shared_bytes(&writer, libc::F_OFD_SETLK, libc::F_WRLCK), Some(true));
        assert_eq!(names(&path), ["throughline.db"]);
        assert!(Alone::with(&path, LATER).is_none());
        let error = read(&path, |database| sessions(database)).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
        drop(writer);
        assert!(Alone::with(&path, LATER).is_some());
    }

    #[test]
    fn nobody_leaves_a_trace_and_what_is_only_in_a_log_is_seen() {
        let home = tempfile::tempdir().unwrap();
        // What means something in the name of a database, and two slashes in front.
        let home = format!("/{}", home.path().join("a?b#c%41 d").display());
        let path = schema::path(Path::new(&home));
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
        assert!(Alone::with(&path, LATER).is_some());
        for end in ["-journal", "-wal"] {
            fs::write(beside(&path, end), "").unwrap();
            assert!(Alone::with(&path, LATER).is_none());
            fs::remove_file(beside(&path, end)).unwrap();
        }
        std::os::unix::fs::symlink(&path, home.path().join("link")).unwrap();
        assert!(Alone::with(&home.path().join("link"), LATER).is_none());
    }
}
