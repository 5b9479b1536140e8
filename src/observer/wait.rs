//! `observer-wait`: sleeps until the current end of a project's chain is another one than a cursor's.
//!
//! What decides is the chain, chosen from the same candidates as [`read`](super::read) chooses it. Changes in the file system
//! only make it look sooner, see [`events`](crate::events): they are watched for before the first look, so that none comes in
//! between, and the last look comes when the deadline has passed.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use throughline::events::Watching;
//! use throughline::observer::cancel::Cancel;
//! use throughline::observer::threads::threads;
//! use throughline::observer::wait::{Request, Status, wait};
//! use throughline::{Kind, Mapping, Stores};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let home = tempfile::tempdir()?;
//! # let project = home.path();
//! let stores = Stores::below(home.path());
//! let cursor = threads(&stores, project, Mapping::Never)?.empty_cursor;
//! let deadline = Instant::now() + Duration::from_millis(10);
//! let request = Request { project, after: &cursor, deadline, watching: Watching::Events };
//! let cancel = Cancel::new()?;
//! assert_eq!(wait(&stores, &request, &cancel, Mapping::Never)?.status, Status::Timeout);
//!
//! // As another thread could do it meanwhile.
//! cancel.cancel();
//! let ended = wait(&stores, &request, &cancel, Mapping::Never);
//! assert_eq!(ended.map_err(|error| error.kind()).err(), Some(Kind::Cancelled));
//! # Ok(())
//! # }
//! ```

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rayon::{ThreadBuilder, ThreadPoolBuilder};
use serde::Serialize;

use super::Project;
use super::cancel::{Cancel, Over};
use super::feed::{Asked, Broken, Cursors, Through};
use crate::chain::End;
use crate::error::{Error, Kind};
use crate::events::{Places, Watch, Watching};
use crate::hosts;
use crate::receipts;
use crate::scan::file::Mapping;
use crate::stores::Stores;

const SCHEMA: &str = "throughline.observer_wait.v1";

/// A look that takes longer has read much, and needed memory for it.
const LARGE_LOOK: Duration = Duration::from_millis(50);

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// The project's directory.
    pub project: &'r Path,
    /// What the Observer has already.
    pub after: &'r str,
    /// Until when, by the monotonic clock.
    pub deadline: Instant,
    /// Whether changes in the file system are to be told.
    pub watching: Watching,
}

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The current end is another one.
    Changed,
    /// The deadline has passed.
    Timeout,
    /// The cursor does not hold any more.
    ResyncRequired,
    /// Threads of both hosts completed last at the same time.
    AmbiguousParent,
}

/// The answer, as it is written.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    schema: &'static str,
    /// Why the wait is over.
    pub status: Status,
    /// The cursor that was asked with.
    #[serde(rename = "afterCursor")]
    pub after_cursor: String,
    /// The current end, where there is one.
    #[serde(rename = "throughCursor")]
    pub through_cursor: Option<String>,
}

/// Waits until the current end of the project's chain is another one than the cursor's, or until the deadline.
///
/// When it returns, nothing of it is left behind: no file, no watch, no thread.
///
/// # Errors
/// [`Kind::Cancelled`] when it was cancelled; [`Kind::Input`] when the project is no absolute, existing directory, or is not
/// any more; [`Kind::Internal`] when a store cannot be read.
pub fn wait(stores: &Stores, request: &Request<'_>, cancel: &Cancel, mapping: Mapping) -> Result<Answer, Error> {
    wait_with(stores, request, cancel, mapping, || {})
}

/// The same; `at_deadline` is called when the deadline has passed, in front of the last look.
fn wait_with(
    stores: &Stores,
    request: &Request<'_>,
    cancel: &Cancel,
    mapping: Mapping,
    at_deadline: impl FnMut() + Send,
) -> Result<Answer, Error> {
    let project = Project::open(request.project)?;
    let places = Places {
        sessions: stores.sessions_root(),
        receipts: receipts::Place::new(&stores.state_home, project.resolved.digest()).path(),
        project: project.resolved.path(),
    };
    let watch = Watch::of(places, request.watching);
    let mut waiting = Waiting { stores, request, cancel, mapping, watch, pace: Pace::default(), at_deadline };
    // What looks at many files at once does so on threads that end here.
    let threads = ThreadPoolBuilder::new();
    threads.build_scoped(ThreadBuilder::run, |pool| pool.install(|| waiting.run())).map_err(Error::internal)?
}

struct Waiting<'w, D> {
    stores: &'w Stores,
    request: &'w Request<'w>,
    cancel: &'w Cancel,
    mapping: Mapping,
    watch: Watch,
    pace: Pace,
    at_deadline: D,
}

/// What a look found.
enum Look {
    /// The wait is over, with this cursor.
    Over(Status, Option<String>),
    /// Nothing new. In these rollouts a change can be something new.
    Same(HashSet<PathBuf>),
}

impl<D: FnMut()> Waiting<'_, D> {
    fn run(&mut self) -> Result<Answer, Error> {
        loop {
            if self.cancel.is_cancelled() {
                return Err(Kind::Cancelled.into());
            }
            let began = Instant::now();
            let last = began >= self.request.deadline;
            if last {
                (self.at_deadline)();
            }
            self.watch.renew();
            match self.look()? {
                Look::Over(status, through) => return Ok(self.answer(status, through)),
                Look::Same(_) if last => return Ok(self.answer(Status::Timeout, Some(self.request.after.to_owned()))),
                Look::Same(rollouts) => self.sleep(began.elapsed(), &rollouts),
            }
        }
    }

    /// Chooses the chain as a read would.
    fn look(&self) -> Result<Look, Error> {
        let project = Project::open(self.request.project)?;
        let asked = Asked::of(&project, Cursors { after: Some(self.request.after), through: None });
        let needs = |thread, end: &End, current| asked.needs(thread, end, current);
        let looked = hosts::look(self.stores, &project.resolved, self.mapping, &needs);
        self.stores.finish();
        let looked = looked?;
        let rollouts = if self.watch.has_events() { looked.rollouts() } else { HashSet::new() };
        let candidates = looked.into_candidates();
        let chosen = Through::choose(&project, &candidates, None).and_then(|through| {
            through.follow(&project, &candidates, self.request.after)?;
            Ok(through.token)
        });
        Ok(match chosen {
            Ok(token) if token == self.request.after => Look::Same(rollouts),
            Ok(token) => Look::Over(Status::Changed, Some(token)),
            Err(Broken::Resync) => Look::Over(Status::ResyncRequired, None),
            Err(Broken::Ambiguous) => Look::Over(Status::AmbiguousParent, None),
        })
    }

    /// Sleeps until it is worth to look again.
    fn sleep(&mut self, cost: Duration, rollouts: &HashSet<PathBuf>) {
        let deadline = self.request.deadline;
        if cost > LARGE_LOOK {
            give_memory_back();
        }
        if self.watch.has_events() {
            let until = deadline.min(Instant::now() + self.pace.pause(cost));
            if self.cancel.pause(None, until) == Over::Cancelled {
                return;
            }
            let hurried = self.watch.has_news(rollouts);
            self.pace.note(hurried);
            if hurried {
                return;
            }
        }
        self.watch.sleep(rollouts, deadline, self.cancel);
    }

    fn answer(&self, status: Status, through_cursor: Option<String>) -> Answer {
        Answer { schema: SCHEMA, status, after_cursor: self.request.after.to_owned(), through_cursor }
    }
}

/// Gives memory that is not used any more back to the system: an hour's sleep does not need what one look did. The allocator of
/// GNU keeps it otherwise.
fn give_memory_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim takes no pointer, changes nothing that is in use, and locks what it looks at, so that any thread
    // may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// How long the pause behind a look is: about what the look cost, and while there is something new each time, longer and
/// longer. So one change is seen at once, and of a flood of them it is most of the time that nobody looks.
#[derive(Debug, Default)]
struct Pace {
    /// After how many looks in a row there was something new when the pause was over.
    hurried: u32,
}

impl Pace {
    /// A pause is at most so long, but for looks that cost more than a few milliseconds.
    const LONGEST: Duration = Duration::from_millis(100);
    /// For these it is at most so many times what they cost.
    const MOST_TIMES: u32 = 16;

    fn pause(&self, cost: Duration) -> Duration {
        let times = 1_u32.checked_shl(self.hurried).unwrap_or(u32::MAX);
        cost.saturating_mul(times).min(Self::LONGEST.max(cost * Self::MOST_TIMES))
    }

    fn note(&mut self, hurried: bool) {
        self.hurried = if hurried { self.hurried.saturating_add(1) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tempfile::TempDir;

    use super::super::read::{self, read};
    use super::*;
    use crate::receipts::{Place, Receipt, SessionId};
    use throughline_parsers::text::Digest;

    struct Home {
        dir: TempDir,
        stores: Stores,
        receipts: Place,
    }

    impl Home {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let stores = Stores::below(dir.path());
            let project = Project::open(dir.path()).unwrap();
            let receipts = Place::new(&stores.state_home, project.resolved.digest());
            Self { dir, stores, receipts }
        }

        fn complete(&self, n: i64) {
            let id = SessionId::new("session").unwrap();
            let (user, assistant) = (Digest::of(&n.to_string()), Digest::of("answer"));
            let receipt = Receipt::new(id.clone(), id, user, assistant, n).unwrap();
            assert_eq!(self.receipts.lock().unwrap().append([receipt]).unwrap(), 1);
        }

        fn cursor(&self) -> String {
            let request = read::Request::snapshot(self.dir.path());
            let answer = read(&self.stores, &read::Request { limit: 1, ..request }, Mapping::Never).unwrap();
            // Without bodies a turn is pending; then a wait says where it ends.
            answer.through_cursor.unwrap_or_else(|| {
                let empty = super::super::threads::threads(&self.stores, self.dir.path(), Mapping::Never).unwrap();
                empty.threads[0].through_cursor.clone()
            })
        }

        fn request<'r>(&'r self, after: &'r str, millis: u64) -> Request<'r> {
            let deadline = Instant::now() + Duration::from_millis(millis);
            Request { project: self.dir.path(), after, deadline, watching: Watching::Events }
        }

        fn wait_with(&self, request: &Request<'_>, at_deadline: impl FnMut() + Send) -> Answer {
            wait_with(&self.stores, request, &Cancel::new().unwrap(), Mapping::Never, at_deadline).unwrap()
        }
    }

    #[test]
    fn what_completes_at_the_deadline_is_not_lost() {
        for watching in [Watching::Events, Watching::Polling] {
            let home = Home::new();
            home.complete(1);
            let cursor = home.cursor();
            let request = Request { watching, ..home.request(&cursor, 50) };
            let mut calls = 0;
            let answer = home.wait_with(&request, || {
                calls += 1;
                assert!(Instant::now() >= request.deadline);
                home.complete(2);
            });
            assert_eq!((answer.status, calls), (Status::Changed, 1), "{watching:?}");
            assert_eq!(answer.through_cursor, Some(home.cursor()));
        }
    }

    #[test]
    fn a_deadline_that_has_passed_gives_one_look() {
        let home = Home::new();
        let cursor = home.cursor();
        let request = home.request(&cursor, 0);
        assert_eq!(home.wait_with(&request, || {}).status, Status::Timeout);
        home.complete(1);
        assert_eq!(home.wait_with(&request, || {}).status, Status::Changed);
    }

    #[test]
    fn a_pause_grows_while_there_is_something_new_each_time() {
        let mut pace = Pace::default();
        let cost = Duration::from_millis(3);
        let mut pauses = Vec::new();
        for _ in 0..40 {
            pauses.push(pace.pause(cost).as_millis());
            pace.note(true);
        }
        assert_eq!(pauses[..7], [3, 6, 12, 24, 48, 96, 100]);
        assert_eq!(pauses[39], 100);
        assert_eq!(pace.pause(Duration::from_millis(50)), Duration::from_millis(800));
        pace.note(false);
        assert_eq!(pace.pause(cost), cost);
    }
}
