//! The session-name display check as an agent and its host meet it: real commands, real hooks, real transcripts.

mod commands;
mod evidence;
mod stops;
mod together;
mod tools;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};
use throughline::session_name::diagnostics::Log;
use throughline_parsers::text::Digest;

use crate::home::Home;
use crate::hooks::{self, Session, hook, json_of, texts};

const BLOCK: &str = "```\nSession - fix the parser\n```";

/// Something that happens in a session.
type Step = fn(&Named<'_>);

/// A session that has a name to show.
struct Named<'h> {
    home: &'h Home,
    session: Session<'h>,
    id: String,
}

impl<'h> Named<'h> {
    /// It asks something, and its agent sets a task, which gives it the name.
    fn new(home: &'h Home, id: &str) -> Self {
        let named = Self { home, session: Session::new(home, id), id: id.to_owned() };
        named.session.ask("do it");
        named.tool_says(&named.call(&["set-task", "fix the parser"]));
        named
    }

    /// What `throughline session-name` answers to the session's agent.
    fn call(&self, arguments: &[&str]) -> Value {
        json_of(&of_agent(self.home, &self.id, arguments).output().unwrap())
    }

    fn status(&self) -> Value {
        self.call(&["status", "--json"])["status"].clone()
    }

    fn retry(&self) {
        let answer = self.call(&["retry"]);
        assert_eq!(answer["session_name_retry"], true);
        self.tool_says(&answer);
    }

    /// A tool's answer reaches the agent.
    fn tool_says(&self, answer: &Value) {
        let result = json!({"type": "tool_result", "tool_use_id": "t", "content": answer.to_string()});
        self.session.row("user", &json!({"message": {"role": "user", "content": [result]}}));
    }

    fn thinks(&self) {
        self.blocks(&[json!({"type": "thinking", "thinking": "how to begin?"})]);
    }

    fn says(&self, text: &str) {
        self.blocks(&[json!({"type": "text", "text": text})]);
    }

    fn uses_a_tool(&self) {
        self.blocks(&[json!({"type": "tool_use", "id": "t", "name": "Read", "input": {}})]);
    }

    fn blocks(&self, blocks: &[Value]) {
        self.session.agent("m", &json!(blocks), "tool_use");
    }

    /// A line that cannot be read.
    fn breaks(&self) {
        let mut file = OpenOptions::new().append(true).open(&self.session.path).unwrap();
        file.write_all(b"{\"parentUuid\":\"cut\n").unwrap();
    }

    fn tool_payload(&self, tool: &str, command: &str) -> Value {
        let mut payload = self.session.payload(None);
        payload["hook_event_name"] = json!("PreToolUse");
        payload["tool_name"] = json!(tool);
        payload["tool_input"] = json!({"command": command, "description": "x"});
        payload
    }

    fn before_tool(&self) -> Output {
        self.before(&self.tool_payload("Read", ""))
    }

    fn before(&self, payload: &Value) -> Output {
        hooks::run(&mut hook(self.home, &["claude", "pre-tool-use"]), payload.to_string().as_bytes())
    }

    fn stop_payload(&self, active: bool) -> Value {
        let mut payload = self.session.payload(None);
        payload["stop_hook_active"] = json!(active);
        payload
    }

    fn stop(&self, active: bool) -> Output {
        self.stop_with(&["claude", "stop", "--session-name"], active)
    }

    fn stop_with(&self, arguments: &[&str], active: bool) -> Output {
        hooks::run(&mut hook(self.home, arguments), self.stop_payload(active).to_string().as_bytes())
    }

    fn state_path(&self) -> PathBuf {
        self.home.path(&format!("home/.local/state/throughline/session-names/{}.json", Digest::of(&self.id)))
    }

    fn state(&self) -> Value {
        serde_json::from_slice(&fs::read(self.state_path()).unwrap()).unwrap()
    }

    /// A line of the log without its time, as the check of this session writes it.
    fn record(&self, event: &str, verdict: &str, reason: &str) -> Value {
        let session = Digest::of(&self.id).to_string();
        json!({"event": event, "verdict": verdict, "reason": reason, "session_sha256": session})
    }
}

/// `throughline session-name` as the agent of a session runs it.
fn of_agent(home: &Home, session: &str, arguments: &[&str]) -> Command {
    let mut command = home.throughline(&[&["session-name"], arguments].concat());
    command.env("CLAUDE_CODE_SESSION_ID", session);
    command
}

fn log(home: &Home) -> Log {
    Log::below(&home.path("home/.local/state"))
}

/// The lines of the log, without their times.
fn logged(home: &Home) -> Vec<Value> {
    let lines = log(home).last(usize::MAX);
    let mut records: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    for record in &mut records {
        let time = record.as_object_mut().unwrap().shift_remove("time").unwrap();
        assert!(time.as_i64().unwrap() > 1_700_000_000_000);
    }
    records
}

fn observation(session_name: &Value) -> Value {
    json!({"event": "stop", "schema": "throughline.observation.v3", "session_name": session_name})
}

fn observed(required: bool, present: bool) -> Value {
    observation(&json!({"observed": {"required": required, "present": present}}))
}

fn missing(reason: &str) -> Value {
    observation(&json!({"expected_but_missing": {"capability": "assistant_reply_text", "reason": reason}}))
}

/// What is refused, and why; `None` where all goes on.
fn refusal(output: &Output) -> Option<String> {
    assert_eq!(output.status.code(), Some(0));
    let (stdout, stderr) = texts(output);
    if stdout.is_empty() {
        return None;
    }
    assert_eq!((stderr, stdout.matches('\n').count()), ("", 1));
    let answer: Value = serde_json::from_str(stdout).unwrap();
    let why = match answer["decision"].as_str() {
        Some(decision) => {
            assert_eq!((decision, answer.as_object().unwrap().len()), ("block", 2));
            &answer["reason"]
        }
        None => {
            let output = &answer["hookSpecificOutput"];
            assert_eq!(
                (&output["hookEventName"], &output["permissionDecision"]),
                (&json!("PreToolUse"), &json!("deny"))
            );
            &output["permissionDecisionReason"]
        }
    };
    Some(why.as_str().unwrap().to_owned())
}

#[track_caller]
fn assert_refused(output: &Output) {
    let why = refusal(output).expect("it was let through");
    let command = format!("{} session-name retry", env!("CARGO_BIN_EXE_throughline"));
    assert!(why.contains(BLOCK) && why.contains(&command), "{why}");
}

/// It is let through without a word.
#[track_caller]
fn assert_allowed(output: &Output) {
    assert_eq!((output.status.code(), texts(output)), (Some(0), ("", "")));
}

/// It is let through for want of evidence.
#[track_caller]
fn assert_unchecked(output: &Output, reason: &str) {
    let line = format!("throughline: the session's name is not enforced: {reason}\n");
    assert_eq!((output.status.code(), texts(output)), (Some(0), ("", line.as_str())));
}
