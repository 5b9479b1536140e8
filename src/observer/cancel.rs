//! A token that ends waits before their time.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Ends the waits that it was given to, now and later. Its clones are the same token.
///
/// Behind it is a pipe, in which a byte means that it was cancelled: a handler of a signal can write one too, see
/// [`Cancel::writer`].
///
/// ```
/// use throughline::observer::cancel::Cancel;
///
/// let cancel = Cancel::new()?;
/// let other = cancel.clone();
/// std::thread::spawn(move || other.cancel()).join().ok();
/// assert!(cancel.is_cancelled());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cancel(Arc<Pipe>);

#[derive(Debug)]
struct Pipe {
    // Never read: once there is a byte in it, it can be read for ever.
    reader: PipeReader,
    writer: PipeWriter,
}

/// Why a pause is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It was cancelled.
    Cancelled,
    /// What else was waited for can be read.
    Readable,
    /// It is that late.
    Time,
}

impl Cancel {
    /// A token that is not cancelled.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self(Arc::new(Pipe { reader, writer })))
    }

    /// Cancels.
    pub fn cancel(&self) {
        if !self.is_cancelled() {
            // A pipe takes a byte as long as it is empty, and then nobody needs another one.
            drop((&self.0.writer).write(&[0]));
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.pause(None, Instant::now()) == Over::Cancelled
    }

    /// An end of the pipe of its own: whoever writes a byte to it cancels.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn writer(&self) -> io::Result<PipeWriter> {
        self.0.writer.try_clone()
    }

    /// Pauses until it is that late, it is cancelled, or something can be read from `other`.
    pub fn pause(&self, other: Option<BorrowedFd<'_>>, until: Instant) -> Over {
        let reader = self.0.reader.as_fd();
        // In the place of what is not asked for, the same once more.
        let mut both = [reader, other.unwrap_or(reader)].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
            match poll(&mut both, Some(&timeout)) {
                Err(Errno::INTR) => continue,
                // Without memory for it there is no way to wait but to look at the clock.
                Err(_) => thread::sleep(left.min(Duration::from_millis(10))),
                Ok(_) => {}
            }
            match both.each_ref().map(|fd| !fd.revents().is_empty()) {
                [true, _] => return Over::Cancelled,
                [false, true] => return Over::Readable,
                [false, false] if Instant::now() >= until => return Over::Time,
                [false, false] => {}
            }
        }
    }
}
