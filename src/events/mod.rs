//! What wakes a wait: changes of the stores, as far as the system tells of them.
//!
//! An event decides nothing: whoever was woken looks himself. So one too many costs a look, and one that never came costs
//! time, not a turn, for there is a look now and then without any.
//!
//! On Linux it is inotify that tells. Elsewhere, where it is switched off, where the system's limit of watches is reached,
//! and where the stores are on a file system that others change, nothing tells; then it is time to look each second.

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(not(target_os = "linux"))]
#[path = "nothing.rs"]
mod inotify;

use std::collections::HashSet;
use std::env;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use self::inotify::Inotify;
use crate::observer::cancel::{Cancel, Over};

/// Where something is watched there is a look so often even so.
const WITH_EVENTS: Duration = Duration::from_secs(60);
/// Where nothing tells of changes.
const WITHOUT_EVENTS: Duration = Duration::from_secs(1);
/// In a busy folder there are thousands of events a second that do not matter. Of wakes for nothing there are at most so many
/// in each of these times.
const MOST_WAKES: u32 = 8;
const WAKES_IN: Duration = Duration::from_millis(20);

/// Whether events are to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watching {
    /// As far as the system tells of changes.
    #[default]
    Events,
    /// No: every second it is time to look.
    Polling,
}

impl Watching {
    /// What the environment says: `THROUGHLINE_WATCH=poll` switches events off.
    pub fn from_env() -> Self {
        let poll = env::var_os("THROUGHLINE_WATCH").is_some_and(|value| value == "poll");
        if poll { Self::Polling } else { Self::Events }
    }
}

/// What is watched. None of it has to be there: then it is watched for.
#[derive(Clone, Debug)]
pub struct Places {
    /// The root of Codex' rollouts, with all folders below it.
    pub sessions: PathBuf,
    /// The file of the project's receipts.
    pub receipts: PathBuf,
    /// The project's directory: not what is in it, but that it is there.
    pub project: PathBuf,
}

/// Watched places. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct Watch(Option<Inotify>);

impl Watch {
    /// For these places; nothing is watched before the first [`Watch::renew`].
    pub fn of(places: Places, watching: Watching) -> Self {
        Self(match watching {
            Watching::Events => Inotify::new(places),
            Watching::Polling => None,
        })
    }

    /// Watches what has come to be there, and no longer what has gone. To be called in front of each look: what happens
    /// behind it is told.
    pub fn renew(&mut self) {
        if self.0.as_mut().is_some_and(|inotify| inotify.renew().is_err()) {
            // Half of the places would be worse than none: then it is not known which.
            self.0 = None;
        }
    }

    /// Whether events are told.
    pub fn has_events(&self) -> bool {
        self.0.is_some()
    }

    /// Whether something has happened meanwhile that may matter. Of changes inside rollouts only those of these matter.
    pub fn has_news(&mut self, rollouts: &HashSet<PathBuf>) -> bool {
        self.0.as_mut().is_some_and(|inotify| inotify.drain(rollouts))
    }

    /// Sleeps until something happens that may matter, until it is time to look even so, it is that late, or it is cancelled.
    pub fn sleep(&mut self, rollouts: &HashSet<PathBuf>, until: Instant, cancel: &Cancel) {
        let Some(inotify) = &mut self.0 else {
            cancel.pause(None, until.min(Instant::now() + WITHOUT_EVENTS));
            return;
        };
        let until = until.min(Instant::now() + WITH_EVENTS);
        let (mut wakes, mut since) = (0, Instant::now());
        loop {
            match cancel.pause(Some(inotify.fd()), until) {
                Over::Cancelled => return,
                Over::Time => return inotify.doubt(),
                Over::Readable if inotify.drain(rollouts) => return,
                Over::Readable => wakes += 1,
            }
            if wakes == MOST_WAKES {
                cancel.pause(None, until.min(since + WAKES_IN));
            }
            if since.elapsed() >= WAKES_IN {
                (wakes, since) = (0, Instant::now());
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
