//! Places that are watched by inotify.
//!
//! Only changes are asked for, not that files are opened or read: no look wakes another one. Every folder below the sessions
//! root is watched, the directory of the receipts, and each directory on the way to these: that it is moved or removed, and
//! what comes and goes in it only where the next one is not there, or is a link.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, Event, ReadFlags, Reader, WatchFlags};
use rustix::fs::statfs;
use rustix::io::Errno;

use super::Places;
use crate::scan::folders::{self, Listed};
use crate::scan::tree::LOOK_AGAIN;

/// What tells that a directory itself is moved or removed.
const SELF: WatchFlags = WatchFlags::DELETE_SELF
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    // One directory can be watched for more than one reason.
    .union(WatchFlags::MASK_ADD);
/// The same, and that a name in it comes or goes.
const NAMES: WatchFlags = SELF.union(WatchFlags::CREATE).union(WatchFlags::DELETE).union(WatchFlags::MOVE);
/// The same, and that a file in it is written to.
const FILES: WatchFlags = NAMES.union(WatchFlags::MODIFY);

/// File systems of which others change the files: those of networks, and those that a program makes up. By the numbers that
/// statfs gives.
const REMOTE: [u32; 16] = [
    0x6969,      // NFS
    0x517B,      // SMB
    0xFF53_4D42, // CIFS
    0xFE53_4D42, // SMB 2
    0x6573_5546, // FUSE, sshfs and virtiofs among them
    0x0102_1997, // 9P
    0x00C3_6400, // Ceph
    0x5346_414F, // OpenAFS
    0x6B41_4653, // AFS
    0x7375_7245, // Coda
    0x0000_564C, // NCP
    0x0BD0_0BD0, // Lustre
    0x4750_4653, // GPFS
    0x7461_636F, // OCFS2
    0x0116_1970, // GFS2
    0x786F_4256, // shared folders of VirtualBox
];

/// A buffer for so many bytes of events: some hundred of them.
const BUFFER: usize = 16 << 10;

/// How long the kernel takes, about, for the first step of forgetting watches.
const FORGETTING: Duration = Duration::from_millis(2);

/// Not all places can be watched.
#[derive(Debug)]
pub struct Unwatchable;

/// Places that are watched.
#[derive(Debug)]
pub struct Inotify {
    fd: OwnedFd,
    places: Places,
    /// By the number of the watch.
    directories: HashMap<i32, Directory>,
    /// There may be others to watch than are watched.
    doubted: bool,
    /// When all were looked at.
    renewed: Instant,
}

/// What is looked for in a directory.
#[derive(Debug, Default)]
struct Directory {
    /// It is a folder of rollouts: its path.
    folder: Option<PathBuf>,
    /// What stands next on the way to a place.
    next: Vec<OsString>,
    /// The file of receipts.
    file: Option<OsString>,
}

/// What an event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meaning {
    /// Nothing that matters.
    Nothing,
    /// It is time to look.
    News,
    /// So it is, and there may be others to watch.
    Places,
}

impl Inotify {
    /// For these places, of which none is watched yet; `None` where the system has no more of it to give.
    pub fn new(places: Places) -> Option<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        Some(Self { fd, places, directories: HashMap::new(), doubted: true, renewed: Instant::now() })
    }

    /// What can be read from when there are events.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Has all places looked at again, if that was not done lately: should a watch have got lost, it does not stay so.
    pub fn doubt(&mut self) {
        self.doubted |= self.renewed.elapsed() >= LOOK_AGAIN;
    }

    /// Watches what is there now, where that may be something else than before.
    ///
    /// # Errors
    /// The system's limits are reached, or others can change the files.
    pub fn renew(&mut self) -> Result<(), Unwatchable> {
        if !std::mem::take(&mut self.doubted) {
            return Ok(());
        }
        let Places { sessions, receipts, project } = &self.places;
        if is_remote(sessions) || is_remote(receipts) {
            return Err(Unwatchable);
        }
        self.renewed = Instant::now();
        let mut watching = Watching { fd: &self.fd, directories: HashMap::new() };
        watching.way(project)?;
        watching.receipts(receipts)?;
        watching.way(sessions)?;
        watching.tree(sessions)?;
        let before = std::mem::replace(&mut self.directories, watching.directories);
        for gone in before.into_keys().filter(|watch| !self.directories.contains_key(watch)) {
            // One that is not there any more has no watch either.
            let _ = inotify::remove_watch(&self.fd, gone);
        }
        Ok(())
    }

    /// Takes all events there are, and tells whether one of them matters.
    pub fn drain(&mut self, rollouts: &HashSet<PathBuf>) -> bool {
        let mut buffer = [const { MaybeUninit::uninit() }; BUFFER];
        let mut events = Reader::new(&self.fd, &mut buffer);
        let mut most = Meaning::Nothing;
        loop {
            match events.next() {
                Ok(event) => most = most.max(meaning(&self.directories, &event, rollouts)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // What cannot be read may have been anything.
                Err(_) => {
                    most = Meaning::Places;
                    break;
                }
            }
        }
        self.doubted |= most == Meaning::Places;
        most > Meaning::Nothing
    }
}

impl Drop for Inotify {
    /// Closing waits until the kernel has forgotten all watches. It does so in two steps one behind the other, and the second
    /// one is slow (some ticks of its clock) if it is asked for while the first is going on, as closing does. So the first one
    /// is let begin by itself: in the median that took 3 ms in the place of 13.
    fn drop(&mut self) {
        for watch in self.directories.keys() {
            // Closing does what could not be done here.
            let _ = inotify::remove_watch(&self.fd, *watch);
        }
        thread::sleep(FORGETTING);
    }
}

fn meaning(directories: &HashMap<i32, Directory>, event: &Event<'_>, rollouts: &HashSet<PathBuf>) -> Meaning {
    let flags = event.events();
    if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
        return Meaning::Places;
    }
    let Some(directory) = directories.get(&event.wd()) else { return Meaning::Nothing };
    // The directory itself has gone.
    let Some(name) = event.file_name() else { return Meaning::Places };
    let name = OsStr::from_bytes(name.to_bytes());
    let written = flags.contains(ReadFlags::MODIFY);
    if !written && directory.next.iter().any(|next| next == name) {
        return Meaning::Places;
    }
    let in_tree = directory.folder.as_ref().map_or(Meaning::Nothing, |folder| match name.to_str() {
        _ if flags.contains(ReadFlags::ISDIR) => Meaning::Places,
        Some(name) => match Listed::named(folder, name) {
            Some(listed) if !written || rollouts.contains(&listed.path) => Meaning::News,
            _ => Meaning::Nothing,
        },
        None => Meaning::Nothing,
    });
    if directory.file.as_deref() == Some(name) { Meaning::News } else { in_tree }
}

/// Places as they come to be watched.
struct Watching<'i> {
    fd: &'i OwnedFd,
    directories: HashMap<i32, Directory>,
}

impl Watching<'_> {
    /// Each directory on the way to a place, and that one. For the first one that is not there, and for a link, which can be
    /// made to lead elsewhere, the directory that it is to stand in.
    fn way(&mut self, place: &Path) -> Result<(), Unwatchable> {
        let way: Vec<&Path> = place.ancestors().collect();
        for directory in way.into_iter().rev() {
            let is_watched = self.add(directory, SELF)?.is_some() && !directory.is_symlink();
            if let (false, Some(above), Some(name)) = (is_watched, directory.parent(), directory.file_name())
                && let Some(watched) = self.add(above, NAMES)?
            {
                watched.next.push(name.to_owned());
                // It may have come in between.
                self.add(directory, SELF)?;
            }
        }
        Ok(())
    }

    /// The directory of a file, for that file.
    fn receipts(&mut self, file: &Path) -> Result<(), Unwatchable> {
        let Some(directory) = file.parent() else { return Ok(()) };
        self.way(directory)?;
        if let Some(watched) = self.add(directory, FILES)? {
            watched.file = file.file_name().map(OsStr::to_owned);
        }
        Ok(())
    }

    /// Each folder below a root. It is watched before it is listed: what is made in between is told.
    fn tree(&mut self, root: &Path) -> Result<(), Unwatchable> {
        let mut left = vec![root.to_owned()];
        while let Some(folder) = left.pop() {
            // Only the root itself may be a link.
            let flags = if folder == root { FILES } else { FILES | WatchFlags::DONT_FOLLOW };
            if let Some(watched) = self.add(&folder, flags)? {
                // One that cannot be listed fails the look.
                left.extend(folders::list_folders(&folder).unwrap_or_default());
                watched.folder = Some(folder);
            }
        }
        Ok(())
    }

    /// Watches one directory; `None` where there is none, or none that may be watched.
    fn add(&mut self, path: &Path, flags: WatchFlags) -> Result<Option<&mut Directory>, Unwatchable> {
        match inotify::add_watch(self.fd, here_if_empty(path), flags) {
            Ok(watch) => Ok(Some(self.directories.entry(watch).or_default())),
            Err(Errno::NOSPC | Errno::NOMEM | Errno::NOSYS) => Err(Unwatchable),
            Err(_) => Ok(None),
        }
    }
}

/// The beginning of a relative path.
fn here_if_empty(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Whether others can change what is at a place, so that nothing tells of it; before there is anything, in what there is on
/// the way to it.
fn is_remote(place: &Path) -> bool {
    let nearest = place.ancestors().find_map(|path| statfs(here_if_empty(path)).ok());
    nearest.is_some_and(|found| REMOTE.contains(&(found.f_type as u32)))
}
