//! The hooks and `capture` as the agents and a person run them: real processes, real files.

mod killing;

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};
use throughline::Stores;
use throughline::receipts::Receipt;
use throughline_parsers::text::Digest;

use crate::home::{Home, rollout_id, rollout_name};

const FAILED: &str = "throughline: the hook failed; the next one makes good what was missed\n";

// ---- what a host can rely on, whatever it says

#[test]
fn a_hook_that_is_not_known_is_one_line_and_no_failure() {
    let home = Home::new();
    let unknown: [&[&str]; 10] = [
        &[],
        &["cursor", "stop"],
        &["", ""],
        &["codex"],
        &["codex", "session-start"],
        &["codex", "stop", "--force"],
        &["claude"],
        &["claude", "--no-such-option"],
        &["claude", "stop", "now"],
        &["--version"],
    ];
    for arguments in unknown {
        let output = run(&mut hook(&home, arguments), b"{}");
        let (stdout, stderr) = texts(&output);
        assert_eq!((output.status.code(), stdout), (Some(0), ""), "{arguments:?}");
        assert!(stderr.starts_with("throughline: ") && stderr.matches('\n').count() == 1, "{arguments:?}: {stderr}");
    }
    assert!(!home.path("home/.throughline").exists());
}

#[test]
fn other_events_of_claude_s_are_read_and_nothing_is_done() {
    let home = Home::new();
    let large = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(3 << 20));
    for event in ["session-start", "user-prompt-submit", "post-tool-use", "subagent-stop", "no-such-event"] {
        for payload in ["", "{}", "no JSON", &large] {
            // `run` fails where the payload is not read whole.
            let output = run(&mut hook(&home, &["claude", event]), payload.as_bytes());
            assert_eq!((output.status.code(), texts(&output)), (Some(0), ("", "")), "{event}");
        }
    }
    assert!(!home.path("home/.throughline").exists());
}

#[test]
fn what_is_no_payload_fails_with_the_fixed_line_and_stores_nothing() {
    let home = Home::new();
    let session = Session::new(&home, "s");
    session.turn(1);
    let (path, cwd) = (session.path.to_str().unwrap(), home.project());
    let payloads = [
        json!(null),
        json!([]),
        json!({}),
        json!({"session_id": "s"}),
        json!({"session_id": "s", "transcript_path": null, "cwd": cwd}),
        json!({"session_id": "", "transcript_path": path, "cwd": cwd}),
        json!({"session_id": 7, "transcript_path": path, "cwd": cwd}),
        json!({"session_id": "x".repeat(4097), "transcript_path": path, "cwd": cwd}),
        json!({"session_id": "s", "transcript_path": path}),
        json!({"session_id": "s", "transcript_path": path, "cwd": "project"}),
        json!({"session_id": "s", "transcript_path": home.project(), "cwd": cwd}),
    ];
    let mut payloads: Vec<Vec<u8>> = payloads.iter().map(|payload| payload.to_string().into_bytes()).collect();
    payloads
        .extend([&b""[..], b"\n", b"no JSON", b"{\"session_id\":\"s\"", b"\xff\xfe{}", b"{} {}"].map(<[u8]>::to_vec));
    for payload in &payloads {
        let what = String::from_utf8_lossy(payload);
        assert_failed(&run(&mut hook(&home, &["claude", "stop"]), payload), &what);
    }
    for payload in [&b""[..], b"[]", b"no JSON", b"{}", br#"{"session_id":"no uuid"}"#, br#"{"session_id":null}"#] {
        for event in ["stop", "user-prompt-submit", "post-tool-use"] {
            assert_failed(&run(&mut hook(&home, &["codex", event]), payload), &String::from_utf8_lossy(payload));
        }
    }
    assert_eq!((stored(&home), receipts(&home).len()), (vec![], 0));
}

#[test]
fn a_whole_payload_is_not_waited_behind_and_a_large_one_is_read_whole() {
    let home = Home::new();
    let session = Session::new(&home, "s");
    session.turn(1);
    let mut payload = session.payload(Some("answer 1"));
    // Every part of it could be its end.
    payload["more"] = json!("}".repeat(4 << 20));
    for end in ["", "\n"] {
        let mut child = start(&mut hook(&home, &["claude", "stop"]));
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all((payload.to_string() + end).as_bytes()).unwrap();
        // The end of the pipe stays open.
        assert!(ended(&mut child, Duration::from_secs(20)).success());
        drop(stdin);
    }
    assert_eq!(receipts(&home).len(), 1);
}

/// JavaScript cuts texts between the halves of a character, and tools answer what they like.
#[test]
fn an_odd_payload_is_as_good_as_any_while_its_own_fields_are() {
    let home = Home::new();
    let session = Session::new(&home, "s");
    session.ask("ask 1");
    session.say("m1", "half a rocket HALF");
    let text = fs::read_to_string(&session.path).unwrap().replace("HALF", r"\ud83d");
    fs::write(&session.path, text).unwrap();
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let odd = format!(r#"{{"more":[1e999,{deep}],"#);
    let payload = session.payload(Some("half a rocket HALF")).to_string().replace("HALF", r"\ud83d");
    assert_stored(&run(&mut hook(&home, &["claude", "stop"]), payload.replacen('{', &odd, 1).as_bytes()));
    assert_eq!(read(&home), pairs(&[("ask 1", "half a rocket \u{fffd}")]));
}

// ---- the Stop hook of Claude

#[test]
fn stops_of_a_session_store_its_turns_once_and_in_order() {
    let home = Home::new();
    let session = Session::new(&home, "first");
    // At the first Stop the transcript and its folder can still be missing.
    fs::remove_dir(session.path.parent().unwrap()).unwrap();
    let begun = session.start(Some("answer 1"));
    std::thread::sleep(Duration::from_millis(150));
    fs::create_dir(session.path.parent().unwrap()).unwrap();
    session.turn(1);
    assert_stored(&begun.wait_with_output().unwrap());
    assert_eq!(read(&home), pairs(&[("ask 1", "answer 1")]));

    // The last row comes late.
    session.ask("ask 2");
    let begun = session.start(Some("  answer 2\r\n"));
    std::thread::sleep(Duration::from_millis(100));
    session.say("m2", "answer 2");
    assert_stored(&begun.wait_with_output().unwrap());
    let two = pairs(&[("ask 1", "answer 1"), ("ask 2", "answer 2")]);
    assert_eq!(read(&home), two);

    // The same Stop again, and that of a sub-agent, have nothing to store.
    let before = (stored(&home), receipts(&home));
    assert_stored(&session.stop(Some("answer 2")));
    session.turn(3);
    let mut of_sub_agent = session.payload(Some("answer 3"));
    of_sub_agent["agent_id"] = json!("a1");
    assert_stored(&run(&mut hook(&home, &["claude", "stop"]), of_sub_agent.to_string().as_bytes()));
    assert_eq!((stored(&home), receipts(&home)), before);

    // A host that does not tell the answer.
    assert_stored(&session.stop(None));
    assert_eq!(read(&home).len(), 3);
    assert_eq!(receipts(&home).iter().map(Receipt::completed_at).collect::<Vec<_>>(), session.times());
}

#[test]
fn what_follows_a_stored_answer_is_a_pair_of_its_own() {
    let home = Home::new();
    let session = Session::new(&home, "s");
    session.turn(1);
    assert_stored(&session.stop(Some("answer 1")));
    let context = json!({"type": "hook_additional_context", "hookEvent": "Stop", "content": ["the tests fail"]});
    session.row("attachment", &json!({"attachment": context}));
    session.say("m1b", "they pass now");
    assert_stored(&session.stop(Some("they pass now")));
    session.say("m1c", "and one more thing");
    assert_stored(&session.stop(Some("and one more thing")));
    let all = pairs(&[("ask 1", "answer 1"), ("the tests fail", "they pass now"), ("ask 1", "and one more thing")]);
    assert_eq!(read(&home), all);
    session.turn(2);
    assert_stored(&session.stop(Some("answer 2")));
    assert_eq!(read(&home), [all, pairs(&[("ask 2", "answer 2")])].concat());
}

#[test]
fn an_answer_that_does_not_come_fails_in_time_and_the_next_stop_makes_it_good() {
    let home = Home::new();
    let session = Session::new(&home, "s");
    session.turn(1);
    assert_stored(&session.stop(Some("answer 1")));
    session.ask("ask 2");
    let before = (stored(&home), receipts(&home));
    let begun = Instant::now();
    let late = session.stop(Some("answer 2"));
    let took = begun.elapsed();
    assert_failed(&late, "no answer");
    assert!((Duration::from_millis(1900)..Duration::from_millis(3500)).contains(&took), "{took:?}");
    assert_eq!((stored(&home), receipts(&home)), before);

    session.say("m2", "answer 2");
    session.turn(3);
    assert_stored(&session.stop(Some("answer 3")));
    let all = pairs(&[("ask 1", "answer 1"), ("ask 2", "answer 2"), ("ask 3", "answer 3")]);
    assert_eq!(read(&home), all);
}

#[test]
fn a_transcript_that_does_not_come_fails_in_time_and_leaves_nothing() {
    let home = Home::new();
    let session = Session::new(&home, "s");
    for (answer, patience) in [(Some("answer 1"), 2000), (None, 500)] {
        let begun = Instant::now();
        assert_failed(&session.stop(answer), "no transcript");
        let took = begun.elapsed();
        assert!((Duration::from_millis(patience)..Duration::from_millis(patience + 1500)).contains(&took), "{took:?}");
    }
    assert!(!home.path("home/.throughline").exists() && !home.path("home/.local").exists());
}

#[test]
fn an_unfinished_turn_is_stored_by_no_later_stop() {
    let home = Home::new();
    let session = Session::new(&home, "s");
    session.ask("ask 1");
    session.agent("m1", &json!([{"type": "text", "text": "I will look"}, {"type": "tool_use"}]), "tool_use");
    session.turn(2);
    assert_stored(&session.stop(Some("answer 2")));
    assert_eq!(read(&home), pairs(&[("ask 2", "answer 2")]));
}

#[test]
fn a_home_in_the_transcript_path_is_expanded() {
    let home = Home::new();
    let session = Session::new(&home, "s");
    session.turn(1);
    let mut payload = session.payload(Some("answer 1"));
    payload["transcript_path"] = json!("~/.claude/projects/p/s.jsonl");
    assert_stored(&run(&mut hook(&home, &["claude", "stop"]), payload.to_string().as_bytes()));
    assert_eq!(read(&home), pairs(&[("ask 1", "answer 1")]));
}

#[test]
fn the_project_is_that_of_the_first_stop_and_the_host_s_own_word_comes_before_cwd() {
    let home = Home::new();
    let elsewhere = home.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let stop = |session: &Session<'_>, cwd: &Path, named: &Path| {
        let mut payload = session.payload(None);
        payload["cwd"] = json!(cwd);
        let mut hook = hook(&home, &["claude", "stop"]);
        assert_stored(&run(hook.env("CLAUDE_PROJECT_DIR", named), payload.to_string().as_bytes()));
    };
    let first = Session::new(&home, "first");
    first.turn(1);
    stop(&first, &elsewhere, &home.project());
    first.turn(2);
    stop(&first, &elsewhere, &elsewhere);
    assert_eq!(read(&home), pairs(&[("ask 1", "answer 1"), ("ask 2", "answer 2")]));
    // What names no directory names no project.
    for (n, named) in ["", "project", "/nowhere/at/all"].into_iter().enumerate() {
        let session = Session::new(&home, &format!("other {n}"));
        session.turn(3 + n);
        stop(&session, &home.project(), Path::new(named));
    }
    let ids = |receipt: &Receipt| receipt.origin().as_str().to_owned();
    let wanted = ["first", "first", "other 0", "other 1", "other 2"];
    assert_eq!(receipts(&home).iter().map(ids).collect::<Vec<_>>(), wanted);
}

#[test]
fn turns_of_merged_sessions_go_to_the_end_of_the_chain() {
    let home = Home::new();
    let project = home.project();
    let merge = |from: &str, into: Option<&str>| {
        let row = "INSERT OR REPLACE INTO sessions (session_id, project_path, created_at, updated_at, merged_into)
                   VALUES (?, ?, 1, 1, ?)";
        home.database().execute(row, (from, project.to_str().unwrap(), into)).unwrap();
    };
    for n in 0..10 {
        merge(&format!("s{n}"), Some(&format!("s{}", n + 1)));
    }
    let session = Session::new(&home, "s0");
    session.turn(1);
    assert_stored(&session.stop(Some("answer 1")));
    let last = Session::new(&home, "s10");
    last.turn(2);
    assert_stored(&last.stop(Some("answer 2")));
    assert_eq!(read(&home), pairs(&[("ask 1", "answer 1"), ("ask 2", "answer 2")]));
    let ids = |receipt: &Receipt| [receipt.target().as_str().to_owned(), receipt.origin().as_str().to_owned()];
    assert_eq!(receipts(&home).iter().map(ids).collect::<Vec<_>>(), [["s10", "s0"], ["s10", "s10"]]);

    // One more is too many, and a circle has no end.
    let before = (stored(&home), receipts(&home));
    session.turn(3);
    for (end, next) in [("s10", "s11"), ("s10", "s0")] {
        merge(end, Some(next));
        assert_failed(&session.stop(Some("answer 3")), next);
    }
    assert_eq!((stored(&home), receipts(&home)), before);
    merge("s10", None);
    assert_stored(&session.stop(Some("answer 3")));
    assert_eq!(read(&home).len(), 3);
}

#[test]
fn an_agent_that_ends_does_not_end_its_hook() {
    for signal in ["TERM", "HUP"] {
        let home = Home::new();
        let session = Session::new(&home, "s");
        let mut payload = session.payload(Some("answer 1"));
        // More than a pipe holds: once it is written, the hook runs.
        payload["more"] = json!("x".repeat(1 << 20));
        let child = start_with(&mut hook(&home, &["claude", "stop"]), payload.to_string().as_bytes());
        for _ in 0..3 {
            let kill = Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap();
            assert!(kill.success());
            std::thread::sleep(Duration::from_millis(20));
        }
        session.turn(1);
        assert_stored(&child.wait_with_output().unwrap());
        assert_eq!((read(&home), receipts(&home).len()), (pairs(&[("ask 1", "answer 1")]), 1));
    }
}

// ---- stores that cannot be used

#[test]
fn a_database_that_cannot_be_used_leaves_the_receipts_alone_until_it_is_repaired() {
    let home = Home::new();
    let session = Session::new(&home, "s");
    session.turn(1);
    assert_stored(&session.stop(Some("answer 1")));
    let path = Stores::below(home.path("home")).database();
    let (whole, before) = (fs::read(&path).unwrap(), receipts(&home));
    let header_only = [&whole[..100], &vec![0xa5; whole.len() - 100]].concat();
    let mut other_version = whole.clone();
    // The fields of the header that PRAGMA user_version writes.
    other_version[60..64].copy_from_slice(&13_u32.to_be_bytes());
    let broken = ["x".repeat(5000).into_bytes(), header_only, other_version];
    for (n, bytes) in broken.into_iter().enumerate() {
        session.turn(2 + n);
        fs::write(&path, &bytes).unwrap();
        assert_failed(&session.stop(Some(&format!("answer {}", 2 + n))), &n.to_string());
        assert!(fs::read(&path).unwrap() == bytes, "{n}: a broken database is nobody's to repair");
        assert_eq!(receipts(&home), before);
    }
    // Neither may a turn of Codex go into a database of another version.
    codex_begins(&home, 1, json!("cli"));
    assert_failed(&codex_hook(&home, "stop", 1), "Codex");
    fs::write(&path, whole).unwrap();
    session.turn(5);
    assert_stored(&session.stop(Some("answer 5")));
    let wanted: Vec<_> = (1..=5).map(|n| (format!("ask {n}"), format!("answer {n}"))).collect();
    assert_eq!(read(&home), wanted);
}

#[test]
fn a_receipt_store_that_cannot_be_used_leaves_the_database_alone_until_it_is_repaired() {
    let home = Home::new();
    let session = Session::new(&home, "s");
    session.turn(1);
    assert_stored(&session.stop(Some("answer 1")));
    let (before, path) = (stored(&home), home.receipts().path());
    let whole = fs::read(&path).unwrap();
    let lock = PathBuf::from(format!("{}.lock.sqlite", path.display()));
    let directory = path.parent().unwrap().to_path_buf();
    let mut turns = 1;
    let mut fails = |what: &str| {
        turns += 1;
        session.turn(turns);
        assert_failed(&session.stop(Some(&format!("answer {turns}"))), what);
        assert_eq!(stored(&home), before, "{what}");
    };
    for (path, wrong, right) in [(&path, 0o644, 0o600), (&lock, 0o644, 0o600), (&directory, 0o755, 0o700)] {
        fs::set_permissions(path, Permissions::from_mode(wrong)).unwrap();
        fails("mode");
        fs::set_permissions(path, Permissions::from_mode(right)).unwrap();
        assert_eq!(receipts(&home).len(), 1);
    }
    let truncated = &whole[..whole.len() - 1];
    for text in [&b""[..], b"{}", truncated] {
        fs::write(&path, text).unwrap();
        fails("shape");
        assert_eq!(fs::read(&path).unwrap(), text);
    }
    let aside = home.path("store.json");
    fs::write(&path, &whole).unwrap();
    fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &path).unwrap();
    fails("link");
    fs::rename(&aside, &path).unwrap();

    assert_stored(&session.stop(Some(&format!("answer {turns}"))));
    let wanted: Vec<_> = (1..=turns).map(|n| (format!("ask {n}"), format!("answer {n}"))).collect();
    assert_eq!(read(&home), wanted);
    assert_eq!(receipts(&home).len(), turns);
}

// ---- many at once

#[test]
fn sixteen_stops_of_four_sessions_at_once_lose_no_turn_of_500() {
    const SESSIONS: usize = 4;
    const STOPS: usize = 4;
    const TURNS: usize = 125;
    let home = Home::new();
    // `Home` counts its seconds for one thread.
    let sessions: Vec<_> = (0..SESSIONS).map(|n| Plain::new(&home, &format!("session {n}"))).collect();
    let (in_step, project) = (Barrier::new(SESSIONS), home.project());
    let root = home.path("home");
    std::thread::scope(|scope| {
        for session in &sessions {
            let (in_step, project, root) = (&in_step, &project, &root);
            scope.spawn(move || {
                for first in (0..TURNS).step_by(14) {
                    // What the store has dropped in favour of others that are far ahead could not be told from what is old.
                    in_step.wait();
                    let turns = first..TURNS.min(first + 14);
                    let last = format!("{} answer {}", session.id, turns.end - 1);
                    let payload = session.payload(project, Some(&last)).to_string();
                    let stops: Vec<_> =
                        (0..STOPS).map(|_| start_with(&mut plain_hook(root), payload.as_bytes())).collect();
                    for n in turns {
                        session.turn(
                            &format!("{} ask {n}", session.id),
                            &format!("{} answer {n}", session.id),
                            n as i64,
                        );
                    }
                    stops.into_iter().for_each(|stop| assert_stored(&stop.wait_with_output().unwrap()));
                }
            });
        }
    });
    let store = home.receipts().load().unwrap().unwrap();
    let (next, floor) = (store.next_sequence(), store.history_floor());
    assert_eq!((next, next - floor), (501, store.receipts().len() as i64));
    let mut found = stored(&home);
    found.sort();
    let mut wanted = Vec::new();
    for session in &sessions {
        for n in 0..TURNS {
            let (id, number) = (session.id.clone(), 2 * n as i64 + 1);
            wanted.push((id.clone(), number, "assistant".to_owned(), format!("{id} answer {n}")));
            wanted.push((id.clone(), number, "user".to_owned(), format!("{id} ask {n}")));
        }
    }
    wanted.sort();
    assert!(found == wanted, "{} rows", found.len());
    // Within a session the receipts are in the order of its turns, and each is that of a stored pair.
    for session in &sessions {
        let of_session = store.receipts().iter().filter(|receipt| receipt.origin().as_str() == session.id);
        let answers: Vec<_> = of_session.map(Receipt::assistant).collect();
        let all = (0..TURNS).map(|n| Digest::of_body(&format!("{} answer {n}", session.id)));
        assert_eq!(answers, all.collect::<Vec<_>>()[TURNS - answers.len()..]);
    }
}

// ---- Codex

#[test]
fn the_hooks_of_codex_store_what_is_said_before_the_turn_is_complete() {
    let home = Home::new();
    codex_begins(&home, 1, json!("cli"));
    codex_event(&home, 1, json!({"type": "task_started", "turn_id": "t1"}));
    codex_event(&home, 1, json!({"type": "user_message", "message": "ask"}));
    assert_stored(&codex_hook(&home, "user-prompt-submit", 1));
    let (session, row) =
        (format!("codex:{}", rollout_id(1)), |role: &str, text: &str| (1, role.to_owned(), text.to_owned()));
    assert_eq!(rows_of(&home, &session), [row("user", "ask")]);
    codex_event(&home, 1, json!({"type": "agent_message", "message": "answer"}));
    assert_stored(&codex_hook(&home, "post-tool-use", 1));
    assert_stored(&codex_hook(&home, "stop", 1));
    assert_eq!(rows_of(&home, &session), [row("user", "ask"), row("assistant", "answer")]);
    assert_eq!(read(&home), pairs(&[]));
    codex_event(&home, 1, json!({"type": "task_complete", "turn_id": "t1"}));
    assert_eq!(read(&home), pairs(&[("ask", "answer")]));
    assert_eq!(receipts(&home).len(), 0);
}

/// Tools run side by side, and a person may run `capture` meanwhile: who has read first can be who writes last.
#[test]
fn a_hook_that_had_to_wait_takes_nothing_back_that_another_one_has_stored() {
    let home = Home::new();
    codex_begins(&home, 1, json!("cli"));
    codex_event(&home, 1, json!({"type": "task_started", "turn_id": "t1"}));
    codex_event(&home, 1, json!({"type": "user_message", "message": "ask"}));
    assert_stored(&codex_hook(&home, "user-prompt-submit", 1));
    let session = format!("codex:{}", rollout_id(1));
    let database = home_database(&home);
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let payload = json!({"session_id": rollout_id(1)}).to_string();
    let waits = start_with(&mut hook(&home, &["codex", "post-tool-use"]), payload.as_bytes());
    // It has read the rollout then, and waits for the database.
    std::thread::sleep(Duration::from_millis(700));
    codex_event(&home, 1, json!({"type": "agent_message", "message": "answer"}));
    let row = "INSERT INTO bodies (session_id, origin_session_id, turn_number, role, text, created_at)
               SELECT session_id, session_id, 1, 'assistant', 'answer', created_at FROM bodies WHERE session_id = ?";
    assert_eq!(database.execute(row, [&session]).unwrap(), 1);
    database.execute_batch("COMMIT").unwrap();
    assert_stored(&waits.wait_with_output().unwrap());
    let texts: Vec<_> = rows_of(&home, &session).into_iter().map(|(.., text)| text).collect();
    assert_eq!(texts, ["ask", "answer"]);
}

#[test]
fn threads_of_sub_agents_and_those_that_are_not_there_store_nothing() {
    let home = Home::new();
    codex_begins(&home, 1, json!({"subagent": "review"}));
    codex_turn(&home, 1, "ask", "answer");
    for (event, thread) in [("stop", 1), ("post-tool-use", 1), ("stop", 2)] {
        assert_stored(&codex_hook(&home, event, thread));
    }
    assert_eq!(captured(&home, &["--all", "--json"]), json!([]));
    assert_eq!(captured(&home, &["--codex-thread", &rollout_id(1), "--json"]), json!([]));
    assert!(!home.path("home/.throughline").exists());
}

#[test]
fn capture_stores_one_thread_those_of_a_project_or_all() {
    let home = Home::new();
    let elsewhere = home.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for thread in 1..=3 {
        let cwd = if thread == 3 { &elsewhere } else { &home.project() };
        codex_begins_in(&home, thread, json!("cli"), cwd);
        (0..thread).for_each(|n| codex_turn(&home, thread, &format!("ask {thread}.{n}"), "answer"));
    }
    let line = |thread: u32, changed: bool| {
        let cwd = if thread == 3 { elsewhere.clone() } else { home.project() };
        json!({"thread": rollout_id(thread), "cwd": cwd, "turns": thread, "changed": changed})
    };
    assert_eq!(answer(&home)["status"], "projection_pending");
    assert_eq!(captured(&home, &["--codex-thread", &rollout_id(2), "--json"]), json!([line(2, true)]));
    assert_eq!(
        captured(&home, &["--json", "--project", home.project().to_str().unwrap()]),
        json!([line(1, true), line(2, false)])
    );
    // The thread in which something happened last is the project's.
    assert_eq!(read(&home), pairs(&[("ask 2.0", "answer"), ("ask 2.1", "answer")]));

    let table = |arguments: &[&str]| {
        let output = home.throughline(&[&["capture"], arguments].concat()).output().unwrap();
        assert_eq!((output.status.code(), texts(&output).1), (Some(0), ""));
        String::from_utf8(output.stdout).unwrap()
    };
    let row = |thread: u32, what: &str, cwd: &Path| {
        format!("{}  {thread:>5}  {what:<9}  {}\n", rollout_id(thread), cwd.display())
    };
    let shown = [
        format!("{:<36}  turns             directory\n", "thread"),
        row(1, "as before", &home.project()),
        row(2, "as before", &home.project()),
        row(3, "stored", &elsewhere),
        "3 threads with 6 turns; 1 of them stored now.\n".to_owned(),
    ];
    assert_eq!(table(&["--all"]), shown.concat());
    // A relative directory is one of the caller's.
    assert!(table(&["--project", "elsewhere"]).ends_with("\n1 threads with 3 turns; 0 of them stored now.\n"));
    assert_eq!(table(&["--codex-thread", &rollout_id(9)]), "0 threads with 0 turns; 0 of them stored now.\n");

    for wrong in [&[][..], &["--all", "--project", "project"], &["--codex-thread", "x"], &["--project"]] {
        let output = home.throughline(&[&["capture"], wrong].concat()).output().unwrap();
        assert_eq!((output.status.code(), texts(&output).0), (Some(64), ""), "{wrong:?}");
    }
    let output = home.throughline(&["capture", "--project", "nowhere"]).output().unwrap();
    assert_eq!((output.status.code(), texts(&output)), (Some(1), ("", "throughline: nowhere is no directory\n")));
}

#[test]
fn capture_tells_the_version_of_a_database_that_it_does_not_know() {
    let home = Home::new();
    home.codex(1).complete_and_store("ask", "answer");
    for version in [8, 13] {
        home_database(&home).pragma_update(None, "user_version", version).unwrap();
        let output = home.throughline(&["capture", "--all"]).output().unwrap();
        let line = format!("throughline: database version {version}: migrate it with the Node tool\n");
        assert_eq!((output.status.code(), texts(&output)), (Some(1), ("", line.as_str())));
    }
}

// ---- sessions of Claude

/// A transcript of Claude's, with the times of a home.
pub struct Session<'h> {
    home: &'h Home,
    plain: Plain,
    pub path: PathBuf,
    /// Seconds since midnight of the next row.
    clock: std::cell::Cell<i64>,
    answered: std::cell::RefCell<Vec<i64>>,
}

impl<'h> Session<'h> {
    pub fn new(home: &'h Home, id: &str) -> Self {
        let plain = Plain::new(home, id);
        let path = plain.path.clone();
        Self { home, plain, path, clock: std::cell::Cell::new(0), answered: Default::default() }
    }

    pub fn turn(&self, n: usize) {
        self.ask(&format!("ask {n}"));
        self.say(&format!("m{n}"), &format!("answer {n}"));
    }

    pub fn ask(&self, text: &str) {
        self.row("user", &json!({"message": {"role": "user", "content": text}}));
    }

    pub fn say(&self, id: &str, text: &str) {
        self.agent(id, &json!([{"type": "text", "text": text}]), "end_turn");
        self.answered.borrow_mut().push(MIDNIGHT + self.clock.get() * 1000);
    }

    pub fn agent(&self, id: &str, content: &Value, stop: &str) {
        let message = json!({"id": id, "role": "assistant", "content": content, "stop_reason": stop});
        self.row("assistant", &json!({"message": message}));
    }

    pub fn row(&self, kind: &str, members: &Value) {
        self.clock.set(self.clock.get() + 1);
        self.plain.row(kind, members, self.clock.get());
    }

    /// When each answer was given, in milliseconds since the epoch.
    fn times(&self) -> Vec<i64> {
        self.answered.borrow().clone()
    }

    pub fn payload(&self, answer: Option<&str>) -> Value {
        self.plain.payload(&self.home.project(), answer)
    }

    fn start(&self, answer: Option<&str>) -> Child {
        start_with(&mut hook(self.home, &["claude", "stop"]), self.payload(answer).to_string().as_bytes())
    }

    fn stop(&self, answer: Option<&str>) -> Output {
        self.start(answer).wait_with_output().unwrap()
    }
}

/// 2026-02-03T00:00:00Z, in milliseconds.
const MIDNIGHT: i64 = 1_770_076_800_000;

/// A transcript of Claude's that any thread may write.
struct Plain {
    id: String,
    path: PathBuf,
}

impl Plain {
    fn new(home: &Home, id: &str) -> Self {
        let folder = home.path("home/.claude/projects/p");
        fs::create_dir_all(&folder).unwrap();
        Self { id: id.to_owned(), path: folder.join(format!("{id}.jsonl")) }
    }

    fn turn(&self, user: &str, assistant: &str, n: i64) {
        self.row("user", &json!({"message": {"role": "user", "content": user}}), 2 * n);
        let content = json!([{"type": "text", "text": assistant}]);
        let message =
            json!({"id": format!("m{n}"), "role": "assistant", "content": content, "stop_reason": "end_turn"});
        self.row("assistant", &json!({"message": message}), 2 * n + 1);
    }

    fn row(&self, kind: &str, members: &Value, second: i64) {
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let time = format!("2026-02-03T{hour:02}:{minute:02}:{second:02}.000Z");
        let members = members.to_string();
        let row = format!(
            r#"{{"parentUuid":null,"isSidechain":false,{},"type":"{kind}","uuid":"{kind} {time}","timestamp":"{time}","sessionId":"{}"}}"#,
            &members[1..members.len() - 1],
            self.id
        );
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).unwrap();
        file.write_all((row + "\n").as_bytes()).unwrap();
    }

    fn payload(&self, cwd: &Path, answer: Option<&str>) -> Value {
        let mut payload = json!({
            "session_id": self.id, "transcript_path": self.path, "cwd": cwd, "hook_event_name": "Stop",
            "stop_hook_active": false,
        });
        if let Some(answer) = answer {
            payload["last_assistant_message"] = json!(answer);
        }
        payload
    }
}

// ---- threads of Codex

fn codex_begins(home: &Home, thread: u32, source: Value) {
    codex_begins_in(home, thread, source, &home.project());
}

fn codex_begins_in(home: &Home, thread: u32, source: Value, cwd: &Path) {
    codex_row(home, thread, "session_meta", &json!({"id": rollout_id(thread), "cwd": cwd, "source": source}));
}

fn codex_turn(home: &Home, thread: u32, user: &str, assistant: &str) {
    codex_event(home, thread, json!({"type": "task_started", "turn_id": user}));
    codex_event(home, thread, json!({"type": "user_message", "message": user}));
    codex_event(home, thread, json!({"type": "agent_message", "message": assistant}));
    codex_event(home, thread, json!({"type": "task_complete", "turn_id": user}));
}

fn codex_event(home: &Home, thread: u32, event: Value) {
    codex_row(home, thread, "event_msg", &event);
}

fn codex_row(home: &Home, thread: u32, kind: &str, payload: &Value) {
    let path = home.sessions().join(rollout_name(thread));
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(file, r#"{{"timestamp":"2026-02-03T00:0{thread}:00.000Z","type":"{kind}","payload":{payload}}}"#).unwrap();
}

fn codex_hook(home: &Home, event: &str, thread: u32) -> Output {
    let payload = json!({"session_id": rollout_id(thread), "transcript_path": null, "cwd": home.project()});
    run(&mut hook(home, &["codex", event]), payload.to_string().as_bytes())
}

fn captured(home: &Home, arguments: &[&str]) -> Value {
    let output = home.throughline(&[&["capture"], arguments].concat()).output().unwrap();
    let answer = json_of(&output);
    assert_eq!(answer["schema"], "throughline.capture.v1");
    answer["threads"].clone()
}

// ---- processes

pub fn hook(home: &Home, arguments: &[&str]) -> Command {
    home.throughline(&[&["hook"], arguments].concat())
}

/// The Stop hook of Claude, for threads that cannot share a `Home`.
fn plain_hook(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
    command.args(["hook", "claude", "stop"]).env_clear().env("HOME", home);
    command
}

fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Starts a hook and gives it all of its payload.
pub fn start_with(command: &mut Command, payload: &[u8]) -> Child {
    let mut child = start(command);
    // A small payload may come too late for a hook that does not read it.
    match child.stdin.take().unwrap().write_all(payload) {
        Err(error) if payload.len() > 4096 => panic!("{error}"),
        _ => child,
    }
}

pub fn run(command: &mut Command, payload: &[u8]) -> Output {
    start_with(command, payload).wait_with_output().unwrap()
}

/// Waits for a process, but not longer than this.
fn ended(child: &mut Child, patience: Duration) -> ExitStatus {
    let begun = Instant::now();
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status,
            None if begun.elapsed() > patience => {
                child.kill().unwrap();
                panic!("it still waits");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

pub fn texts(output: &Output) -> (&str, &str) {
    (std::str::from_utf8(&output.stdout).unwrap(), std::str::from_utf8(&output.stderr).unwrap())
}

pub fn json_of(output: &Output) -> Value {
    assert_eq!((output.status.code(), texts(output).1), (Some(0), ""));
    assert_eq!(texts(output).0.matches('\n').count(), 1);
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn assert_stored(output: &Output) {
    assert_eq!((output.status.code(), texts(output)), (Some(0), ("", "")));
}

fn assert_failed(output: &Output, what: &str) {
    assert_eq!((output.status.code(), texts(output)), (Some(1), ("", FAILED)), "{what}");
}

// ---- what there is afterwards

/// A turn: what was asked, and the answer.
type Pair = (String, String);

fn pairs(of: &[(&str, &str)]) -> Vec<Pair> {
    of.iter().map(|(user, assistant)| ((*user).to_owned(), (*assistant).to_owned())).collect()
}

/// What an Observer is told who begins with the project.
fn answer(home: &Home) -> Value {
    let project = home.project();
    let output = home.throughline(&["observer-read", "--json", "--project", project.to_str().unwrap()]).output();
    json_of(&output.unwrap())
}

/// The turns that it reads.
fn read(home: &Home) -> Vec<Pair> {
    let answer = answer(home);
    assert_eq!(answer["status"], "snapshot", "{answer}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let turns = answer["turns"].as_array().unwrap().iter();
    turns.map(|turn| (text(&turn["user"]), text(&turn["assistant"]))).collect()
}

pub fn receipts(home: &Home) -> Vec<Receipt> {
    home.receipts().load().unwrap().map_or(Vec::new(), |store| store.receipts().to_vec())
}

fn home_database(home: &Home) -> Connection {
    Connection::open(Stores::below(home.path("home")).database()).unwrap()
}

/// Every stored row: session, number, role, text, in the order in which they were stored.
pub fn stored(home: &Home) -> Vec<(String, i64, String, String)> {
    if !Stores::below(home.path("home")).database().exists() {
        return Vec::new();
    }
    let database = home_database(home);
    let mut query = database.prepare("SELECT session_id, turn_number, role, text FROM bodies ORDER BY id").unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

fn rows_of(home: &Home, session: &str) -> Vec<(i64, String, String)> {
    let of_session = stored(home).into_iter().filter(|(of, ..)| of == session);
    of_session.map(|(_, number, role, text)| (number, role, text)).collect()
}
