//! Files that only their owner may read: the one place where this program makes, checks, reads and replaces them.
//!
//! A private directory has mode 0700 and a private file mode 0600; both belong to the user who runs the program, and
//! neither is a symbolic link. What does not look like that is refused, never repaired: somebody else may have put it
//! there.
//!
//! Every system call that changes something goes through `sys`, so that a test can make each of them fail.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a private file or directory could not be used. The text never holds a path.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is there, but of another kind, owner or mode than a private one.
    #[error("a file or directory is not private")]
    NotPrivate,
    /// The system refused.
    #[error("a private file could not be used")]
    Io(#[from] io::Error),
}

/// Whether a replaced file has to survive a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The file and its directory are on disk before the call returns.
    Synced,
    /// The file is whole or old after a crash of the program; after a power loss it may be anything.
    Unsynced,
}

/// Makes a directory 0700 if it is absent, parents that are absent too, and checks that it is private.
///
/// # Errors
///
/// The directory cannot be made, or stands there and is not private.
pub fn ensure_directory(path: &Path) -> Result<(), Error> {
    make_directory(path, Durability::Synced)?;
    check_directory(path)
}

/// Makes a directory 0700 if it is absent, parents that are absent too. One that stands there is taken as it is.
///
/// # Errors
///
/// The directory cannot be made.
pub fn make_directory(path: &Path, durability: Durability) -> Result<(), Error> {
    match make_one_directory(path, durability) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_directory(path.parent().ok_or(error)?, durability)?;
            make_one_directory(path, durability)?;
        }
        made => made?,
    }
    Ok(())
}

/// Checks that a directory is private.
///
/// # Errors
///
/// It is absent or not private.
pub fn check_directory(path: &Path) -> Result<(), Error> {
    check(&fs::symlink_metadata(path)?, Kind::Directory)
}

/// Checks that a file is regular and private.
///
/// # Errors
///
/// It is absent or not private.
pub fn check_file(path: &Path) -> Result<(), Error> {
    check(&fs::symlink_metadata(path)?, Kind::File)
}

/// What something should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory, with mode 0700.
    Directory,
    /// A regular file, with mode 0600.
    File,
}

impl Kind {
    /// The mode that it has when it is private.
    #[must_use]
    pub fn mode(self) -> u32 {
        match self {
            Self::Directory => sys::DIRECTORY_MODE,
            Self::File => sys::FILE_MODE,
        }
    }
}

/// What keeps something from being private.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is a symbolic link.
    Link,
    /// It is something else than it should be.
    Kind,
    /// It belongs to this user, who is not the one who runs the program.
    Owner(u32),
    /// It has this mode.
    Mode(u32),
}

impl Flaw {
    /// The first flaw of what has these stamps; `None` for what is private.
    #[must_use]
    pub fn of(found: &Metadata, kind: Kind) -> Option<Self> {
        let is_of_kind = if kind == Kind::Directory { found.is_dir() } else { found.is_file() };
        match () {
            () if found.is_symlink() => Some(Self::Link),
            () if !is_of_kind => Some(Self::Kind),
            () if found.uid() != own_uid() => Some(Self::Owner(found.uid())),
            () if mode(found) != kind.mode() => Some(Self::Mode(mode(found))),
            () => None,
        }
    }
}

/// Makes an empty file 0600 if nothing stands at the path, and tells whether it did.
///
/// # Errors
///
/// The file cannot be made.
pub fn create_file(path: &Path) -> Result<bool, Error> {
    match sys::create_new(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Reads a private file of a private directory; `None` if there is none.
///
/// # Errors
///
/// The file or its directory is not private, or the file cannot be read.
pub fn read_private(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let Some(mut file) = open_private(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Opens a private file of a private directory for reading; `None` if there is none.
///
/// # Errors
///
/// The file or its directory is not private, or the file cannot be opened.
pub fn open_private(path: &Path) -> Result<Option<File>, Error> {
    // Non-blocking, since somebody may have put a fifo there: what was opened is looked at before it is read.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    check(&file.metadata()?, Kind::File)?;
    check_directory(directory_of(path)?)?;
    Ok(Some(file))
}

/// Puts a file 0600 with this content at the path, in one step: whoever looks sees the old file or the new one, whole.
///
/// The directory has to be private. A failure leaves the old file and no other.
///
/// # Errors
///
/// The directory is not private, or the system refused.
pub fn replace(path: &Path, content: &[u8], durability: Durability) -> Result<(), Error> {
    replace_with_parts(path, &[Part::Bytes(content)], durability)
}

/// A part of a file's content.
#[derive(Clone, Copy, Debug)]
pub enum Part<'p> {
    /// These bytes.
    Bytes(&'p [u8]),
    /// Bytes of another file: where they begin, and how many.
    Of(&'p File, u64, u64),
}

impl Part<'_> {
    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Of(_, _, len) => *len,
        }
    }
}

/// The same with content that lies in parts.
///
/// # Errors
///
/// The directory is not private, or the system refused.
pub fn replace_with_parts(path: &Path, parts: &[Part<'_>], durability: Durability) -> Result<(), Error> {
    let directory = directory_of(path)?;
    check_directory(directory)?;
    let temporary = Temporary::create_beside(path)?;
    for part in parts {
        match part {
            Part::Bytes(bytes) => sys::write(&temporary.file, bytes)?,
            Part::Of(file, start, len) => copy(file, *start, *len, &temporary.file)?,
        }
    }
    if durability == Durability::Synced {
        sys::sync(&temporary.file)?;
    }
    match durability {
        Durability::Synced => temporary.rename(path)?,
        Durability::Unsynced => temporary.exchange(path)?,
    }
    if durability == Durability::Synced {
        sys::sync(&File::open(directory)?)?;
    }
    Ok(())
}

/// Appends bytes of one file to another, in the kernel where that can be done.
fn copy(from: &File, start: u64, len: u64, to: &File) -> io::Result<()> {
    let (mut at, end) = (start, start + len);
    // Some file systems cannot, and some say 0.
    while at < end {
        let left = end - at;
        if !sys::copy(from, &mut at, to, left).is_ok_and(|copied| copied > 0) {
            break;
        }
    }
    let mut rest = vec![0; usize::try_from(end - at).map_err(io::Error::other)?];
    from.read_exact_at(&mut rest, at)?;
    sys::write(to, &rest)
}

/// Puts a file with this content at the path, in one step and synced, in a directory that need not be private: a settings
/// file of another program, whose mode, owner and group it takes over. Without one it becomes private.
///
/// Of a symbolic link the caller passes what it leads to: what stands at the path itself is replaced. A failure leaves the
/// old file and no other.
///
/// # Errors
///
/// The system refused, also that the new file be given to the owner of the old one.
pub fn replace_like(path: &Path, content: &[u8], old: Option<&Metadata>) -> Result<(), Error> {
    let temporary = Temporary::create_beside(path)?;
    sys::write(&temporary.file, content)?;
    if let Some(old) = old {
        let new = temporary.file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            sys::give(&temporary.file, old.uid(), old.gid())?;
        }
        sys::set_mode(&temporary.file, mode(old))?;
    }
    sys::sync(&temporary.file)?;
    temporary.rename(path)?;
    sys::sync(&File::open(directory_of(path)?)?)?;
    Ok(())
}

/// Appends to a private file, made 0600 if it is absent, in one write. One that would grow beyond `most` bytes first takes
/// the name `older`, in the place of the one before it.
///
/// The directory need not be private. Whoever calls this for the same file meanwhile may lose the older one.
///
/// # Errors
///
/// The file is there and not private, or the system refused.
pub fn append(path: &Path, content: &[u8], most: u64, older: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
        Ok(found) => {
            check(&found, Kind::File)?;
            if found.len() > 0 && found.len() + content.len() as u64 > most {
                sys::rename(path, older)?;
            }
        }
    }
    let file = match sys::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => sys::open_to_append(path)?,
        created => created?,
    };
    check(&file.metadata()?, Kind::File)?;
    Ok(sys::write(&file, content)?)
}

/// A file of a name nobody else has, removed on drop unless it was renamed.
struct Temporary {
    path: Option<PathBuf>,
    file: File,
}

impl Temporary {
    fn create_beside(path: &Path) -> io::Result<Temporary> {
        loop {
            let path = temporary_name(path);
            match sys::create_new(&path) {
                // Left behind by a process of the same number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => {
                    return Ok(Temporary { file: created?, path: Some(path) });
                }
            }
        }
    }

    fn rename(mut self, to: &Path) -> io::Result<()> {
        if let Some(path) = &self.path {
            sys::rename(path, to)?;
        }
        self.path = None;
        Ok(())
    }

    /// The same without waiting for a disk. Some file systems begin to write out a file that takes another one's name, to
    /// be safe where nobody syncs; two files that change their names are left alone. What has the temporary name then is the
    /// old file, which goes.
    fn exchange(self, with: &Path) -> io::Result<()> {
        match &self.path {
            // What is no file stays where it is.
            Some(path) if check_file(with).is_ok() && sys::exchange(path, with).is_ok() => Ok(()),
            _ => self.rename(with),
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The failure that led here is the one to report.
            let _ = sys::remove(path);
        }
    }
}

fn temporary_name(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(path);
    name.push(format!(".{}.{number}.tmp", process::id()));
    PathBuf::from(name)
}

fn make_one_directory(path: &Path, durability: Durability) -> io::Result<()> {
    match sys::create_directory(path) {
        Ok(()) if durability == Durability::Unsynced => Ok(()),
        Ok(()) => sys::sync(&File::open(directory_of(path)?)?),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn directory_of(path: &Path) -> io::Result<&Path> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Ok(Path::new(".")),
        Some(parent) => Ok(parent),
        None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn check(found: &Metadata, kind: Kind) -> Result<(), Error> {
    Flaw::of(found, kind).map_or(Ok(()), |_| Err(Error::NotPrivate))
}

fn mode(found: &Metadata) -> u32 {
    found.mode() & 0o777
}

fn own_uid() -> u32 {
    // SAFETY: getuid takes nothing, touches no memory of ours and cannot fail.
    unsafe { libc::getuid() }
}

/// The system calls that change something.
mod sys {
    use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
    use std::io::{self, Write};
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, fchown};
    use std::path::Path;

    pub(super) const DIRECTORY_MODE: u32 = 0o700;
    pub(super) const FILE_MODE: u32 = 0o600;

    pub(super) fn create_directory(path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(DIRECTORY_MODE).create(path)
    }

    pub(super) fn create_new(path: &Path) -> io::Result<File> {
        let file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
        // An unusual umask may have taken a bit of the owner's.
        set_mode(&file, FILE_MODE)?;
        Ok(file)
    }

    pub(super) fn open_to_append(path: &Path) -> io::Result<File> {
        OpenOptions::new().append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
    }

    pub(super) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
        file.set_permissions(Permissions::from_mode(mode))
    }

    pub(super) fn give(file: &File, owner: u32, group: u32) -> io::Result<()> {
        fchown(file, Some(owner), Some(group))
    }

    pub(super) fn write(mut file: &File, content: &[u8]) -> io::Result<()> {
        file.write_all(content)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn copy(from: &File, at: &mut u64, to: &File, len: u64) -> io::Result<usize> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        Ok(rustix::fs::copy_file_range(from, Some(at), to, None, len)?)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn copy(_: &File, _: &mut u64, _: &File, _: u64) -> io::Result<usize> {
        Ok(0)
    }

    pub(super) fn sync(file: &File) -> io::Result<()> {
        file.sync_all()
    }

    pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    #[cfg(target_os = "linux")]
    pub(super) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn exchange(_: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn remove(path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::TempDir;

    fn store() -> (TempDir, PathBuf) {
        let root = TempDir::new().unwrap();
        let directory = root.path().join("a/b/store");
        ensure_directory(&directory).unwrap();
        (root, directory)
    }

    fn mode_of(path: &Path) -> u32 {
        mode(&fs::symlink_metadata(path).unwrap())
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn names(directory: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn directories_are_made_with_their_parents() {
        let (_root, directory) = store();
        assert_eq!(mode_of(&directory), 0o700);
        ensure_directory(&directory).unwrap();
    }

    #[test]
    fn a_directory_that_is_open_to_others_is_refused_and_left_alone() {
        let (_root, directory) = store();
        set_mode(&directory, 0o755);
        assert!(matches!(ensure_directory(&directory), Err(Error::NotPrivate)));
        assert_eq!(mode_of(&directory), 0o755);
    }

    #[test]
    fn a_link_to_a_private_directory_is_refused() {
        let (root, directory) = store();
        let link = root.path().join("link");
        symlink(&directory, &link).unwrap();
        assert!(matches!(ensure_directory(&link), Err(Error::NotPrivate)));
        assert!(matches!(replace(&link.join("x"), b"", Durability::Synced), Err(Error::NotPrivate)));
    }

    #[test]
    fn a_dangling_link_on_the_way_is_an_error() {
        let root = TempDir::new().unwrap();
        symlink("nowhere", root.path().join("link")).unwrap();
        assert!(matches!(ensure_directory(&root.path().join("link/store")), Err(Error::Io(_))));
    }

    #[test]
    fn what_was_put_is_read_and_nothing_else_stays() {
        let (_root, directory) = store();
        let path = directory.join("x");
        assert_eq!(read_private(&path).unwrap(), None);
        for (content, durability) in [(&b"old"[..], Durability::Synced), (b"newer", Durability::Unsynced)] {
            replace(&path, content, durability).unwrap();
            assert_eq!(read_private(&path).unwrap().as_deref(), Some(content));
            assert_eq!(mode_of(&path), 0o600);
            assert_eq!(names(&directory), ["x"]);
        }
    }

    #[test]
    fn a_reader_that_opened_the_old_file_keeps_it_whole() {
        let (_root, directory) = store();
        let path = directory.join("x");
        replace(&path, b"old", Durability::Unsynced).unwrap();
        let mut before = File::open(&path).unwrap();
        replace(&path, b"newer", Durability::Unsynced).unwrap();
        let mut text = String::new();
        before.read_to_string(&mut text).unwrap();
        assert_eq!(text, "old");
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_one_and_no_temporary_file() {
        let (_root, directory) = store();
        let path = directory.join("x");
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"new", Durability::Synced).is_err());
        assert_eq!(names(&directory), ["x"]);
        assert!(path.is_dir());
    }

    #[test]
    fn what_is_appended_stands_behind_what_was_there_up_to_a_size() {
        let (_root, directory) = store();
        let (path, older) = (directory.join("x"), directory.join("x.1"));
        let content = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        for (line, new, old) in [
            ("one\n", "one\n", ""),
            ("two\n", "one\ntwo\n", ""),
            ("three\n", "three\n", "one\ntwo\n"),
            ("four\n", "four\n", "three\n"),
        ] {
            append(&path, line.as_bytes(), 10, &older).unwrap();
            assert_eq!((&*content(&path), &*content(&older)), (new, old));
            assert_eq!(mode_of(&path), 0o600);
        }
        // One piece that is too large has a file of its own.
        append(&path, b"a line that is longer\n", 10, &older).unwrap();
        assert_eq!((&*content(&path), &*content(&older)), ("a line that is longer\n", "four\n"));
        set_mode(&path, 0o644);
        assert!(matches!(append(&path, b"", 10, &older), Err(Error::NotPrivate)));
        fs::rename(&path, directory.join("y")).unwrap();
        symlink("y", &path).unwrap();
        assert!(append(&path, b"five\n", 10, &older).is_err());
        assert_eq!(content(&directory.join("y")), "a line that is longer\n");
    }

    #[test]
    fn a_file_that_takes_over_keeps_the_mode_and_one_in_no_place_is_private() {
        let root = TempDir::new().unwrap();
        let path = root.path().join("settings");
        set_mode(root.path(), 0o755);
        replace_like(&path, b"first", None).unwrap();
        assert_eq!(mode_of(&path), 0o600);
        for kept in [0o644, 0o660, 0o400] {
            set_mode(&path, kept);
            let old = fs::metadata(&path).unwrap();
            replace_like(&path, b"next", Some(&old)).unwrap();
            assert_eq!((mode_of(&path), fs::metadata(&path).unwrap().uid()), (kept, old.uid()));
            assert_eq!(names(root.path()), ["settings"]);
        }
        fs::create_dir(root.path().join("directory")).unwrap();
        assert!(replace_like(&root.path().join("directory"), b"", None).is_err());
        assert_eq!(names(root.path()).len(), 2);
    }

    #[test]
    fn a_part_can_be_bytes_of_another_file() {
        let (_root, directory) = store();
        let (old, new) = (directory.join("old"), directory.join("new"));
        let long: Vec<u8> = (0..200_000_u32).map(|n| (n * 7) as u8).collect();
        replace(&old, &long, Durability::Unsynced).unwrap();
        let file = File::open(&old).unwrap();
        let parts = [Part::Bytes(b"a"), Part::Of(&file, 3, 150_000), Part::Bytes(b"b"), Part::Of(&file, 9, 0)];
        replace_with_parts(&new, &parts, Durability::Unsynced).unwrap();
        assert_eq!(fs::read(&new).unwrap(), [b"a", &long[3..150_003], b"b"].concat());
        // Where there is not so much nothing is replaced.
        assert!(replace_with_parts(&new, &[Part::Of(&file, 199_999, 2)], Durability::Unsynced).is_err());
        assert_eq!(fs::read(&new).unwrap().len(), 150_002);
    }

    #[test]
    fn a_temporary_name_that_is_taken_is_passed_over() {
        let (_root, directory) = store();
        let path = directory.join("x");
        let taken = temporary_name(&path);
        let number: u64 = taken.to_str().unwrap().rsplit('.').nth(1).unwrap().parse().unwrap();
        for ahead in 1..8 {
            let name = format!("x.{}.{}.tmp", process::id(), number + ahead);
            fs::write(directory.join(name), "left behind").unwrap();
        }
        replace(&path, b"new", Durability::Unsynced).unwrap();
        assert_eq!(read_private(&path).unwrap().as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn only_a_private_regular_file_is_read() {
        let (_root, directory) = store();
        let path = directory.join("x");
        replace(&path, b"text", Durability::Unsynced).unwrap();
        for wrong in [0o644, 0o700, 0o400, 0o000] {
            set_mode(&path, wrong);
            assert!(read_private(&path).is_err(), "{wrong:o}");
            assert!(check_file(&path).is_err(), "{wrong:o}");
        }
        set_mode(&path, 0o600);
        check_file(&path).unwrap();
        let link = directory.join("link");
        symlink(&path, &link).unwrap();
        assert!(read_private(&link).is_err());
        assert!(matches!(check_file(&link), Err(Error::NotPrivate)));
        symlink("nowhere", directory.join("dangling")).unwrap();
        assert!(read_private(&directory.join("dangling")).is_err());
        assert!(read_private(&directory).is_err());
        set_mode(&directory, 0o750);
        assert!(matches!(read_private(&path), Err(Error::NotPrivate)));
    }

    #[test]
    fn a_fifo_does_not_block() {
        let (_root, directory) = store();
        let path = directory.join("fifo");
        let made = process::Command::new("mkfifo").args(["-m", "600"]).arg(&path).status();
        assert!(made.unwrap().success());
        assert!(matches!(read_private(&path), Err(Error::NotPrivate)));
    }

    #[test]
    fn a_file_is_made_once() {
        let (_root, directory) = store();
        let path = directory.join("x");
        assert!(create_file(&path).unwrap());
        assert_eq!(mode_of(&path), 0o600);
        fs::write(&path, "kept").unwrap();
        assert!(!create_file(&path).unwrap());
        assert_eq!(read_private(&path).unwrap().as_deref(), Some(&b"kept"[..]));
    }

    #[test]
    fn no_error_tells_a_path() {
        let missing = Path::new("/nowhere-at-all/secret/file");
        for error in [
            check_file(missing).unwrap_err(),
            check_directory(missing).unwrap_err(),
            replace(missing, b"", Durability::Synced).unwrap_err(),
        ] {
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
    }
}
