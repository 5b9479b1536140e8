//! `throughline session-name` as an agent and a person run it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use throughline::Stores;
use throughline::session_name::{Pending, pending};
use throughline_parsers::text::Digest;

use super::{BLOCK, Named, assert_refused, assert_unchecked, log, of_agent};
use crate::home::Home;
use crate::hooks::{assert_stored, texts};
use crate::named::NAME;

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

#[test]
fn answers_and_lines_of_the_log_are_as_their_schema_says() {
    let schema: Value = serde_json::from_str(include_str!("../../../schemas/session-name.schema.json")).unwrap();
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
