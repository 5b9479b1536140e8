//! The hook before a tool.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use throughline::Stores;
use throughline::session_name::pending;

use super::{BLOCK, Named, Step, assert_allowed, assert_refused, assert_unchecked, logged, observed, refusal};
use crate::home::Home;
use crate::hooks::{Session, hook, run};
use crate::named::NAME;

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

#[test]
fn what_is_no_payload_or_no_state_lets_a_tool_through_and_is_logged() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    named.says("prose");
    for payload in ["", "[]", "{}", "no JSON", r#"{"session_id":7}"#] {
        let output = run(&mut hook(&home, &["claude", "pre-tool-use"]), payload.as_bytes());
        assert_unchecked(&output, "payload");
    }
    let record =
        json!({"event": "pre-tool-use", "verdict": "error", "reason": "payload", "session_sha256": Value::Null});
    assert_eq!(logged(&home), vec![record; 5]);
    let whole = fs::read(named.state_path()).unwrap();
    fs::write(named.state_path(), &whole[1..]).unwrap();
    assert_unchecked(&named.before_tool(), "state");
    fs::write(named.state_path(), &whole).unwrap();
    fs::set_permissions(named.state_path(), Permissions::from_mode(0o644)).unwrap();
    assert_unchecked(&named.before_tool(), "state");
    assert_eq!(logged(&home)[5..], vec![named.record("pre-tool-use", "error", "state"); 2]);
    fs::set_permissions(named.state_path(), Permissions::from_mode(0o600)).unwrap();
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
    assert_allowed(&run(&mut stop, payload.to_string().as_bytes()));
    let other = Session::new(&home, "other");
    other.turn(1);
    let payload = other.payload(Some("answer 1")).to_string();
    assert_allowed(&run(&mut hook(&home, &["claude", "pre-tool-use"]), payload.as_bytes()));
    assert_allowed(&run(&mut hook(&home, &["claude", "stop"]), payload.as_bytes()));
    assert_eq!(logged(&home), Vec::<Value>::new());
    // Where the check is registered every Stop is observed.
    assert_allowed(&run(&mut hook(&home, &["claude", "stop", "--session-name"]), payload.as_bytes()));
    assert_eq!(logged(&home), [observed(false, false)]);
}
