//! A home with sessions that go on while a test looks at them: plain files, and the library for what it writes itself.

use std::cell::Cell;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use throughline::db::capture::{Capture, CodexTurn, Said, store_codex_thread};
use throughline::db::schema;
use throughline::paths;
use throughline::receipts::{Place, Receipt, SessionId};
use throughline_parsers::text::Digest;

/// 2026-02-03T00:00:00Z, in milliseconds.
const MIDNIGHT: i64 = 1_770_076_800_000;

pub struct Home {
    root: PathBuf,
    _dir: TempDir,
    /// Seconds since midnight: each event is a second later than the one before.
    clock: Cell<i64>,
}

impl Home {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["home/.codex/sessions/2026/02/03", "project", "cache"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        Self { root, _dir: dir, clock: Cell::new(0) }
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    pub fn project(&self) -> PathBuf {
        self.path("project")
    }

    pub fn sessions(&self) -> PathBuf {
        self.path("home/.codex/sessions/2026/02/03")
    }

    pub fn database(&self) -> Connection {
        schema::open(&schema::path(&self.path("home"))).unwrap()
    }

    pub fn receipts(&self) -> Place {
        Place::new(&self.path("home/.local/state"), paths::digest(&self.project()))
    }

    /// A command that sees this home and nothing else of the user's.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("THROUGHLINE", env!("CARGO_BIN_EXE_throughline"))
            .current_dir(&self.root)
            .stdin(std::process::Stdio::null());
        command
    }

    /// The command `throughline` with these arguments.
    pub fn throughline(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_throughline"));
        command.args(arguments);
        command
    }

    pub fn codex(&self, number: u32) -> Codex<'_> {
        self.codex_in(number, &self.project())
    }

    /// A session of Codex in this directory.
    pub fn codex_in(&self, number: u32, cwd: &Path) -> Codex<'_> {
        let id = rollout_id(number);
        let path = self.sessions().join(rollout_name(number));
        let codex = Codex { home: self, id, path, turns: Vec::new() };
        codex.append("session_meta", &json!({"id": codex.id, "cwd": cwd, "source": "cli"}));
        codex
    }

    pub fn claude(&self, session: &'static str) -> Claude<'_> {
        Claude { home: self, session, turns: 0 }
    }

    fn tick(&self) -> i64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// The next event is as late as the last one was.
    pub fn turn_back_a_tick(&self) {
        self.clock.set(self.clock.get() - 1);
    }

    /// Everything there is: name, kind, size, mode and time of change. Without what is in the cache, and without the files
    /// that SQLite makes and removes beside the database, which mark their folder.
    pub fn listing(&self) -> Vec<String> {
        let mut entries = Vec::new();
        list(&self.root, &mut entries);
        let beside = self.path("home/.throughline");
        entries.retain(|(path, _)| {
            let by_sqlite = path.parent() == Some(&beside) && path.extension().is_some_and(|end| end != "db");
            !by_sqlite && *path != beside && (!path.starts_with(self.path("cache")))
        });
        let mut entries: Vec<String> =
            entries.into_iter().map(|(path, stamps)| format!("{} {stamps}", path.display())).collect();
        entries.sort();
        entries
    }
}

fn list(folder: &Path, entries: &mut Vec<(PathBuf, String)>) {
    use std::os::unix::fs::MetadataExt as _;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stamps = fs::symlink_metadata(&path).unwrap();
        let changed = (stamps.ctime(), stamps.ctime_nsec());
        if stamps.is_dir() {
            list(&path, entries);
        }
        let stamps = format!("{:o} {} {changed:?}", stamps.mode(), stamps.size());
        entries.push((path, stamps));
    }
}

pub fn rollout_id(number: u32) -> String {
    format!("019c0000-0000-7000-8000-{number:012}")
}

pub fn rollout_name(number: u32) -> String {
    format!("rollout-2026-02-03T00-00-00-{}.jsonl", rollout_id(number))
}

fn turn_id(user: &str) -> String {
    format!("turn {user}")
}

/// A session of Codex.
pub struct Codex<'h> {
    home: &'h Home,
    id: String,
    path: PathBuf,
    turns: Vec<Turn>,
}

#[derive(Clone)]
struct Turn {
    user: String,
    assistant: String,
    completed_at: i64,
}

impl Codex<'_> {
    /// Completes a turn; its bodies are not stored yet.
    pub fn complete(&mut self, user: &str, assistant: &str) {
        self.begin(user, assistant);
        self.finish(user, assistant);
    }

    /// All rows of a turn but the one that completes it.
    pub fn begin(&self, user: &str, assistant: &str) {
        self.event(&json!({"type": "task_started", "turn_id": turn_id(user)}));
        self.event(&json!({"type": "user_message", "message": user}));
        self.say(assistant);
    }

    /// Completes the turn that was begun with these texts.
    pub fn finish(&mut self, user: &str, assistant: &str) {
        let seconds = self.event(&json!({"type": "task_complete", "turn_id": turn_id(user)}));
        let completed_at = MIDNIGHT + seconds * 1000;
        self.turns.push(Turn { user: user.to_owned(), assistant: assistant.to_owned(), completed_at });
    }

    /// A message of the assistant.
    pub fn say(&self, text: &str) {
        self.event(&json!({"type": "agent_message", "message": text}));
    }

    /// Stores the bodies of the first `count` turns.
    pub fn store_first(&self, count: usize) {
        let turns: Vec<CodexTurn<'_>> = (1..)
            .zip(&self.turns[..count])
            .map(|(turn_number, turn)| CodexTurn {
                turn_number,
                user: Some(&turn.user),
                assistant: Some(&turn.assistant),
                completed_at: Some(turn.completed_at),
            })
            .collect();
        let project = self.home.project();
        store_codex_thread(&mut self.home.database(), &self.id, project.to_str().unwrap(), &turns, MIDNIGHT).unwrap();
    }

    pub fn store(&self) {
        self.store_first(self.turns.len());
    }

    pub fn complete_and_store(&mut self, user: &str, assistant: &str) {
        self.complete(user, assistant);
        self.store();
    }

    pub fn roll_back(&mut self, count: usize) {
        self.event(&json!({"type": "thread_rolled_back", "num_turns": count}));
        self.turns.truncate(self.turns.len() - count);
    }

    fn event(&self, payload: &Value) -> i64 {
        self.append("event_msg", payload)
    }

    fn append(&self, kind: &str, payload: &Value) -> i64 {
        let now = self.home.tick();
        let (hour, minute, second) = (now / 3600, now / 60 % 60, now % 60);
        let timestamp = format!("2026-02-03T{hour:02}:{minute:02}:{second:02}.000Z");
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).unwrap();
        writeln!(file, r#"{{"timestamp":"{timestamp}","type":"{kind}","payload":{payload}}}"#).unwrap();
        now
    }
}

/// A session of Claude Code: its bodies are stored before the receipt is written.
pub struct Claude<'h> {
    home: &'h Home,
    session: &'static str,
    turns: i64,
}

impl Claude<'_> {
    pub fn complete_and_store(&mut self, user: &str, assistant: &str) {
        self.turns += 1;
        let (session, at) = (self.session, MIDNIGHT + self.home.tick() * 1000);
        let project = self.home.project();
        let mut database = self.home.database();
        let capture = Capture::begin(&mut database).unwrap();
        capture.keep_session(session, project.to_str().unwrap(), at).unwrap();
        let said = |text| Some(Said { text, at });
        capture.insert_turn(session, session, self.turns, said(user), said(assistant)).unwrap();
        capture.commit().unwrap();
        let id = || SessionId::new(session).unwrap();
        let receipt = Receipt::new(id(), id(), Digest::of_body(user), Digest::of_body(assistant), at).unwrap();
        assert_eq!(self.home.receipts().lock().unwrap().append([receipt]).unwrap(), 1);
    }
}
