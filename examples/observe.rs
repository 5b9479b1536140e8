//! An Observer in Rust, by the library: prints every completed turn of a project, of all its sessions, as one JSON line
//! each, as soon as it completes. It does the same as `observe.sh` and `observe.py`, and keeps the same state as the former.
//!
//! ```sh
//! cargo run --release --example observe -- --project DIR --state DIR [--interval SECONDS] [--once]
//! ```
//!
//! The directory of `--state` is this project's alone: it keeps one small file for each thread, with the cursor up to which
//! everything has been printed. A turn is printed before its cursor is stored, so after a crash or a resync a turn may come
//! again, never not at all. It is the same turn if `thread_sha256`, `source_sha256`, `user_sha256` and `assistant_sha256` are
//! the same.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{self, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use throughline::events::Watching;
use throughline::observer::cancel::Cancel;
use throughline::observer::read::{self, Status};
use throughline::observer::threads::threads;
use throughline::observer::wait;
use throughline::private_file::{self, Durability};
use throughline::{Kind, Mapping, Stores};

/// What is pending or fails is tried again after this, then later and later.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(5);
const LATER: u32 = 4;

/// Prints every completed turn of a project, of all its sessions.
#[derive(Parser)]
struct Arguments {
    /// The project's directory
    #[arg(long)]
    project: PathBuf,
    /// A directory to keep cursors in, private and this project's alone
    #[arg(long)]
    state: PathBuf,
    /// The most seconds between rounds
    #[arg(long, default_value = "60")]
    interval: u64,
    /// One round, for cron and tests
    #[arg(long)]
    once: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let mut observer = Observer {
        stores: Stores::from_env().ok_or("there is no home")?,
        project: path::absolute(arguments.project)?,
        state: State::in_directory(arguments.state)?,
        cancel: Cancel::new()?,
        current: None,
        retries: HashMap::new(),
    };
    for signal in [SIGINT, SIGTERM] {
        pipe::register(signal, observer.cancel.writer()?)?;
    }
    loop {
        observer.round()?;
        if arguments.once || observer.cancel.is_cancelled() {
            return Ok(());
        }
        observer.rest(Duration::from_secs(arguments.interval));
    }
}

struct Observer {
    stores: Stores,
    project: PathBuf,
    state: State,
    cancel: Cancel,
    /// The cursor of the thread with the latest completion.
    current: Option<String>,
    /// What is pending or has failed: by thread, for how long it is left alone, and until when.
    retries: HashMap<String, (Duration, Instant)>,
}

impl Observer {
    /// Reads every thread that has got on, except those that are still to be left alone.
    fn round(&mut self) -> io::Result<()> {
        let name = "observer-threads";
        if self.is_put_off(name) {
            return Ok(());
        }
        let found = match threads(&self.stores, &self.project, Mapping::Never) {
            Ok(found) => found,
            Err(error) => {
                self.current = None;
                self.put_off(name, &format!("{:?}", error.kind()));
                return Ok(());
            }
        };
        let newest: HashMap<String, &str> = found
            .threads
            .iter()
            .map(|thread| (format!("{}-{}", thread.host.name(), thread.thread_sha256), &*thread.through_cursor))
            .collect();
        self.retries.retain(|name, _| newest.contains_key(name));
        for (name, newest) in newest {
            if !self.is_put_off(&name) && !self.cancel.is_cancelled() {
                self.follow(&name, newest, &found.empty_cursor)?;
            }
        }
        let current = found.threads.first().map(|thread| thread.through_cursor.clone());
        self.current = Some(current.unwrap_or(found.empty_cursor));
        Ok(())
    }

    /// Prints the turns of one thread from where we are to its cursor `newest`.
    fn follow(&mut self, name: &str, newest: &str, empty: &str) -> io::Result<()> {
        let mut known = self.state.recall(name).unwrap_or_else(|| Known::up_to(empty));
        while known.after != newest {
            let through = known.page.as_ref().map_or(newest.to_owned(), |page| page.through.clone());
            let request = read::Request {
                after: Some(&known.after),
                through: Some(&through),
                page: known.page.as_ref().map(|page| &*page.token),
                ..read::Request::snapshot(&self.project)
            };
            let answer = match read::read(&self.stores, &request, Mapping::Never) {
                Ok(answer) => answer,
                Err(error) if error.kind() == Kind::Input && known.page.is_some() => {
                    say(name, "the page token does not fit: Input");
                    known.page = None; // the series begins again
                    self.state.remember(name, &known)?;
                    continue;
                }
                Err(error) => {
                    self.put_off(name, &format!("{:?}", error.kind()));
                    return Ok(());
                }
            };
            match answer.status {
                // Between two cursors of one thread it is always a delta.
                Status::Delta | Status::ThreadSwitched | Status::HostSwitched => {
                    if answer.history_truncated {
                        say(name, "its oldest turns are no longer retained");
                    }
                    print(&answer.turns)?;
                    known = match answer.page.next_token {
                        Some(token) => Known { page: Some(Page { through, token }), ..known },
                        None => Known::up_to(&through),
                    };
                    self.state.remember(name, &known)?;
                }
                // Rolled back, replaced, or cut by its host.
                Status::ResyncRequired => {
                    let came_from_start = known.after == empty;
                    known = Known::up_to(empty);
                    self.state.remember(name, &known)?;
                    if came_from_start {
                        // It changed just now: the next round has a better cursor.
                        self.put_off(name, "resync_required");
                        return Ok(());
                    }
                    say(name, "resync_required");
                }
                Status::ProjectionPending => {
                    self.put_off(name, "projection_pending");
                    return Ok(());
                }
                // These answer a read without cursors.
                Status::Snapshot | Status::AmbiguousParent => {
                    return Err(io::Error::other("an answer to another read"));
                }
            }
        }
        self.retries.remove(name);
        Ok(())
    }

    /// Leaves a thread alone for a while; the others go on meanwhile.
    fn put_off(&mut self, name: &str, why: &str) {
        say(name, why);
        let pause = self.retries.get(name).map_or(FIRST_RETRY, |(pause, _)| (*pause * LATER).min(LAST_RETRY));
        self.retries.insert(name.to_owned(), (pause, Instant::now() + pause));
    }

    fn is_put_off(&self, name: &str) -> bool {
        self.retries.get(name).is_some_and(|(_, until)| Instant::now() < *until)
    }

    /// Sleeps until a turn completes or it is time for a round: after the interval, or when something is to be tried again
    /// before.
    fn rest(&self, interval: Duration) {
        let retries = self.retries.values().map(|(_, until)| *until);
        let deadline = retries.chain([Instant::now() + interval]).min().unwrap_or_else(Instant::now);
        let Some(after) = &self.current else {
            self.cancel.pause(None, deadline);
            return;
        };
        let request = wait::Request { project: &self.project, after, deadline, watching: Watching::from_env() };
        match wait::wait(&self.stores, &request, &self.cancel, Mapping::Never) {
            // The round begins with new cursors.
            Ok(answer) if answer.status != wait::Status::AmbiguousParent => {}
            Err(error) if error.kind() == Kind::Cancelled => {}
            // Both hosts completed a turn in the same millisecond: the round reads either. Or something is to be repaired.
            _ => drop(self.cancel.pause(None, Instant::now() + Duration::from_secs(1))),
        }
    }
}

fn print(turns: &[read::Turn]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for turn in turns {
        serde_json::to_writer(&mut stdout, turn)?;
        stdout.write_all(b"\n")?;
    }
    stdout.flush()
}

fn say(name: &str, what: &str) {
    eprintln!("observe: {name}: {what}");
}

/// Up to where a thread has been printed.
struct Known {
    after: String,
    page: Option<Page>,
}

/// In the series from `after` to `through` so have the pages before this one.
struct Page {
    through: String,
    token: String,
}

impl Known {
    fn up_to(cursor: &str) -> Self {
        Self { after: cursor.to_owned(), page: None }
    }
}

/// One small file for each thread.
struct State {
    directory: PathBuf,
}

impl State {
    fn in_directory(directory: PathBuf) -> Result<Self, private_file::Error> {
        private_file::ensure_directory(&directory)?;
        Ok(Self { directory })
    }

    /// `None` of a thread that is new, or of which the file is damaged: it is printed from its start.
    fn recall(&self, name: &str) -> Option<Known> {
        let text = fs::read_to_string(self.directory.join(name)).ok()?;
        let [after, through, token] = text.lines().collect::<Vec<_>>().try_into().ok()?;
        let page = Page { through: through.to_owned(), token: token.to_owned() };
        let known = Known { after: after.to_owned(), page: (!token.is_empty()).then_some(page) };
        (!after.is_empty()).then_some(known)
    }

    fn remember(&self, name: &str, known: &Known) -> io::Result<()> {
        let (through, token) = known.page.as_ref().map_or(("", ""), |page| (&page.through, &page.token));
        let text = format!("{}\n{through}\n{token}\n", known.after);
        private_file::replace(&self.directory.join(name), text.as_bytes(), Durability::Unsynced)
            .map_err(io::Error::other)
    }
}
