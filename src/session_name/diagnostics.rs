//! What the hooks could not check and why: JSON lines, for who looks after them.
//!
//! The log is `throughline/hook-diagnostics.jsonl` in the user's state directory, private, and at most 1 MiB; the one before
//! it is kept beside it. A line holds no text, no name and no path; a session is told by the SHA-256 of its id. What cannot
//! be logged is not: no hook fails for that.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use throughline_parsers::claude::{Reason, Verdict};
use throughline_parsers::text::Digest;

use crate::clock::now_ms;
use crate::lock::Lock;
use crate::private_file::{self, Durability};

/// A log does not grow beyond so many bytes.
pub const MOST_BYTES: u64 = 1 << 20;

/// At which of its events a hook was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A tool was asked for.
    PreToolUse,
    /// The turn has come to its end.
    Stop,
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "pre-tool-use",
            Self::Stop => "stop",
        }
    }
}

/// What became of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The evidence was not available: allowed.
    Unavailable(Reason),
    /// The name was readably not shown: the tool or the end of the turn was refused.
    Refused,
    /// The same, but the end of the turn had been refused too often: let go.
    LetGo,
    /// The check itself failed: allowed.
    Failed(Trouble),
}

/// Why a check failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// What the host gave is no payload of this event.
    Payload,
    /// The state of the name cannot be used.
    State,
    /// A fault of this program.
    Internal,
}

impl Outcome {
    /// The verdict and the reason, as they are logged.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Unavailable(reason) => ("unavailable", reason.name()),
            Self::Refused => ("absent", "refused"),
            Self::LetGo => ("absent", "let_go"),
            Self::Failed(Trouble::Payload) => ("error", "payload"),
            Self::Failed(Trouble::State) => ("error", "state"),
            Self::Failed(Trouble::Internal) => ("error", "internal"),
        }
    }

    /// The reason.
    pub fn reason(self) -> &'static str {
        self.words().1
    }
}

/// The log.
#[derive(Clone, Debug)]
pub struct Log {
    path: PathBuf,
}

impl Log {
    /// The one in this state directory (`$XDG_STATE_HOME`).
    pub fn below(state_home: &Path) -> Self {
        Self { path: state_home.join("throughline/hook-diagnostics.jsonl") }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the one before it.
    pub fn older(&self) -> PathBuf {
        self.path.with_extension("jsonl.1")
    }

    /// Logs what became of a check.
    pub fn record(&self, event: Event, session: Option<Digest>, outcome: Outcome) {
        #[derive(Serialize)]
        struct Record {
            time: i64,
            event: &'static str,
            verdict: &'static str,
            reason: &'static str,
            session_sha256: Option<String>,
        }
        let (verdict, reason) = outcome.words();
        let session_sha256 = session.map(|session| session.to_string());
        self.append(&Record { time: now_ms(), event: event.name(), verdict, reason, session_sha256 });
    }

    /// Logs what was observed at the end of a turn: whether a name was to be shown, and was.
    pub fn observe(&self, required: bool, verdict: Verdict) {
        #[derive(Serialize)]
        struct Observation {
            time: i64,
            event: &'static str,
            schema: &'static str,
            session_name: serde_json::Value,
        }
        let session_name = match verdict {
            Verdict::Unavailable(reason) => {
                json!({"expected_but_missing": {"capability": "assistant_reply_text", "reason": reason.name()}})
            }
            shown => json!({"observed": {"required": required, "present": shown == Verdict::Present}}),
        };
        let (event, schema) = (Event::Stop.name(), "throughline.observation.v3");
        self.append(&Observation { time: now_ms(), event, schema, session_name });
    }

    /// The last lines, at most so many, oldest first. What cannot be read is as if it was not there.
    pub fn last(&self, count: usize) -> Vec<String> {
        let read = |path: &Path| fs::read(path).unwrap_or_default();
        let bytes = [read(&self.older()), read(&self.path)].concat();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(count)..].iter().map(|line| (*line).to_owned()).collect()
    }

    fn append(&self, line: &impl Serialize) {
        // There is no place where it could be told that a diagnostic is missing.
        let _logged = self.try_append(line);
    }

    fn try_append(&self, line: &impl Serialize) -> Result<(), Box<dyn std::error::Error>> {
        let line = serde_json::to_string(line)? + "\n";
        if let Some(directory) = self.path.parent() {
            private_file::make_directory(directory, Durability::Unsynced)?;
        }
        let _lock = Lock::of(&self.path)?;
        Ok(private_file::append(&self.path, line.as_bytes(), MOST_BYTES, &self.older())?)
    }
}
