#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::units::END;

fn plan(mix: Mix, layout: Layout, bytes: u64) -> Plan {
    Plan {
        cwd: "/home/me/project".to_owned(),
        bytes,
        mix,
        layout,
        turn_bytes: mix.turn_bytes(),
        turns: None,
        open_turn: None,
        start: END,
        origin: Origin::Person,
    }
}

fn made(plan: &Plan) -> (Written, Vec<u8>) {
    let mut random = Random::new(5);
    let pool = Pool::new(&mut random);
    let mut bytes = Vec::new();
    let written = write(plan, &pool, &mut random, &mut bytes).unwrap();
    (written, bytes)
}

/// Bytes by the type of their row.
fn sizes(bytes: &[u8]) -> BTreeMap<String, usize> {
    let mut sizes = BTreeMap::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let row: Value = serde_json::from_slice(line).unwrap();
        let kind = match &row["payload"]["type"] {
            Value::String(kind) => format!("{}.{kind}", row["type"].as_str().unwrap()),
            _ => row["type"].as_str().unwrap().to_owned(),
        };
        *sizes.entry(kind).or_default() += line.len();
    }
    sizes
}

#[test]
fn every_row_is_json_and_the_size_is_about_right() {
    for mix in [Mix::Tool, Mix::Compacted, Mix::Reasoning, Mix::Image] {
        for layout in [Layout::Legacy, Layout::Paginated] {
            let (written, bytes) = made(&plan(mix, layout, 20 << 20));
            assert_eq!(written.state.end.bytes, bytes.len() as u64);
            assert!((19 << 20..25 << 20).contains(&bytes.len()), "{mix:?} {}", bytes.len());
            assert!(bytes.starts_with(b"{\"timestamp\":\"2026-07-01T12:00:0"));
            assert!(sizes(&bytes).contains_key("session_meta"));
            assert!(written.turns.iter().filter(|turn| turn.completed_at.is_some()).count() > 2);
        }
    }
}

#[test]
fn the_bytes_are_what_the_mix_says() {
    for (mix, kind, least) in [
        (Mix::Tool, "response_item.function_call_output", 0.4),
        (Mix::Compacted, "compacted", 0.9),
        (Mix::Reasoning, "response_item.reasoning", 0.6),
    ] {
        let (written, bytes) = made(&plan(mix, Layout::Legacy, 32 << 20));
        let share = sizes(&bytes)[kind] as f64 / written.state.end.bytes as f64;
        assert!(share >= least, "{mix:?}: {share}");
    }
}

#[test]
fn a_small_rollout_is_small_and_has_a_turn() {
    for bytes in [0, 4_000, 30_000] {
        let (written, _) = made(&plan(Mix::Tool, Layout::Paginated, bytes));
        assert!(written.state.end.bytes < bytes + 12_000, "{bytes}: {}", written.state.end.bytes);
        assert!(written.turns[0].completed_at.is_some());
    }
}

#[test]
fn the_same_seed_makes_the_same_bytes() {
    let plan = plan(Mix::Tool, Layout::Legacy, 1 << 20);
    assert_eq!(made(&plan).1, made(&plan).1);
}

/// The values of a field, row by row.
fn values(bytes: &[u8], pointer: &str) -> Vec<Value> {
    let rows = bytes.split_inclusive(|byte| *byte == b'\n').map(|row| serde_json::from_slice::<Value>(row).unwrap());
    rows.filter_map(|row| row.pointer(pointer).cloned()).collect()
}

fn count(bytes: &[u8], kind: &str) -> usize {
    values(bytes, "/payload/type").iter().filter(|found| *found == kind).count()
}

#[test]
fn the_turns_are_as_many_as_asked_for() {
    for bytes in [0, 3 << 20] {
        let plan = Plan { turns: Some(300), ..plan(Mix::Tool, Layout::Legacy, bytes) };
        let (written, made) = made(&plan);
        assert_eq!(written.turns.len(), 300);
        assert!(written.turns.iter().all(|turn| turn.completed_at.is_some()));
        assert_eq!(count(&made, "task_complete"), 300);
    }
}

#[test]
fn a_turn_left_open_has_its_size_and_no_end() {
    for mix in [Mix::Tool, Mix::Compacted] {
        let plan = Plan { open_turn: Some(8 << 20), turns: Some(3), ..plan(mix, Layout::Paginated, 1 << 20) };
        let (written, bytes) = made(&plan);
        let open = written.state.open.unwrap();
        assert!((8 << 20..13 << 20).contains(&(written.state.end.bytes - open.start.bytes)));
        assert_eq!((count(&bytes, "task_started"), count(&bytes, "task_complete")), (4, 3));
        assert!(bytes[open.start.bytes as usize..].starts_with(b"{\"timestamp\""));
    }
}

#[test]
fn a_rollout_can_be_gone_on_with() {
    let plan = Plan { open_turn: Some(9000), ..plan(Mix::Tool, Layout::Legacy, 100_000) };
    let (written, mut bytes) = made(&plan);
    let pool = Pool::new(&mut Random::new(5));
    let shape = Shape { cwd: plan.cwd.clone(), mix: plan.mix, layout: plan.layout };
    let mut random = Random::new(6);
    let mut writer = Writer::resume(&shape, &pool, &mut random, &mut bytes, written.state);
    let first = writer.complete_turn().unwrap();
    let second = writer.turn(5000, false).unwrap();
    let state = writer.finish().unwrap();
    assert_eq!((state.end.bytes, state.open), (bytes.len() as u64, None));
    assert!(first.completed_at.unwrap() < second.completed_at.unwrap());
    assert_eq!(count(&bytes, "task_started"), written.turns.len() + 2);
}

/// A base with its file, cut in front of its second turn.
fn base(folder: &TempDir, layout: Layout) -> (Base, Vec<u8>) {
    let (written, bytes) = made(&plan(Mix::Tool, layout, 2 << 20));
    let path = folder.path().join("base");
    fs::write(&path, &bytes).unwrap();
    let State { thread, rollout, .. } = written.state;
    (Base { thread, rollout, path, end: written.turns[1].start }, bytes)
}

#[test]
fn a_copy_holds_its_bases_rows_with_new_times() {
    let folder = tempfile::tempdir().unwrap();
    let (base, parents) = base(&folder, Layout::Legacy);
    let start = END + 1_000_000_000;
    let plan = Plan { origin: Origin::Copy(base.clone()), start, ..plan(Mix::Tool, Layout::Legacy, 1 << 20) };
    let (written, bytes) = made(&plan);
    let ids = values(&bytes, "/payload/id");
    assert_eq!(ids, [&*written.state.thread, &*base.thread]);
    assert_eq!(values(&bytes, "/payload/forked_from_id"), [&*base.thread]);
    let rows = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
    let copied = rows(&parents[..base.end.bytes as usize]);
    let payloads = |bytes: &[u8]| values(bytes, "/payload");
    assert_eq!(payloads(&bytes)[1..=copied], payloads(&parents)[..copied]);
    assert!(values(&bytes, "/timestamp").iter().all(|at| at.as_str().unwrap() >= &*crate::units::stamp(start)));
    assert!(count(&bytes, "task_complete") > count(&parents[..base.end.bytes as usize], "task_complete"));
}

#[test]
fn what_goes_on_from_another_file_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let (base, parents) = base(&folder, Layout::Paginated);
    for (origin, same_thread) in [(Origin::Fork(base.clone()), false), (Origin::Revert(base.clone()), true)] {
        let (written, bytes) = made(&Plan { origin, start: END + 1, ..plan(Mix::Tool, Layout::Paginated, 1 << 20) });
        assert_eq!(written.state.thread == base.thread, same_thread);
        assert_ne!(written.state.rollout, base.rollout);
        let meta: Value = serde_json::from_slice(bytes.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
        let history = &meta["payload"]["history_base"];
        assert_eq!(history["thread_id"], *base.rollout);
        let end = history["end_byte_offset"].as_u64().unwrap() as usize;
        assert!(parents[..end].ends_with(b"\n") && parents[end..].starts_with(b"{"));
        let ordinals = values(&bytes, "/ordinal");
        assert_eq!(ordinals[0], values(&parents[end..], "/ordinal")[0]);
        assert_eq!(count(&parents[..end], "task_complete"), 1);
    }
}

#[test]
fn an_agents_rollout_names_the_thread_that_began_it() {
    let origin = Origin::Agent("019f0000-0000-7000-8000-000000000001".to_owned());
    let (_, bytes) = made(&Plan { origin, ..plan(Mix::Tool, Layout::Paginated, 10_000) });
    let meta: Value = serde_json::from_slice(bytes.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    assert_eq!(meta["payload"]["parent_thread_id"], "019f0000-0000-7000-8000-000000000001");
    assert_eq!(meta["payload"]["thread_source"], "subagent");
    assert!(meta["payload"]["source"]["subagent"].is_object());
}
