//! What real versions of Claude Code wrote, in `corpus/samples`: the turns that are known to be in it, the same whether it is
//! read at once, in blocks, or taken up again behind any line.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod transcript;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use throughline_parsers::claude::{Row, Turns, read_line};
use throughline_parsers::text::Digest;
use transcript::{bytes_of, lines, read, saved, scanned_rows, seen, taken_up};

/// Of files up to this size every byte is tried.
const EVERY_BYTE: usize = 12 << 10;
/// Of larger ones so many positions, evenly spread.
const POSITIONS: usize = 300;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/samples").join(name)
}

/// Every transcript of the corpus, with its name.
fn samples() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder("claude"), folder("claude-real")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "jsonl") && !path.ends_with("payloads.jsonl") {
                found.push((path.display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    assert!(found.len() > 90, "only {} samples found", found.len());
    found
}

/// The turns as `expected.json` has them.
fn summary(data: &[u8]) -> Value {
    let turns = read(data).since(0).unwrap();
    let of = |turn: &throughline_parsers::claude::Turn| {
        json!({
            "user": turn.user_text(None, bytes_of(data)).unwrap(),
            "answer": turn.answer_text(None, bytes_of(data)).unwrap(),
            "number": turn.answer(None).map(|answer| answer.index),
            "completed": turn.completed(false),
        })
    };
    turns.iter().map(of).collect()
}

fn expected(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap()
}

#[test]
fn the_turns_of_the_samples_are_the_expected_ones() {
    let mut turns = 0;
    let mut check = |folder: &Path, expected: &Value| {
        for (file, want) in expected.as_object().unwrap() {
            let found = summary(&fs::read(folder.join(file)).unwrap());
            assert_eq!(&found, want, "{file} in {}", folder.display());
            turns += want.as_array().unwrap().len();
        }
    };
    check(&folder("claude"), &expected(&folder("claude")));
    for (version, files) in expected(&folder("claude-real")).as_object().unwrap() {
        check(&folder("claude-real").join(version), files);
    }
    assert!(turns > 100, "only {turns} turns");
}

#[test]
fn what_the_host_says_was_answered_last_is_an_answer() {
    let mut said = 0;
    for version in fs::read_dir(folder("claude-real")).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(payloads) = fs::read_to_string(version.join("payloads.jsonl")) else { continue };
        for line in payloads.lines() {
            let payload: Value = serde_json::from_str(line).unwrap();
            let payload = &payload["payload"];
            let (Some(marker), "Stop") =
                (payload["last_assistant_message"].as_str(), payload["hook_event_name"].as_str().unwrap())
            else {
                continue;
            };
            let data = fs::read(version.join(payload["session_id"].as_str().unwrap()).with_extension("jsonl")).unwrap();
            let turns = read(&data).since(0).unwrap();
            let turn = turns.iter().find(|turn| turn.says(Digest::of_body(marker)));
            assert!(turn.is_some_and(|turn| turn.completed(true)), "{}: {line}", version.display());
            said += 1;
        }
    }
    assert!(said > 20, "only {said} payloads");
}

#[test]
fn in_blocks_of_any_size_the_turns_are_the_same() {
    let mut passed = 0;
    for (name, data) in samples() {
        let every = lines(&data).flat_map(|(line, offset, ended)| read_line(line, offset, ended)).count();
        for most in [7, 300, 5000, 1 << 20] {
            if most == 7 && data.len() > EVERY_BYTE {
                continue;
            }
            let mut random = data.len() as u64;
            let rows = scanned_rows(&data, || {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                1 + (random >> 33) as usize % most
            });
            let mut turns = Turns::default();
            apply(&mut turns, &rows, &data);
            assert_eq!(seen(&turns, &data), seen(&read(&data), &data), "{name} in blocks up to {most}");
            passed += every - rows.len();
        }
    }
    assert!(passed > 1000, "only {passed} rows were passed over");
}

/// Applies rows; what is asked for must be at hand.
fn apply(turns: &mut Turns, rows: &[Row], data: &[u8]) {
    for row in rows {
        turns.apply(row, bytes_of(data)).unwrap();
    }
}

#[test]
fn reading_on_from_a_saved_state_is_reading_at_once() {
    let mut tails = 0;
    for (name, data) in samples() {
        let step = if data.len() <= EVERY_BYTE { 1 } else { data.len().div_ceil(POSITIONS) };
        let (mut at_once, mut resumed) = (Turns::default(), Turns::default());
        for (line, offset, ended) in lines(&data) {
            let (start, rows) = (offset as usize, read_line(line, offset, ended));
            let end = start + line.len();
            for position in (start..=end).filter(|position| position % step == 0 || *position == end) {
                let tail = read_line(&data[start..position], offset, false);
                assert!(rows.starts_with(&tail), "{name}: more bytes change what stands before byte {position}");
                if tail.is_empty() {
                    continue;
                }
                let (mut at_once, mut resumed) = (at_once.clone(), resumed.clone());
                apply(&mut at_once, &tail, &data[..position]);
                apply(&mut resumed, &tail, &data[..position]);
                assert_eq!(saved(&resumed), saved(&at_once), "{name}: byte {position}");
                tails += 1;
            }
            apply(&mut at_once, &rows, &data[..end]);
            apply(&mut resumed, &rows, &data[..end]);
            resumed = taken_up(&saved(&resumed));
            assert_eq!(saved(&resumed), saved(&at_once), "{name}: saved behind {end}");
        }
        assert_eq!(seen(&resumed, &data), seen(&read(&data), &data), "{name}");
    }
    assert!(tails > 1000, "only {tails} unterminated lines had a row");
}

const ASK: &str = r#"{"parentUuid":null,"type":"user","message":{"role":"user","content":"ask"},"timestamp":"2026-07-01T00:00:00.000Z"}"#;

fn reply(text: &str, more: &str) -> String {
    format!(
        r#"{{"parentUuid":"u","message":{{"id":"m","role":"assistant","content":"{text}"}},"type":"assistant"{more}}}"#
    )
}

#[test]
fn a_state_holds_no_text() {
    let data =
        format!("{}\n{}\n", ASK.replace("ask", "a question of some length"), reply("an answer of some length", ""));
    let bytes = saved(&read(data.as_bytes()));
    for text in ["question", "answer"] {
        assert!(!String::from_utf8_lossy(&bytes).contains(text));
    }
}

#[test]
fn a_message_that_goes_on_is_read_again_and_has_to_be_the_same() {
    let first = format!("{ASK}\n{}\n", reply("one ", ""));
    let data = format!("{first}{}\n", reply("two", ""));
    let state = taken_up(&saved(&read(first.as_bytes())));
    let row = &read_line(data[first.len()..].trim_end().as_bytes(), first.len() as u64, true)[0];
    let changed = data.replace("one ", "own ");
    for (data, is_same) in [(&data[..], true), (&changed, false), (&data[..20], false)] {
        let mut turns = state.clone();
        assert_eq!(turns.apply(row, bytes_of(data.as_bytes())).is_ok(), is_same);
        if is_same {
            assert_eq!(
                turns.since(0).unwrap()[0].answer_text(None, bytes_of(data.as_bytes())),
                Ok(Some("one two".to_owned()))
            );
        }
    }
}

#[test]
fn a_row_without_a_time_has_that_of_the_rows_in_front_of_it_passed_over_or_not() {
    let progress =
        |time: &str| format!(r#"{{"parentUuid":"u","isSidechain":false,"type":"progress","timestamp":"{time}"}}"#);
    let timeless = progress("never") + "\n";
    let far = timeless.repeat(10_000);
    let (second, minute) = (progress("2026-07-01T00:00:01.000Z"), progress("2026-07-01T00:01:00.000Z"));
    let start = 1_782_864_000_000;
    for (between, after) in [
        (String::new(), 0),
        (format!("{second}\n"), 1),
        (format!("{minute}\n{second}\n"), 1),
        (format!("{second}\n{minute}\n{far}"), 60),
        (far.clone(), 0),
        (format!("{second}\n\n\n"), 1),
    ] {
        let data = format!("{ASK}\n{between}{}\n", reply("answer", ""));
        let mut asked = 0;
        let mut turns = Turns::default();
        for row in scanned_rows(data.as_bytes(), || 4096) {
            let fetch = |span: Range<u64>| {
                asked += span.end - span.start;
                bytes_of(data.as_bytes())(span)
            };
            turns.apply(&row, fetch).unwrap();
        }
        let answer = *turns.since(0).unwrap()[0].answer(None).unwrap();
        assert_eq!(answer.time, Some(start + after * 1000));
        assert!(asked < 2 * data.len() as u64, "{asked} bytes of {}", data.len());
    }
}
