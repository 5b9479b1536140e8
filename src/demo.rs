//! A small store in a directory of its own, for showing and trying the commands: Codex rollouts in both layouts, Claude
//! receipts, the database. It is written as the agents and the hooks write it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use throughline_parsers::codex::Uuid;
use throughline_parsers::text::Digest;

use crate::capturing::store_texts;
use crate::db::capture::{Capture, Said};
use crate::db::schema;
use crate::error::Error;
use crate::hosts::codex::texts::Threads;
use crate::observer::Project;
use crate::receipts::{Place, Receipt, SessionId};
use crate::scan::file::Mapping;
use crate::stores::Stores;

/// When the story of the demo begins: 2026-07-01T12:00:00Z.
const BEGIN_MS: i64 = 1_782_907_200_000;

/// A store below one directory. Nothing outside of it is touched.
#[derive(Debug)]
pub struct Demo {
    /// Where the agents and this program have their files.
    pub stores: Stores,
    /// The project that the agents work on.
    pub project: PathBuf,
    now: i64,
}

/// How Codex lays out the messages of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Messages are events.
    Legacy,
    /// Messages are completed items, and rows are numbered.
    Paginated,
}

/// A Codex session of the demo.
#[derive(Debug)]
pub struct Session {
    /// The thread's id.
    pub thread: Uuid,
    layout: Layout,
    rollout: File,
    rows: u64,
    turns: u32,
}

impl Demo {
    /// An empty store below this directory.
    ///
    /// # Errors
    /// The directories cannot be made.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let project = directory.join("project");
        fs::create_dir_all(&project)?;
        Ok(Self { stores: Stores::below(directory.join("home")), project, now: BEGIN_MS })
    }

    /// Begins a Codex session.
    ///
    /// # Errors
    /// The rollout cannot be written.
    pub fn codex_session(&mut self, layout: Layout) -> io::Result<Session> {
        let at = self.tick();
        let thread = Uuid::v7(at, 1);
        let day = self.stores.sessions_root().join("2026/07/01");
        fs::create_dir_all(&day)?;
        let path = day.join(format!("rollout-2026-07-01T12-00-00-{thread}.jsonl"));
        let rollout = OpenOptions::new().create(true).append(true).open(path)?;
        let mut session = Session { thread, layout, rollout, rows: 0, turns: 0 };
        let mut meta = json!({"id": thread.to_string(), "cwd": self.project, "originator": "codex_cli_rs",
            "cli_version": "0.171.0", "source": "cli"});
        if layout == Layout::Paginated {
            meta["history_mode"] = "paginated".into();
        }
        session.row(at, "session_meta", &meta)?;
        Ok(session)
    }

    /// Lets a turn of a Codex session happen, up to its completion.
    ///
    /// # Errors
    /// The rollout cannot be written.
    pub fn codex_turn(&mut self, session: &mut Session, user: &str, assistant: &str) -> io::Result<()> {
        session.turns += 1;
        let turn = Uuid::v7(self.now, u64::from(session.turns)).to_string();
        session.event(self.tick(), json!({"type": "task_started", "turn_id": turn}))?;
        session.say(self.tick(), &turn, "UserMessage", user)?;
        session.say(self.tick(), &turn, "AgentMessage", assistant)?;
        session.event(self.tick(), json!({"type": "task_complete", "turn_id": turn, "last_agent_message": assistant}))
    }

    /// Lets the person undo the last prompts of a Codex session.
    ///
    /// # Errors
    /// The rollout cannot be written.
    pub fn codex_rollback(&mut self, session: &mut Session, prompts: u32) -> io::Result<()> {
        session.event(self.tick(), json!({"type": "thread_rolled_back", "num_turns": prompts}))
    }

    /// Captures the bodies of a Codex session into the database, as a hook does.
    ///
    /// # Errors
    /// The rollout cannot be read or the database cannot be written.
    pub fn capture(&mut self, session: &Session) -> Result<(), Error> {
        let mut threads = Threads::look(&self.stores, Mapping::Never)?;
        let Some(texts) = threads.texts(session.thread)? else { return Ok(()) };
        let mut database = schema::open(&self.stores.database()).map_err(Error::internal)?;
        store_texts(&mut database, &texts, self.now).map_err(Error::internal).map(drop)
    }

    /// Lets a turn of a Claude session complete: its bodies and its receipt, as the Stop hook writes them.
    ///
    /// # Errors
    /// The receipt store or the database cannot be written.
    pub fn claude_turn(&mut self, session: &str, number: i64, user: &str, assistant: &str) -> Result<(), Error> {
        let (asked, answered) = (self.tick(), self.tick());
        let project = Project::open(&self.project)?.resolved;
        let place = Place::new(&self.stores.state_home, project.digest());
        let mut locked = place.lock().map_err(Error::internal)?;
        let mut database = schema::open(&self.stores.database()).map_err(Error::internal)?;
        let capture = Capture::begin(&mut database).map_err(Error::internal)?;
        let path = self.project.to_string_lossy();
        let stored = capture.keep_session(session, &path, answered).and_then(|()| {
            let (user, assistant) = (Said { text: user, at: asked }, Said { text: assistant, at: answered });
            capture.insert_turn(session, session, number, Some(user), Some(assistant))
        });
        stored.and_then(|_| capture.commit()).map_err(Error::internal)?;
        let id = SessionId::new(session).ok_or_else(|| Error::internal("the session has no id"))?;
        let (user, assistant) = (Digest::of_body(user), Digest::of_body(assistant));
        let receipt = Receipt::new(id.clone(), id, user, assistant, answered);
        locked.append(receipt).map_err(Error::internal).map(drop)
    }

    /// The next moment of the story.
    fn tick(&mut self) -> i64 {
        self.now += 1_500;
        self.now
    }
}

impl Session {
    fn say(&mut self, at: i64, turn: &str, kind: &str, text: &str) -> io::Result<()> {
        let payload = match (self.layout, kind) {
            (Layout::Legacy, "UserMessage") => json!({"type": "user_message", "message": text, "images": []}),
            (Layout::Legacy, _) => json!({"type": "agent_message", "message": text}),
            (Layout::Paginated, kind) => {
                let item = json!({"type": kind, "content": [{"type": "text", "text": text}]});
                json!({"type": "item_completed", "turn_id": turn, "item": item})
            }
        };
        self.event(at, payload)
    }

    fn event(&mut self, at: i64, payload: Value) -> io::Result<()> {
        self.row(at, "event_msg", &payload)
    }

    /// Appends one row in the host's own spelling.
    fn row(&mut self, at: i64, kind: &str, payload: &Value) -> io::Result<()> {
        let time = timestamp(at);
        let ordinal = match self.layout {
            Layout::Legacy => String::new(),
            Layout::Paginated => format!("\"ordinal\":{},", self.rows),
        };
        self.rows += 1;
        let row = format!("{{\"timestamp\":\"{time}\",{ordinal}\"type\":\"{kind}\",\"payload\":{payload}}}\n");
        self.rollout.write_all(row.as_bytes())
    }
}

/// A moment of the demo's day in RFC 3339.
fn timestamp(ms: i64) -> String {
    let of_day = ms - BEGIN_MS + 12 * 3_600_000;
    let (hours, minutes) = (of_day / 3_600_000, of_day / 60_000 % 60);
    format!("2026-07-01T{hours:02}:{minutes:02}:{:02}.{:03}Z", of_day / 1000 % 60, of_day % 1000)
}
