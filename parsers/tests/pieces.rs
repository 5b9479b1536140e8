//! Rollouts in pieces: what is read of a growing file, with the state saved in between, is what is read of it at once.
//! Over every sample in `corpus/samples` and every rollout of the golden cases, at every line and at every byte of the
//! smaller ones.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use throughline_parsers::codex::{Row, RowRef, Turns, Uuid, read_line, said_in};
use throughline_parsers::lines::{Joiner, LOOKAHEAD, Line, Scanner};
use throughline_parsers::pack::{Pack, Packer, Unpacker};

/// Of files up to this size every byte is tried.
const EVERY_BYTE: usize = 12 << 10;
/// Of larger ones so many positions, evenly spread, and every line.
const POSITIONS: usize = 300;
/// So many positions of a file are also read from nothing.
const FROM_NOTHING: usize = 12;

/// Every rollout of the corpus, with its name.
fn samples() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for path in files_below("samples") {
        if path.extension().is_some_and(|end| end == "jsonl") && !path.to_string_lossy().contains("/claude") {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    assert!(found.len() > 250, "only {} samples found", found.len());
    let golden: Vec<_> = files_below("golden").iter().flat_map(|path| golden_rollouts(path)).collect();
    assert!(golden.len() > 200, "only {} rollouts found in golden cases", golden.len());
    found.extend(golden);
    found
}

fn files_below(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// The rollouts that a golden case writes as text, as they are at its end.
fn golden_rollouts(case: &Path) -> Vec<(String, Vec<u8>)> {
    let document: serde_json::Value = serde_json::from_slice(&fs::read(case).unwrap()).unwrap();
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for step in document["steps"].as_array().unwrap() {
        let (Some(path), Some(lines)) = (step["write"].as_str(), step["lines"].as_array()) else { continue };
        let lines: Vec<_> = lines.iter().map(|line| line.as_str().unwrap()).collect();
        let text = lines.join(step["sep"].as_str().unwrap_or("\n")) + step["end"].as_str().unwrap_or("\n");
        let file = files.entry(path.to_owned()).or_default();
        if step["append"] != true {
            file.clear();
        }
        file.extend(text.as_bytes());
    }
    let named = files.into_iter().filter(|(path, _)| path.ends_with(".jsonl"));
    named.map(|(path, text)| (format!("{}: {path}", case.display()), text)).collect()
}

/// Does it for every sample, on two threads.
fn for_each_sample(check: impl Fn(&[u8], &str) + Sync) {
    let samples = samples();
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (samples, check) = (&samples, &check);
            scope.spawn(move || samples.iter().skip(half).step_by(2).for_each(|(name, data)| check(data, name)));
        }
    });
}

/// Applies rows; a message can only be read again where `again` allows it, the row itself always.
fn apply(turns: &mut Turns, rows: &[Row], data: &[u8], again: impl Fn(RowRef) -> bool) {
    for row in rows {
        let fetch = |at: RowRef| {
            let allowed = at == row.at || again(at);
            // What is read must be at hand: of the bytes up to here, and no others.
            allowed.then(|| said_in(&data[at.offset as usize..][..at.len as usize]))?
        };
        turns.apply(row, fetch).unwrap();
    }
}

/// A file read in one go; the reader may not ask for anything twice.
fn read_at_once(data: &[u8]) -> Turns {
    let mut turns = Turns::default();
    let mut offset = 0;
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        apply(&mut turns, &read_line(text, offset, text.len() < line.len()), data, |_| false);
        offset += line.len() as u64;
    }
    turns
}

fn saved(turns: &Turns) -> Vec<u8> {
    let mut packer = Packer::default();
    turns.pack(&mut packer);
    packer.finish()
}

fn taken_up(saved: &[u8]) -> Turns {
    let mut unpacker = Unpacker::new(saved);
    let turns = Turns::unpack(&mut unpacker).unwrap();
    assert!(unpacker.is_at_end());
    turns
}

fn assert_same(one: &Turns, other: &Turns, thread: Uuid, what: impl Fn() -> String) {
    assert!(one.turns() == other.turns(), "{}: {one:?} {other:?}", what());
    for copied in [false, true] {
        assert_eq!(one.completed_in(thread, copied), other.completed_in(thread, copied), "{}", what());
    }
    assert_eq!(saved(one), saved(other), "{}", what());
}

/// How many of the samples' completions needed rows to be read again, at least.
const MIN_FETCHED: usize = 200;

#[test]
fn reading_on_from_a_saved_state_is_reading_at_once() {
    let thread: Uuid = "019e5615-9632-7740-b2cf-3061e4ff06e2".parse().unwrap();
    let fetched = AtomicUsize::new(0);
    for_each_sample(|data, name| {
        // Rows are applied one after the other, so the state that is never saved is, at every position, that of a file
        // which ends there and is read in one go; now and then that is tried by reading it from nothing.
        let (mut at_once, mut resumed) = (Turns::default(), Turns::default());
        let step = if data.len() <= EVERY_BYTE { 1 } else { data.len().div_ceil(POSITIONS) };
        let from_nothing = data.len().div_ceil(FROM_NOTHING);
        let mut start = 0;
        for line in data.split_inclusive(|byte| *byte == b'\n') {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            let end = start + text.len();
            let rows = read_line(text, start as u64, text.len() < line.len());
            for position in (start..=end).filter(|position| position % step == 0 || *position == end) {
                let tail = read_line(&data[start..position], start as u64, false);
                assert!(rows.starts_with(&tail), "{name}: more bytes change what stands before byte {position}");
                let nothing_new = tail.is_empty() && position % from_nothing != 0;
                if nothing_new {
                    continue;
                }
                let (mut at_once, mut resumed) = (at_once.clone(), resumed.clone());
                apply(&mut at_once, &tail, &data[..position], |_| false);
                apply(&mut resumed, &tail, &data[..position], |_| true);
                assert_same(&resumed, &at_once, thread, || format!("{name}: byte {position}"));
                if position % from_nothing == 0 {
                    let fresh = read_at_once(&data[..position]);
                    assert_same(&fresh, &at_once, thread, || format!("{name}: {position} bytes from nothing"));
                }
            }
            start += line.len();
            if rows.is_empty() {
                continue;
            }
            apply(&mut at_once, &rows, &data[..end], |_| false);
            apply(&mut resumed, &rows, &data[..end], |_| fetched.fetch_add(1, Ordering::Relaxed) < usize::MAX);
            assert_same(&resumed, &at_once, thread, || format!("{name}: the line that ends at {end}"));
            resumed = taken_up(&saved(&resumed));
            assert_same(&resumed, &at_once, thread, || format!("{name}: saved behind {end}"));
        }
        let fresh = read_at_once(data);
        assert_same(&fresh, &at_once, thread, || format!("{name}: all from nothing"));
    });
    let fetched = fetched.into_inner();
    assert!(fetched >= MIN_FETCHED, "only {fetched} messages were read again");
}

#[test]
fn a_state_that_cannot_read_a_message_again_says_so() {
    let rows = |line: &str, offset| read_line(line.as_bytes(), offset, true);
    let event = |payload: &str| {
        format!(r#"{{"timestamp":"2026-07-01T00:00:00.000Z","type":"event_msg","payload":{{{payload}}}}}"#)
    };
    let mut turns = Turns::default();
    let (started, said) = (event(r#""type":"task_started""#), event(r#""type":"user_message","message":"ask""#));
    for row in rows(&started, 0).iter().chain(&rows(&said, 1000)) {
        turns.apply(row, |_| None).unwrap();
    }
    let mut turns = taken_up(&saved(&turns));
    let completed = rows(&event(r#""type":"task_complete""#), 2000);
    assert!(turns.clone().apply(&completed[0], |_| None).is_err());
    assert!(turns.clone().apply(&completed[0], |_| Some(String::new())).is_err());
    assert!(turns.apply(&completed[0], |at| (at.offset == 1000).then(|| "ask".to_owned())).is_ok());
}

/// Turns that are named by their ids while another one is open, and undone, in every order that four of them allow.
#[test]
fn a_state_finds_turns_by_their_ids_wherever_it_was_saved() {
    let mut sizes = Sizes(1);
    for case in 0..300 {
        let mut data = String::new();
        for n in 0..12 {
            let id = format!(r#""turn_id":"t{}""#, sizes.next(4));
            let payload = match sizes.next(8) {
                1..=3 => format!(r#""type":"task_started",{id}"#),
                4 => format!(r#""type":"user_message","message":"ask {n}""#),
                5 | 6 => format!(r#""type":"task_complete",{id},"last_agent_message":"said {n}""#),
                7 => format!(r#""type":"turn_aborted",{id}"#),
                _ => format!(r#""type":"thread_rolled_back","num_turns":{}"#, sizes.next(2)),
            };
            data += &format!(
                r#"{{"timestamp":"2026-07-01T00:00:{n:02}.000Z","type":"event_msg","payload":{{{payload}}}}}"#
            );
            data += "\n";
        }
        let ends: Vec<usize> = memchr::memchr_iter(b'\n', data.as_bytes()).map(|at| at + 1).collect();
        let rows = |turns: &mut Turns, from: usize, to: usize| {
            let mut offset = from;
            for line in data[from..to].split_inclusive('\n') {
                let read = read_line(line.trim_end().as_bytes(), offset as u64, true);
                apply(turns, &read, data.as_bytes(), |_| true);
                offset += line.len();
            }
        };
        let mut at_once = Turns::default();
        rows(&mut at_once, 0, data.len());
        for end in ends {
            let mut before = Turns::default();
            rows(&mut before, 0, end);
            // Not saved again behind that: what it learns of ids has to stay right.
            let mut resumed = taken_up(&saved(&before));
            rows(&mut resumed, end, data.len());
            let thread = "019c0000-0000-7000-8000-000000000001".parse().unwrap();
            assert_same(&resumed, &at_once, thread, || format!("case {case}, saved behind {end}:\n{data}"));
        }
    }
}

/// A generator of block sizes; any one will do.
struct Sizes(u64);

impl Sizes {
    fn next(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1 + (self.0 >> 33) as usize % most
    }
}

/// The rows of the lines that the scanner finds in blocks of random sizes up to `most`.
fn scanned_rows(data: &[u8], sizes: &mut Sizes, most: usize) -> Vec<Row> {
    let (scanner, mut joiner, mut rows) = (<Scanner>::default(), Joiner::default(), Vec::new());
    let mut read = |line: Line| {
        let bytes = &data[line.span.start as usize..line.span.end as usize];
        rows.extend(read_line(bytes, line.span.start, line.ended));
    };
    let mut base = 0;
    while base < data.len() {
        let len = sizes.next(most).min(data.len() - base);
        let bytes = &data[base..data.len().min(base + len + LOOKAHEAD)];
        let block = scanner.scan(bytes, len, base == 0 || data[base - 1] == b'\n');
        joiner.join(&block, len).into_iter().for_each(&mut read);
        for line in block.lines() {
            read(Line { span: (base + line.start) as u64..(base + line.end) as u64, ended: true });
        }
        base += len;
    }
    joiner.finish().into_iter().for_each(&mut read);
    rows
}

#[test]
fn the_scanner_finds_the_rows_of_reading_every_line() {
    for_each_sample(|data, name| {
        let mut sizes = Sizes(data.len() as u64);
        let cuts = [data.len(), data.len() * 2 / 3, data.len() - 1];
        for data in cuts.map(|cut| &data[..cut]) {
            let mut rows = Vec::new();
            let mut offset = 0;
            for line in data.split_inclusive(|byte| *byte == b'\n') {
                let text = line.strip_suffix(b"\n").unwrap_or(line);
                rows.extend(read_line(text, offset, text.len() < line.len()));
                offset += line.len() as u64;
            }
            for most in [3, 300, 10_000, 1 << 22] {
                if most == 3 && data.len() > EVERY_BYTE {
                    continue;
                }
                let scanned = scanned_rows(data, &mut sizes, most);
                assert!(scanned == rows, "{name}: {} bytes in blocks up to {most}", data.len());
            }
        }
    });
}
