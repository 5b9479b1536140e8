//! An Observer that polls while a rollout grows, line by line and in the middle of lines, gets every completed turn
//! once and in order: the deltas put together are what one read at the end gives.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use throughline::chain::Host;
use throughline::db::capture::{CodexTurn, store_codex_thread};
use throughline::db::schema;
use throughline::error::Kind;
use throughline::observer::cursor::{Cursor, Position};
use throughline::observer::page::Series;
use throughline::observer::read::{Answer, Request, Status, read};
use throughline::{Error, Mapping, Stores};
use throughline_parsers::json::MAX_WHOLE;
use throughline_parsers::text::{Digest, body};

#[path = "../../parsers/tests/naive/mod.rs"]
#[allow(dead_code, reason = "only the reading of rollouts is needed here")]
mod naive;

const NOW: i64 = 1_800_000_000_000;

// ---- what is known of a rollout by its bytes

/// A turn as a capture stores it: number, user, assistant, time.
type Stored = (i64, Option<String>, Option<String>, Option<i64>);

/// A rollout as the naive twin reads it.
struct Known {
    turns: Vec<naive::Turn>,
    is_candidate: bool,
}

impl Known {
    fn of(data: &[u8], thread: &str) -> Self {
        let rows = naive::rows(data, |_| true);
        let is_meta = |row: &&naive::Object| naive::text_of(row, "type") == Some("session_meta");
        let metas: Vec<_> = rows.iter().filter(is_meta).filter_map(|row| row.get("payload")).collect();
        let identified = rows.first().is_some_and(|row| is_meta(&row));
        let set = |key: &str| metas.first().is_some_and(|meta| !matches!(&meta[key], Value::Null) && meta[key] != "");
        let is_sub_agent = || {
            set("parent_thread_id")
                || (set("thread_source") && metas[0]["thread_source"] != "user")
                || metas[0]["source"].get("subagent").is_some()
        };
        let copied = set("forked_from_id") || metas.iter().any(|meta| meta["id"].is_string() && meta["id"] != thread);
        let mut turns = naive::turns(&rows);
        turns.retain(|turn| !(copied && turn.is_older_than(thread)));
        Self { is_candidate: identified && !is_sub_agent(), turns }
    }

    /// The completed turns that are pairs, in the order of completion: number, user, assistant, time.
    fn pairs(&self) -> Vec<(u64, String, String, i64)> {
        let mut turns: Vec<_> = self.turns.iter().filter(|_| self.is_candidate).collect();
        turns.sort_by_key(|turn| turn.order);
        let pair =
            |turn: &naive::Turn| Some((turn.number?, turn.text("user")?, turn.text("assistant")?, turn.completed_at?));
        turns.into_iter().filter_map(pair).collect()
    }

    /// What a capture stores: the completed turns in the order of completion, then the others.
    fn stored(&self) -> Vec<Stored> {
        let mut turns: Vec<_> = self.turns.iter().filter(|turn| turn.number.is_some()).zip(1_i64..).collect();
        turns.sort_by_key(|(turn, _)| (turn.completed_at.is_none(), turn.order));
        let texts = |(turn, number): (&naive::Turn, i64)| {
            (number, turn.text("user"), turn.text("assistant"), turn.completed_at)
        };
        turns.into_iter().map(texts).filter(|turn| turn.1.is_some() || turn.2.is_some()).collect()
    }
}

// ---- a store with one rollout that grows

struct World {
    _root: tempfile::TempDir,
    stores: Stores,
    project: PathBuf,
    rollout: PathBuf,
    thread: String,
    /// What has been written of it.
    written: Vec<u8>,
    stored: Vec<Stored>,
}

impl World {
    fn new(name: &str, thread: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(root.path()).unwrap();
        let (home, project) = (real.join("home"), real.join("app"));
        let sessions = home.join(".codex/sessions/2026/01/05");
        fs::create_dir_all(&sessions).unwrap();
        fs::create_dir(&project).unwrap();
        let rollout = sessions.join(name);
        let (stores, thread) = (Stores::below(home), thread.to_owned());
        Self { _root: root, stores, project, rollout, thread, written: Vec::new(), stored: Vec::new() }
    }

    /// The rollout's bytes with this project in place of the recorded one.
    fn rehomed(&self, recorded: &str) -> Vec<u8> {
        recorded.replace("/work/app", self.project.to_str().unwrap()).into_bytes()
    }

    fn append(&mut self, bytes: &[u8]) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.rollout).unwrap();
        file.write_all(bytes).unwrap();
        self.written.extend(bytes);
    }

    fn known(&self) -> Known {
        Known::of(&self.written, &self.thread)
    }

    /// Stores what a capture of the present rollout stores.
    fn capture(&mut self) {
        let turns = self.known().stored();
        if turns == self.stored {
            return;
        }
        let mut database = schema::open(&schema::path(&self.stores.home)).unwrap();
        let rows: Vec<_> = turns
            .iter()
            .map(|(turn_number, user, assistant, completed_at)| CodexTurn {
                turn_number: *turn_number,
                user: user.as_deref(),
                assistant: assistant.as_deref(),
                completed_at: *completed_at,
            })
            .collect();
        store_codex_thread(&mut database, &self.thread, self.project.to_str().unwrap(), &rows, NOW).unwrap();
        self.stored = turns;
    }

    fn read(
        &self,
        after: Option<&str>,
        through: Option<&str>,
        page: Option<&str>,
        limit: usize,
    ) -> Result<Answer, Error> {
        let request = Request { project: &self.project, after, through, page, limit };
        read(&self.stores, &request, Mapping::Never)
    }

    /// Reads all pages behind a cursor.
    fn poll(&self, after: &str, limit: usize) -> Poll {
        let mut answer = self.read(Some(after), None, None, limit).unwrap();
        let (status, through) = (answer.status, answer.through_cursor.clone());
        let mut turns = values(&answer);
        while let Some(token) = answer.page.next_token.take() {
            answer = self.read(Some(after), through.as_deref(), Some(&token), limit).unwrap();
            assert_eq!((answer.status, &answer.through_cursor), (status, &through));
            turns.extend(values(&answer));
        }
        assert_eq!(answer.page.complete, status != Status::ProjectionPending);
        Poll { status, through, turns }
    }

    /// The records that a read gives of the pairs, without their bodies.
    fn records(&self) -> Vec<Value> {
        let session = format!("codex:{}", self.thread);
        let record = |(number, user, assistant, at): (u64, String, String, i64)| {
            json!({
                "host": "codex",
                "thread_sha256": Digest::of(&self.thread).to_string(),
                "origin_sha256": Digest::of(&session).to_string(),
                "user_sha256": Digest::of_body(&user).to_string(),
                "assistant_sha256": Digest::of_body(&assistant).to_string(),
                "completed_at": at,
                "source_sha256": Digest::of(&format!("{}\0{number}", self.rollout.display())).to_string(),
            })
        };
        self.known().pairs().into_iter().map(record).collect()
    }
}

#[derive(Debug, PartialEq)]
struct Poll {
    status: Status,
    through: Option<String>,
    turns: Vec<Value>,
}

fn values(answer: &Answer) -> Vec<Value> {
    answer.turns.iter().map(|turn| serde_json::to_value(turn).unwrap()).collect()
}

/// The record without what depends on the page that it stands on.
fn without_bodies(turns: &[Value]) -> Vec<Value> {
    let mut turns = turns.to_vec();
    for turn in &mut turns {
        for key in ["user", "assistant", "truncated"] {
            assert!(turn.as_object_mut().unwrap().remove(key).is_some());
        }
    }
    turns
}

/// The bodies are ends of the texts, whole ones unless the record says that they are cut.
fn assert_bodies(turns: &[Value], pairs: &[(u64, String, String, i64)]) {
    for (turn, (_, user, assistant, _)) in turns.iter().zip(pairs) {
        let mut cut = false;
        for (told, text) in [(&turn["user"], user), (&turn["assistant"], assistant)] {
            let (told, text) = (told.as_str().unwrap(), body(text));
            assert!(text.ends_with(told), "{told:?} is no end of {text:?}");
            cut |= told.len() < text.len();
        }
        assert_eq!(turn["truncated"], cut);
    }
}

/// Lets a rollout grow piece by piece and polls behind each; gives how many turns were told and how often the Observer
/// had to start anew.
fn observe(world: &mut World, data: &[u8], cuts: &[usize], limit: usize) -> (usize, usize) {
    let start = world.read(None, None, None, limit).unwrap();
    let empty = start.through_cursor.unwrap();
    let mut cursor = empty.clone();
    let mut told: Vec<Value> = Vec::new();
    let (mut deltas, mut resyncs) = (0, 0);
    for &cut in cuts {
        let piece = &data[world.written.len()..cut];
        world.append(piece);
        let (records, pairs) = (world.records(), world.known().pairs());
        let early = world.poll(&cursor, limit);
        world.capture();
        let poll = world.poll(&cursor, limit);
        if early.status == Status::ProjectionPending {
            assert!(early.turns.is_empty() && early.through.is_none(), "{early:?}");
        } else {
            assert_eq!(early, poll, "at byte {cut}: bodies change nothing but whether they are there");
        }
        if records.starts_with(&told) {
            assert_eq!(poll.status, Status::Delta, "at byte {cut}");
            assert_eq!(without_bodies(&poll.turns), records[told.len()..], "at byte {cut}");
            assert_bodies(&poll.turns, &pairs[told.len()..]);
            deltas += poll.turns.len();
            told.extend(without_bodies(&poll.turns));
            cursor = poll.through.unwrap();
        } else {
            assert_eq!(
                (poll.status, &poll.through, poll.turns.len()),
                (Status::ResyncRequired, &None, 0),
                "at byte {cut}"
            );
            resyncs += 1;
            let anew = world.read(None, None, None, 100).unwrap();
            told = without_bodies(&values(&anew));
            assert_eq!(told, records, "at byte {cut}");
            assert!(!anew.history_truncated);
            cursor = anew.through_cursor.unwrap();
        }
    }
    assert_eq!(world.written, data);
    let whole = world.poll(&empty, 100);
    assert_eq!((whole.status, whole.through.as_ref()), (Status::Delta, Some(&cursor)));
    assert_eq!(without_bodies(&whole.turns), told);
    (deltas, resyncs)
}

/// Positions behind every line, and up to `within` in the middle of each; the last one is the end.
fn cuts(data: &[u8], within: usize) -> Vec<usize> {
    let (mut cuts, mut start, mut seed) = (Vec::new(), 0, 1_u64);
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        for _ in 0..within {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            cuts.push(start + (seed >> 33) as usize % line.len());
        }
        // Whole, but for its line feed.
        cuts.push(start + line.len() - 1);
        start += line.len();
        cuts.push(start);
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

// ---- what real programs wrote

fn grow_sample(path: &Path, within: usize) -> (usize, usize) {
    let recorded = fs::read_to_string(path).unwrap();
    let first: Value = serde_json::from_str(recorded.lines().next().unwrap()).unwrap();
    let thread = first["payload"]["id"].as_str().unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let name = if name.starts_with("rollout-") {
        name.to_owned()
    } else {
        format!("rollout-2026-01-05T10-00-00-{thread}.jsonl")
    };
    let mut world = World::new(&name, thread);
    let data = world.rehomed(&recorded);
    observe(&mut world, &data, &cuts(&data, within), 3)
}

#[test]
fn rollouts_of_real_programs_grow() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/samples");
    let (mut deltas, mut resyncs) = (0, 0);
    for version in ["0.118.0", "0.171.0"] {
        for entry in fs::read_dir(samples.join("codex-real").join(version).join("sessions")).unwrap() {
            let grown = grow_sample(&entry.unwrap().path(), 1);
            (deltas, resyncs) = (deltas + grown.0, resyncs + grown.1);
        }
    }
    for name in
        ["07_0.130.0_cli_fork_child_two_session_meta", "12_0.130.0_cli_plan_mode", "13_0.147.0_paginated_one_turn"]
    {
        let grown = grow_sample(&samples.join("codex").join(name).with_added_extension("jsonl"), 1);
        (deltas, resyncs) = (deltas + grown.0, resyncs + grown.1);
    }
    assert!(deltas >= 40 && resyncs >= 2, "{deltas} turns told, {resyncs} times anew");
}

// ---- rollouts of our own

const THREAD: &str = "019c0000-0000-7000-8000-00000000000a";

/// Rows, one second apart.
#[derive(Default)]
struct Rows {
    text: String,
    count: u32,
}

impl Rows {
    fn new() -> Self {
        let mut rows = Self::default();
        let payload = json!({"id": THREAD, "cwd": "/work/app", "source": "cli"});
        rows.text =
            json!({"timestamp": "2026-07-01T00:00:00.000Z", "type": "session_meta", "payload": payload}).to_string();
        rows.end("\n")
    }

    fn event(mut self, kind: &str, payload: Value) -> Self {
        let text = self.spelled(kind, payload);
        self.text += &text;
        self.end("\n")
    }

    /// An event as Codex spells it.
    fn spelled(&mut self, kind: &str, payload: Value) -> String {
        self.count += 1;
        let time = format!("2026-07-01T00:{:02}:{:02}.000Z", self.count / 60, self.count % 60);
        let members: String =
            payload.as_object().unwrap().iter().map(|(key, value)| format!(",\"{key}\":{value}")).collect();
        format!(r#"{{"timestamp":"{time}","type":"event_msg","payload":{{"type":"{kind}"{members}}}}}"#)
    }

    /// What stands between this row and the next.
    fn end(mut self, end: &str) -> Self {
        self.text += end;
        self
    }

    fn start(self, id: &str) -> Self {
        self.event("task_started", json!({"turn_id": id}))
    }

    fn user(self, text: &str) -> Self {
        self.event("user_message", json!({"message": text}))
    }

    fn agent(self, text: &str) -> Self {
        self.event("agent_message", json!({"message": text}))
    }

    fn complete(self, id: &str) -> Self {
        self.event("task_complete", json!({"turn_id": id, "last_agent_message": "last"}))
    }

    fn turn(self, id: &str) -> Self {
        self.start(id).user(&format!("ask {id}")).agent(&format!("answer {id}")).complete(id)
    }

    fn rolled_back(self, prompts: u32) -> Self {
        self.event("thread_rolled_back", json!({"num_turns": prompts}))
    }

    fn item(self, id: &str, kind: &str, text: &str) -> Self {
        self.event(
            "item_completed",
            json!({"turn_id": id, "item": {"type": kind, "content": [{"type": "text", "text": text}]}}),
        )
    }

    /// Lets it grow; the counts are those of turns told and of new starts.
    fn grow(self, counts: (usize, usize)) {
        for limit in [1, 2, 100] {
            let mut world = World::new(&format!("rollout-2026-01-05T10-00-00-{THREAD}.jsonl"), THREAD);
            let data = world.rehomed(&self.text);
            assert_eq!(observe(&mut world, &data, &cuts(&data, 2), limit), counts, "{}", self.text);
        }
    }
}

#[test]
fn turns_that_follow_one_another() {
    (1..=7).fold(Rows::new(), |rows, n| rows.turn(&format!("t{n}"))).grow((7, 0));
}

#[test]
fn several_turns_in_one_piece() {
    let mut world = World::new(&format!("rollout-2026-01-05T10-00-00-{THREAD}.jsonl"), THREAD);
    let text = (1..=7).fold(Rows::new(), |rows, n| rows.turn(&format!("t{n}"))).text;
    let data = world.rehomed(&text);
    let cuts = [data.len() / 7, data.len() * 5 / 7, data.len()];
    assert_eq!(observe(&mut world, &data, &cuts, 2), (7, 0));
}

#[test]
fn turns_undone() {
    Rows::new().turn("t1").turn("t2").rolled_back(1).turn("t3").rolled_back(5).turn("t4").grow((4, 2));
}

#[test]
fn a_turn_undone_before_it_completes_is_never_told() {
    Rows::new().turn("t1").start("t2").user("x").agent("y").rolled_back(1).complete("t2").turn("t3").grow((2, 0));
}

#[test]
fn turns_under_way_at_once() {
    let rows = Rows::new().start("t1").item("t1", "UserMessage", "one").start("t2").item("t2", "UserMessage", "two");
    let rows =
        rows.item("t1", "AgentMessage", "first").item("t2", "AgentMessage", "second").complete("t2").complete("t1");
    rows.turn("t3").grow((3, 0));
}

#[test]
fn rows_that_are_spliced_broken_and_filled_with_nul() {
    let mut rows =
        Rows::new().end("\0\0\0").start("t1").user("e\u{301} \u{1f680}").end("{\"timestamp\":\"cut").agent("a");
    let complete = rows.spelled("task_complete", json!({"turn_id": "t1"}));
    rows.text += &complete;
    let rows = rows.start("t2").user("q").end("\r\n \n[]").agent("r").end("{\"timestamp\":\"").end("\n").complete("t2");
    rows.end("no json\n").turn("t3").grow((3, 0));
}

#[test]
fn a_rollout_that_begins_with_a_mark_and_stays_unterminated() {
    let mut rows = Rows::new().turn("t1").start("t2").user("q");
    rows.text.insert(0, '\u{feff}');
    let complete = rows.spelled("task_complete", json!({"turn_id": "t2", "last_agent_message": "stands in"}));
    rows.text += &complete;
    rows.text += &complete[..30];
    rows.grow((2, 0));
}

// ---- tokens

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest)
}

fn whole() -> impl Strategy<Value = i64> {
    prop_oneof![Just(1), Just(MAX_WHOLE), 1..1000_i64, 1..=MAX_WHOLE]
}

fn position() -> impl Strategy<Value = Position> {
    let host = select(vec![Host::Claude, Host::Codex]);
    (host, digest(), whole(), whole(), digest()).prop_map(|(host, thread, floor, length, prefix)| Position {
        host,
        thread,
        floor,
        length: usize::try_from(length).unwrap(),
        prefix,
    })
}

/// A token with one character replaced, added or left out.
fn edited(token: &str, at: Index, c: char, kind: u8) -> String {
    let mut chars: Vec<char> = token.chars().collect();
    match kind {
        0 => chars.insert(at.index(chars.len() + 1), c),
        1 => drop(chars.remove(at.index(chars.len()))),
        _ => {
            let at = at.index(chars.len());
            chars[at] = if chars[at] == c { if c == 'A' { 'B' } else { 'A' } } else { c };
        }
    }
    chars.into_iter().collect()
}

fn any_char() -> impl Strategy<Value = char> {
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/ .\n";
    prop_oneof![9 => select(alphabet.chars().collect::<Vec<_>>()), 1 => any::<char>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cursors_are_read_as_they_are_written(at in position(), project in digest(), other in digest()) {
        for cursor in [Cursor::At(at), Cursor::Empty] {
            let token = cursor.write(project);
            prop_assert!(token.starts_with("tlc1.") && token.len() < 4096);
            prop_assert_eq!(Cursor::read(&token, project), Some(cursor));
            prop_assert_eq!(Cursor::read(&token, other), None);
        }
    }

    /// A changed token is refused, or it is another token in its one spelling: it never stands for the same place.
    #[test]
    fn changed_cursors_are_never_the_same(
        at in position(), project in digest(), index in any::<Index>(), c in any_char(), kind in 0..3_u8,
    ) {
        let cursor = Cursor::At(at);
        let token = cursor.write(project);
        let changed = edited(&token, index, c, kind);
        prop_assume!(changed != token);
        if let Some(read) = Cursor::read(&changed, project) {
            prop_assert_ne!(read, cursor);
            prop_assert_eq!(read.write(project), changed);
        }
    }

    #[test]
    fn places_that_no_token_can_name_are_refused(at in position(), project in digest()) {
        for odd in [
            Position { floor: 0, ..at },
            Position { floor: -1, ..at },
            Position { floor: MAX_WHOLE + 1, ..at },
            Position { length: 0, ..at },
            Position { length: usize::try_from(MAX_WHOLE).unwrap() + 1, ..at },
        ] {
            prop_assert_eq!(Cursor::read(&Cursor::At(odd).write(project), project), None);
        }
    }

    #[test]
    fn page_tokens_are_read_as_they_are_written(
        project in digest(), after in "[a-z]{0,9}", through in "[a-z]{0,9}", offset in whole(), prefix in digest()
    ) {
        let series = Series::new(project, &after, &through);
        let page = series.page(usize::try_from(offset).unwrap(), prefix);
        let token = page.write();
        prop_assert!(token.starts_with("tlp1.") && token.len() < 4096);
        prop_assert_eq!(series.read(&token), Some(page));
        for other in [
            Series::new(Digest::of("another"), &after, &through),
            Series::new(project, &format!("{after}x"), &through),
            Series::new(project, &after, &format!("{through}x")),
        ] {
            prop_assert_eq!(other.read(&token), None);
        }
    }

    #[test]
    fn changed_page_tokens_are_never_the_same(
        project in digest(), offset in whole(), prefix in digest(),
        index in any::<Index>(), c in any_char(), kind in 0..3_u8,
    ) {
        let series = Series::new(project, "after", "through");
        let page = series.page(usize::try_from(offset).unwrap(), prefix);
        let changed = edited(&page.write(), index, c, kind);
        prop_assume!(changed != page.write());
        if let Some(read) = series.read(&changed) {
            prop_assert_ne!(read, page);
            prop_assert_eq!(read.write(), changed);
        }
    }
}

/// A token with one character replaced by another of the alphabet, at every position.
fn replaced(token: &str) -> impl Iterator<Item = String> {
    (0..token.len()).flat_map(move |at| {
        let near = match token.as_bytes()[at] {
            b'a'..=b'y' | b'A'..=b'Y' | b'0'..=b'8' => (token.as_bytes()[at] + 1) as char,
            _ => 'A',
        };
        ['-', near].map(|c| format!("{}{c}{}", &token[..at], &token[at + 1..]))
    })
}

#[test]
fn a_read_refuses_every_token_with_another_character() {
    let mut world = World::new(&format!("rollout-2026-01-05T10-00-00-{THREAD}.jsonl"), THREAD);
    let text = (1..=5).fold(Rows::new(), |rows, n| rows.turn(&format!("t{n}"))).text;
    let data = world.rehomed(&text);
    let two_turns = data.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(8).unwrap().0 + 1;
    world.append(&data[..two_turns]);
    world.capture();
    let after = world.read(None, None, None, 10).unwrap().through_cursor.unwrap();
    world.append(&data[two_turns..]);
    world.capture();
    let first = world.read(Some(&after), None, None, 2).unwrap();
    assert_eq!((first.status, first.turns.len()), (Status::Delta, 2));
    let (through, page) = (first.through_cursor.unwrap(), first.page.next_token.unwrap());
    let last = world.read(Some(&after), Some(&through), Some(&page), 2).unwrap();
    assert_eq!((last.turns.len(), last.page.complete), (1, true));

    for page in replaced(&page).filter(|changed| *changed != page) {
        let refused = world.read(Some(&after), Some(&through), Some(&page), 2).unwrap_err();
        assert_eq!(refused.kind(), Kind::Input, "{page}");
    }
    let project = throughline::observer::Project::open(&world.project).unwrap().digest;
    let Some(Cursor::At(place)) = Cursor::read(&after, project) else { panic!("a place in the thread") };
    for changed in replaced(&after).filter(|changed| *changed != after) {
        // A floor above that of the thread still holds: it says no more than that older turns were given up.
        let floor = match Cursor::read(&changed, project) {
            Some(Cursor::At(read)) if read == (Position { floor: read.floor, ..place }) => read.floor,
            _ => 0,
        };
        let holds = if floor > 0 { Status::Delta } else { Status::ResyncRequired };
        assert_eq!(world.read(Some(&changed), None, None, 2).unwrap().status, holds, "{changed}");
        let bound = world.read(Some(&changed), Some(&through), Some(&page), 2).unwrap_err();
        assert_eq!(bound.kind(), Kind::Input, "{changed}");
    }
}
