//! Many hooks at once, and the log that they share.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use throughline::session_name::diagnostics::MOST_BYTES;

use super::{BLOCK, Named, assert_allowed, assert_unchecked, log, logged, of_agent, refusal};
use crate::home::Home;
use crate::hooks::{hook, json_of, start_with, texts};
use crate::named::NAME;

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
