//! An open sessions root: what is below it is looked at without a walk along the path to it, which takes as long as the
//! look itself.

use std::io;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

use super::stamps::{Found, Stamps};

/// Nothing in it is to be read: where the system knows that, it need not be readable.
#[cfg(any(target_os = "linux", target_os = "android"))]
const FOR_LOOKS: OFlags = OFlags::PATH;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const FOR_LOOKS: OFlags = OFlags::RDONLY;

/// An open sessions root.
#[derive(Debug)]
pub struct Root(OwnedFd);

impl Root {
    /// Opens a root; `None` when it is not there.
    pub fn open(path: &Path) -> Option<Self> {
        rustix::fs::open(path, OFlags::DIRECTORY | FOR_LOOKS | OFlags::CLOEXEC, Mode::empty()).ok().map(Self)
    }

    /// What stands below it, at a path that is empty for the root itself. A link is not followed. `None` when nothing is
    /// there.
    ///
    /// # Errors
    /// The system's.
    pub fn look_at(&self, below: &Path) -> io::Result<Option<Found>> {
        match below.as_os_str().is_empty() {
            true => Stamps::of_open(&self.0).map(Some),
            false => Stamps::of_path(&self.0, below),
        }
    }
}
