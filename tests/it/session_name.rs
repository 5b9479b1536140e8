//! The session-name display check as an agent and its host meet it: real commands, real hooks, real transcripts.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use proptest::prelude::*;
use serde_json::{Value, json};
use throughline::Stores;
use throughline::session_name::diagnostics::{Log, MOST_BYTES};
use throughline::session_name::{Pending, pending};
use throughline_parsers::text::Digest;

use crate::home::Home;
use crate::hooks::{self, Session, assert_stored, hook, json_of, start_with, stored, texts};
use crate::naive_name;
use crate::named::{NAME, transcript};
use crate::spelling::check;

const BLOCK: &str = "```\nSession - fix the parser\n```";

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
    let line = format!("throughline: the session's name was not checked: {reason}\n");
    assert_eq!((output.status.code(), texts(output)), (Some(0), ("", line.as_str())));
}

// ---- the commands

#[test]
fn the_first_task_names_the_session_and_later_ones_are_silent() {
    let home = Home::new();
    let call = |session: &str, arguments: &[&str]| {
        let output = of_agent(&home, session, arguments).output().unwrap();
        assert_eq!((output.status.code(), texts(&output).1), (Some(0), ""));
        texts(&output).0.to_owned()
    };
    let suggestion = |command: &str, name: &str, first: bool, retry: bool| {
        format!(
            "{{\"schema\":\"throughline.session_name.v1\",\"command\":\"{command}\",\"suggested_session_name\":{name},\
             \"first_of_session\":{first},\"session_name_retry\":{retry}}}\n"
        )
    };
    let status = |status: &str, name: &str| {
        format!("{{\"schema\":\"throughline.session_name.v1\",\"status\":\"{status}\",\"name\":{name}}}\n")
    };
    assert_eq!(call("s", &["status", "--json"]), status("unminted", "null"));
    assert_eq!(call("s", &["status"]), "unminted\n");
    assert_eq!(call("s", &["retry"]), suggestion("retry", "null", false, false));
    assert_eq!(call("s", &["set-task", " \n"]), suggestion("set-task", "null", false, false));
    assert!(!home.path("home/.local").exists(), "nothing was named yet");

    let name = "\"Session - fix the “parser” & more\"";
    let minted = call("s", &["set-task", " fix\tthe  “parser”\n& more "]);
    assert_eq!(minted, suggestion("set-task", name, true, false));
    assert_eq!(call("s", &["status", "--json"]), status("pending", name));
    assert_eq!(call("s", &["status"]), "pending: Session - fix the “parser” & more\n");
    assert_eq!(call("s", &["set-task", "something else"]), suggestion("set-task", "null", false, false));
    for _ in 0..2 {
        assert_eq!(call("s", &["retry"]), suggestion("retry", name, false, true));
    }
    // Another session, named by an option; a task may look like one.
    let label = ["set-task", "--label", " My  team ", "--session", "t", "-x"];
    assert_eq!(call("s", &label), suggestion("set-task", "\"My team - -x\"", true, false));
    assert_eq!(call("t", &["status"]), "pending: My team - -x\n");

    let listing = pending(&Stores::below(home.path("home"))).unwrap();
    let of =
        |session: &str, name: &str| Pending { session_sha256: Digest::of(session).to_string(), name: name.to_owned() };
    let mut both = vec![of("s", "Session - fix the “parser” & more"), of("t", "My team - -x")];
    both.sort_by(|one, other| one.session_sha256.cmp(&other.session_sha256));
    assert_eq!((listing.pending, listing.unusable), (both, 0));
}

#[test]
fn wrong_usage_is_told_and_a_state_that_cannot_be_used_is_an_error() {
    let home = Home::new();
    let wrong: [&[&str]; 12] = [
        &[],
        &["set-task"],
        &["set-task", "a", "b"],
        &["set-task", "a", "--label", ""],
        &["set-task", "a", "--session", ""],
        &["retry", "x"],
        &["status", "--yes"],
        &["check"],
        &["check", "--transcript", "x"],
        &["check", "--name", "x"],
        &["no-such-command"],
        &["--json"],
    ];
    for arguments in wrong {
        let output = of_agent(&home, "s", arguments).output().unwrap();
        let (stdout, stderr) = texts(&output);
        assert_eq!((output.status.code(), stdout, stderr.matches('\n').count()), (Some(64), "", 1), "{arguments:?}");
    }
    for arguments in [&["set-task", "a"][..], &["retry"], &["status"]] {
        for id in [None, Some(""), Some(&*"x".repeat(4097))] {
            let mut command = home.throughline(&[&["session-name"], arguments].concat());
            let output = command.envs(id.map(|id| ("CLAUDE_CODE_SESSION_ID", id))).output().unwrap();
            assert_eq!((output.status.code(), texts(&output).0), (Some(64), ""), "{arguments:?} {id:?}");
            assert!(texts(&output).1.contains("--session ID"));
        }
    }
    let named = Named::new(&home, "s");
    fs::write(named.state_path(), "{}").unwrap();
    for arguments in [&["set-task", "a"][..], &["retry"], &["status"]] {
        let output = of_agent(&home, "s", arguments).output().unwrap();
        let line = "throughline: the state of the session's name is invalid\n";
        assert_eq!((output.status.code(), texts(&output)), (Some(1), ("", line)));
    }
    assert_eq!(fs::read(named.state_path()).unwrap(), b"{}");
    assert_eq!(pending(&Stores::below(home.path("home"))).unwrap().unusable, 1);
}

#[test]
fn check_tells_what_a_transcript_shows() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    let check = |path: &Path, more: &[&str]| {
        let path = path.to_str().unwrap();
        let arguments = [&["session-name", "check", "--transcript", path, "--name", NAME], more].concat();
        let output = home.throughline(&arguments).output().unwrap();
        assert_eq!((output.status.code(), texts(&output).1), (Some(0), ""));
        texts(&output).0.to_owned()
    };
    let answer = |status: &str, reason: &str| {
        format!("{{\"schema\":\"throughline.session_name.v1\",\"status\":\"{status}\",\"reason\":{reason}}}\n")
    };
    let path = &named.session.path;
    assert_eq!(check(path, &["--json"]), answer("unavailable", "\"no_visible_reply\""));
    named.says("prose");
    assert_eq!(check(path, &["--json"]), answer("absent", "null"));
    assert_eq!(check(path, &[]), "absent\n");
    named.retry();
    named.says(BLOCK);
    assert_eq!(check(path, &["--json"]), answer("present", "null"));
    for nothing in ["nowhere", "project", "project/x/y"] {
        assert_eq!(check(&home.path(nothing), &["--json"]), answer("unavailable", "\"missing_transcript\""));
    }
    assert_eq!(check(&home.path("nowhere"), &[]), "unavailable: missing_transcript\n");
}

// ---- before a tool

#[test]
fn a_name_that_is_shown_lets_tools_through_and_is_stamped() {
    let home = Home::new();
    let ways: [Step; 4] = [
        |named| named.says(&format!("{BLOCK}\nI begin.")),
        |named| {
            named.thinks();
            named.says(BLOCK);
        },
        |named| {
            let text = json!({"type": "text", "text": format!("\n{BLOCK}\n")});
            named.blocks(&[json!({"type": "thinking", "thinking": ""}), text]);
        },
        |named| named.says("````text\r\nSession - fix the parser\r\n````\r\nI begin."),
    ];
    for (n, show) in ways.into_iter().enumerate() {
        let named = Named::new(&home, &format!("session {n}"));
        show(&named);
        named.uses_a_tool();
        assert_eq!(named.status(), "pending");
        assert_allowed(&named.before_tool());
        let state = named.state();
        assert_eq!((named.status(), &state["seen_for"]), (json!("shown"), &json!(NAME)));
        assert!(state["seen_at"].is_i64());
        assert_eq!(named.call(&["retry"])["suggested_session_name"], Value::Null);
        // It was seen: what follows does not matter.
        fs::remove_file(&named.session.path).unwrap();
        assert_allowed(&named.before_tool());
    }
    assert_eq!(logged(&home), Vec::<Value>::new());
    assert!(pending(&Stores::below(home.path("home"))).unwrap().pending.is_empty());
}

#[test]
fn a_readable_reply_that_shows_something_else_is_refused_until_an_explicit_retry() {
    let home = Home::new();
    let wrong = [
        "I begin.",
        "Session - fix the parser",
        "I begin.\n```\nSession - fix the parser\n```",
        "```\nSession - fix the parser \n```",
        "```\nSession - fix the parser\nI begin.\n```",
        "~~~\nSession - fix the parser\n~~~",
    ];
    for (n, opening) in wrong.into_iter().enumerate() {
        let named = Named::new(&home, &format!("session {n}"));
        named.thinks();
        named.says(opening);
        assert_refused(&named.before_tool());
        // The right block comes too late, and so does a task.
        named.says(BLOCK);
        named.tool_says(&named.call(&["set-task", "more of it"]));
        named.says(BLOCK);
        assert_refused(&named.before_tool());
        let refused = named.record("pre-tool-use", "absent", "refused");
        assert_eq!(logged(&home)[2 * n..], [refused.clone(), refused]);
        assert_eq!((named.status(), &named.state()["seen_for"]), (json!("pending"), &json!(null)));
    }
    let named = Named::new(&home, "again");
    named.says("I begin.");
    assert_refused(&named.before_tool());
    named.retry();
    assert_unchecked(&named.before_tool(), "no_visible_reply");
    named.says("Wrong again.");
    assert_refused(&named.before_tool());
    named.retry();
    named.says(BLOCK);
    assert_allowed(&named.before_tool());
    assert_eq!(named.status(), "shown");
}

#[test]
fn the_agent_s_own_command_is_let_through_and_nothing_else() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    named.says("I begin.");
    let retry = refusal(&named.before_tool()).unwrap();
    let told = retry.lines().find(|line| line.ends_with("session-name retry")).unwrap();
    for own in [told, "throughline session-name retry", "throughline session-name set-task \"the parser's tests\""] {
        assert_allowed(&named.before(&named.tool_payload("Bash", own)));
    }
    for (tool, other) in [
        ("Bash", "ls"),
        ("Bash", "throughline session-name retry && ls"),
        ("Bash", "throughline session-name retry\nls"),
        ("Bash", "throughline capture --all"),
        ("BashOutput", "throughline session-name retry"),
        ("Read", "throughline session-name retry"),
    ] {
        assert_refused(&named.before(&named.tool_payload(tool, other)));
    }
    let mut without = named.tool_payload("Bash", "");
    without["tool_input"] = json!({});
    assert_refused(&named.before(&without));
}

// ---- evidence that is not available

/// Something that happens in a session.
type Step = fn(&Named<'_>);

/// What spoils the evidence of a session, and the reason that is told.
const SPOILED: [(Step, &str); 7] = [
    (|named| fs::remove_file(&named.session.path).unwrap(), "missing_transcript"),
    (
        |named| {
            fs::remove_file(&named.session.path).unwrap();
            fs::create_dir(&named.session.path).unwrap();
        },
        "missing_transcript",
    ),
    (|named| fs::write(&named.session.path, "\n").unwrap(), "no_mint"),
    (|named| named.thinks(), "no_visible_reply"),
    (
        |named| {
            named.thinks();
            named.uses_a_tool();
            named.says("prose");
        },
        "tool_before_reply",
    ),
    (
        |named| {
            named.breaks();
            named.says("prose");
        },
        "corrupt_row",
    ),
    (
        |named| {
            named.says("prose");
            named.breaks();
        },
        "corrupt_row",
    ),
];

#[test]
fn without_evidence_a_tool_is_let_through_and_the_name_stays_pending() {
    for (spoil, reason) in SPOILED {
        let home = Home::new();
        let named = Named::new(&home, "s");
        spoil(&named);
        assert_unchecked(&named.before_tool(), reason);
        assert_eq!(logged(&home), [named.record("pre-tool-use", "unavailable", reason)]);
        assert_eq!((named.status(), &named.state()["seen_for"]), (json!("pending"), &json!(null)));
    }
}

#[test]
fn without_evidence_the_end_of_a_turn_is_let_go_and_observed() {
    // Without a transcript there is nothing to capture, and no check.
    for (spoil, reason) in &SPOILED[2..] {
        let home = Home::new();
        let named = Named::new(&home, "s");
        spoil(&named);
        assert_unchecked(&named.stop(false), reason);
        assert_eq!(logged(&home), [missing(reason), named.record("stop", "unavailable", reason)]);
        assert_eq!((named.status(), &named.state()["seen_for"]), (json!("pending"), &json!(null)));
    }
}

#[test]
fn a_later_sighting_counts_where_no_reply_was_a_readable_mismatch() {
    let spoiled: [Step; 3] =
        [|named| named.uses_a_tool(), |named| named.breaks(), |named| named.tool_says(&named.call(&["set-task", "b"]))];
    for (n, spoil) in spoiled.into_iter().enumerate() {
        for at_stop in [false, true] {
            let home = Home::new();
            let named = Named::new(&home, &format!("session {n}"));
            spoil(&named);
            if n < 2 {
                named.says("prose");
            }
            named.says(BLOCK);
            assert_allowed(&if at_stop { named.stop(false) } else { named.before_tool() });
            assert_eq!(named.status(), "shown");
            assert_eq!(logged(&home), if at_stop { vec![observed(true, true)] } else { Vec::new() });
        }
    }
}

#[test]
fn what_is_no_payload_or_no_state_lets_a_tool_through_and_is_logged() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    named.says("prose");
    for payload in ["", "[]", "{}", "no JSON", r#"{"session_id":7}"#] {
        let output = hooks::run(&mut hook(&home, &["claude", "pre-tool-use"]), payload.as_bytes());
        assert_unchecked(&output, "payload");
    }
    let record =
        json!({"event": "pre-tool-use", "verdict": "error", "reason": "payload", "session_sha256": Value::Null});
    assert_eq!(logged(&home), vec![record; 5]);
    let whole = fs::read(named.state_path()).unwrap();
    fs::write(named.state_path(), &whole[1..]).unwrap();
    assert_unchecked(&named.before_tool(), "state");
    fs::write(named.state_path(), &whole).unwrap();
    fs::set_permissions(named.state_path(), fs::Permissions::from_mode(0o644)).unwrap();
    assert_unchecked(&named.before_tool(), "state");
    assert_eq!(logged(&home)[5..], vec![named.record("pre-tool-use", "error", "state"); 2]);
    fs::set_permissions(named.state_path(), fs::Permissions::from_mode(0o600)).unwrap();
    assert_refused(&named.before_tool());
    // Of a host that names no transcript.
    let mut payload = named.tool_payload("Read", "");
    payload["transcript_path"] = Value::Null;
    assert_unchecked(&named.before(&payload), "missing_transcript");
}

#[test]
fn sub_agents_and_sessions_without_a_name_are_not_looked_at() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    named.says("prose");
    let mut payload = named.tool_payload("Read", "");
    payload["agent_id"] = json!("a1");
    assert_allowed(&named.before(&payload));
    let mut payload = named.stop_payload(false);
    payload["agent_id"] = json!("a1");
    let mut stop = hook(&home, &["claude", "stop", "--session-name"]);
    assert_allowed(&hooks::run(&mut stop, payload.to_string().as_bytes()));
    let other = Session::new(&home, "other");
    other.turn(1);
    let payload = other.payload(Some("answer 1")).to_string();
    assert_allowed(&hooks::run(&mut hook(&home, &["claude", "pre-tool-use"]), payload.as_bytes()));
    assert_allowed(&hooks::run(&mut hook(&home, &["claude", "stop"]), payload.as_bytes()));
    assert_eq!(logged(&home), Vec::<Value>::new());
    // Where the check is registered every Stop is observed.
    assert_allowed(&hooks::run(&mut hook(&home, &["claude", "stop", "--session-name"]), payload.as_bytes()));
    assert_eq!(logged(&home), [observed(false, false)]);
}

// ---- at the end of a turn

#[test]
fn the_end_of_a_turn_is_refused_five_times_and_then_let_go_until_the_user_s_next() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    named.says("I begin.");
    let (observed, refused) = (observed(true, false), named.record("stop", "absent", "refused"));
    for turn in 0..2 {
        for n in 0..5 {
            assert_refused(&named.stop(n > 0));
            assert_eq!(logged(&home)[14 * turn + 2 * n..], [observed.clone(), refused.clone()]);
        }
        for _ in 0..2 {
            assert_unchecked(&named.stop(true), "let_go");
        }
        let let_go = [observed.clone(), named.record("stop", "absent", "let_go")];
        assert_eq!(logged(&home)[14 * turn + 10..], [&let_go[..], &let_go].concat());
    }
    assert_eq!(named.status(), "pending");
    named.retry();
    named.says(BLOCK);
    assert_allowed(&named.stop(false));
    assert_allowed(&named.stop(true));
    assert_eq!(named.status(), "shown");
    let last = log(&home).last(2);
    assert!(last[0].contains(r#""observed":{"required":true,"present":true}"#), "{}", last[0]);
    assert!(last[1].contains(r#""observed":{"required":false,"present":true}"#), "{}", last[1]);
}

#[test]
fn the_current_observation_alone_decides() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    named.says("I begin.");
    assert_refused(&named.stop(false));
    assert_eq!(named.state()["remediation"], 1);
    // The agent asks anew, and what it says then cannot be read.
    named.retry();
    named.breaks();
    assert_unchecked(&named.stop(true), "corrupt_row");
    assert_eq!(logged(&home)[2..], [missing("corrupt_row"), named.record("stop", "unavailable", "corrupt_row")]);
    assert_unchecked(&named.before_tool(), "corrupt_row");
    // A readable mismatch holds again.
    named.retry();
    named.says("I go on.");
    assert_refused(&named.stop(true));
    assert_eq!(named.state()["remediation"], 2);
    // A host that does not tell whether a Stop hook was at work must not be held for ever.
    let mut payload = named.stop_payload(true);
    payload.as_object_mut().unwrap().remove("stop_hook_active");
    let stop = || {
        refusal(&hooks::run(&mut hook(&home, &["claude", "stop", "--session-name"]), payload.to_string().as_bytes()))
    };
    assert_eq!((0..6).filter(|_| stop().is_some()).count(), 3);
}

#[test]
fn without_its_option_the_stop_hook_observes_and_refuses_nothing() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    named.says("I begin.");
    assert_allowed(&named.stop_with(&["claude", "stop"], false));
    assert_eq!(logged(&home), [observed(true, false)]);
    named.retry();
    named.says(BLOCK);
    assert_allowed(&named.stop_with(&["claude", "stop"], false));
    assert_eq!((logged(&home)[1..].to_vec(), named.status()), (vec![observed(true, true)], json!("shown")));
}

#[test]
fn what_is_stored_does_not_depend_on_the_check() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    named.session.say("m2", "I have begun.");
    assert_refused(&named.stop(false));
    let (stored_once, receipts) = (stored(&home), hooks::receipts(&home));
    assert_eq!((stored_once.len(), receipts.len()), (2, 1));
    // A state that cannot be used is the check's trouble alone.
    fs::write(named.state_path(), "x").unwrap();
    named.session.turn(3);
    assert_unchecked(&named.stop(false), "state");
    assert_eq!((stored(&home).len(), hooks::receipts(&home).len()), (4, 2));
    assert_eq!(logged(&home)[2..], [named.record("stop", "error", "state")]);
    // Where nothing can be stored, nothing is checked.
    fs::set_permissions(home.receipts().path(), fs::Permissions::from_mode(0o644)).unwrap();
    named.session.turn(4);
    assert_eq!(named.stop(false).status.code(), Some(1));
    assert_eq!(logged(&home).len(), 3);
    fs::set_permissions(home.receipts().path(), fs::Permissions::from_mode(0o600)).unwrap();
    // A log that cannot be written is nobody's trouble.
    fs::remove_file(log(&home).path()).unwrap();
    fs::create_dir(log(&home).path()).unwrap();
    assert_unchecked(&named.stop(false), "state");
    assert_eq!(hooks::receipts(&home).len(), 3);
}

// ---- many at once

#[test]
fn hooks_at_once_stamp_once_and_refuse_no_more_than_five_times() {
    let home = Home::new();
    let shown = Named::new(&home, "shown");
    shown.says(BLOCK);
    let payload = shown.tool_payload("Read", "").to_string();
    let hooks: Vec<_> =
        (0..8).map(|_| start_with(&mut hook(&home, &["claude", "pre-tool-use"]), payload.as_bytes())).collect();
    hooks.into_iter().for_each(|hook| assert_allowed(&hook.wait_with_output().unwrap()));
    assert_eq!(shown.status(), "shown");

    let wrong = Named::new(&home, "wrong");
    wrong.says("I begin.");
    let payload = wrong.stop_payload(true).to_string();
    let stops: Vec<_> = (0..12)
        .map(|_| start_with(&mut hook(&home, &["claude", "stop", "--session-name"]), payload.as_bytes()))
        .collect();
    let refused = stops.into_iter().map(|stop| refusal(&stop.wait_with_output().unwrap()));
    assert_eq!(refused.filter(Option::is_some).count(), 5);
    assert_eq!(logged(&home).len(), 24, "two lines of each");

    // Tasks that are set at once give one name.
    let tasks: Vec<_> =
        (0..8).map(|n| start_with(&mut of_agent(&home, "new", &["set-task", &format!("task {n}")]), b"")).collect();
    let names = tasks.into_iter().map(|task| json_of(&task.wait_with_output().unwrap()));
    let first: Vec<Value> = names.filter(|answer| answer["first_of_session"] == true).collect();
    assert_eq!(first.len(), 1);
    let pending = format!("pending: {}\n", first[0]["suggested_session_name"].as_str().unwrap());
    assert_eq!(texts(&of_agent(&home, "new", &["status"]).output().unwrap()).0, pending);
}

#[test]
fn the_log_is_private_and_bounded_and_keeps_the_one_before() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    named.thinks();
    assert_unchecked(&named.before_tool(), "no_visible_reply");
    let log = log(&home);
    let line = fs::read(log.path()).unwrap();
    let full = line.repeat(MOST_BYTES as usize / line.len());
    fs::write(log.path(), &full).unwrap();
    let payload = named.tool_payload("Read", "").to_string();
    let hooks: Vec<_> =
        (0..6).map(|_| start_with(&mut hook(&home, &["claude", "pre-tool-use"]), payload.as_bytes())).collect();
    hooks.into_iter().for_each(|hook| assert_unchecked(&hook.wait_with_output().unwrap(), "no_visible_reply"));
    assert_eq!(fs::read(log.older()).unwrap(), full);
    assert_eq!(fs::read_to_string(log.path()).unwrap().lines().count(), 6);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!([log.path(), &log.older()].map(mode), [0o600; 2]);
    assert_eq!(log.last(8).len(), 8);
    // It says nothing of what was said, and nothing of where.
    let text = fs::read_to_string(log.path()).unwrap();
    for secret in [NAME, "fix the parser", "\"s\"", home.project().to_str().unwrap()] {
        assert!(!text.contains(secret), "{text}");
    }
}

// ---- the property

/// A tool, or the end of a turn, is refused only where the model says `absent`; and there it is.
#[test]
fn on_random_transcripts_only_what_the_model_calls_absent_is_refused() {
    let home = Home::new();
    let counts = [0; 3].map(std::cell::Cell::new);
    let named = Named::new(&home, "random");
    // A turn, so that the Stop hook has something to store, and the name.
    let begun = fs::read(&named.session.path).unwrap();
    let fresh = fs::read(named.state_path()).unwrap();
    check(120, transcript(), |rows| {
        let bytes = [&begun[..], &rows.0].concat();
        fs::write(&named.session.path, &bytes).unwrap();
        fs::write(named.state_path(), &fresh).unwrap();
        let (status, reason) = naive_name::check(&bytes, NAME);
        for output in [named.before_tool(), named.stop(false)] {
            prop_assert_eq!(refusal(&output).is_some(), status == "absent", "{:?} {:?}", status, reason);
        }
        prop_assert_eq!(named.state()["seen_for"].is_null(), status != "present");
        let known = ["absent", "present", "unavailable"].iter().position(|known| *known == status).unwrap();
        counts[known].update(|count| count + 1);
        Ok(())
    });
    assert!(counts.iter().all(|count| count.get() > 4), "{counts:?}");
}

#[test]
fn answers_and_lines_of_the_log_are_as_their_schema_says() {
    let schema: Value = serde_json::from_str(include_str!("../../schemas/session-name.schema.json")).unwrap();
    assert!(jsonschema::meta::is_valid(&schema), "the schema itself is wrong");
    let valid = |part: &str, line: &str| {
        let mut schema = schema.clone();
        schema["$ref"] = json!(format!("#/$defs/{part}"));
        schema.as_object_mut().unwrap().remove("oneOf");
        let errors: Vec<String> = jsonschema::validator_for(&schema)
            .unwrap()
            .iter_errors(&serde_json::from_str(line).unwrap())
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{part}: {line}: {errors:?}");
    };
    let home = Home::new();
    let line = |arguments: &[&str]| texts(&of_agent(&home, "s", arguments).output().unwrap()).0.to_owned();
    valid("status", &line(&["status", "--json"]));
    valid("suggestion", &line(&["set-task", "x"]));
    valid("suggestion", &line(&["set-task", "y"]));
    valid("suggestion", &line(&["retry"]));
    valid("status", &line(&["status", "--json"]));
    valid("verdict", &line(&["check", "--transcript", "nowhere", "--name", "x", "--json"]));
    let named = Named::new(&home, "t");
    named.thinks();
    assert_unchecked(&named.stop(false), "no_visible_reply");
    named.says("prose");
    assert_refused(&named.before_tool());
    assert_stored(&named.stop_with(&["claude", "stop"], false));
    let lines = log(&home).last(9);
    assert_eq!(lines.len(), 4);
    for (line, part) in lines.iter().zip(["observation", "diagnostic", "diagnostic", "observation"]) {
        valid(part, line);
    }
}
