//! The reader against its naive twin, on random input: rollouts of rows that collide, splice and break; JSON documents,
//! whole and mutated; texts; times.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod naive;
mod spelling;

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use spelling::{Json, NO_UTF8, check, object, raw, spelling, texts};
use throughline_parsers::codex::{Role, RowRef, Settled, TurnId, Turns, Uuid, read_line, said_in};
use throughline_parsers::json::{self, document};
use throughline_parsers::lines::{Joiner, LOOKAHEAD, Line, Scanner};
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use throughline_parsers::text::{self, Digest, JoinedBody};
use throughline_parsers::time::parse_ms;
use unicode_normalization::UnicodeNormalization;

// ---- rollouts

/// The thread of the rollouts, in time between the two ids of version 7 below.
const THREAD: &str = "019c0000-0000-7000-8000-00000000000a";

const IDS: &[&str] = &["019c0000-0000-7000-8000-000000000001", "019c0000-0000-7000-8000-00000000000b"];
const ODD_IDS: &[&str] =
    &["019c0000-0000-4000-8000-000000000001", "019C0000-0000-7000-8000-000000000001", "t", "", "\u{f8ff}"];

fn id() -> BoxedStrategy<Option<Json>> {
    prop_oneof![
        8 => texts(IDS).prop_map(Some),
        3 => texts(ODD_IDS).prop_map(Some),
        1 => raw(&["null", "7", "{}"]).prop_map(Some),
        2 => Just(None),
    ]
    .boxed()
}

const WORDS: &[&str] = &["a", "b", "a b", "e\u{301}\u{1f680}", "\u{f8ff}x\u{f8fe}"];
const ODD_WORDS: &[&str] = &[
    "",
    " \u{feff}\n",
    " a\r\n",
    "\u{85}a\u{a0}\u{2028}b\u{3000}",
    "nul\0nul",
    "\"quoted\\\"",
    "# AGENTS.md instructions for x",
    " <hook_prompt",
    "a\u{fffd}",
    "{\"timestamp\":\"",
];

fn words() -> BoxedStrategy<Json> {
    prop_oneof![6 => texts(WORDS), 2 => texts(ODD_WORDS), 1 => raw(&["null", "1", "[\"a\"]", "{\"a\":\"a\"}"])].boxed()
}

fn item() -> BoxedStrategy<Json> {
    let part = (words(), any::<bool>())
        .prop_map(|(text, kind)| object(vec![("type", kind.then_some(Json::Raw("\"text\""))), ("text", Some(text))]));
    let content = vec(prop_oneof![8 => part, 1 => raw(&["null", "\"a\"", "{}", "[{\"text\":\"a\"}]"])], 0..3);
    let content = prop_oneof![8 => content.prop_map(Json::Array), 1 => raw(&["null", "\"a\"", "{\"text\":\"a\"}"])];
    let kinds = &["UserMessage", "AgentMessage", "UserMessage", "AgentMessage", "Plan", "Reasoning"];
    let kind = prop_oneof![9 => texts(kinds), 1 => raw(&["null", "3"])];
    let item = (kind, content, words()).prop_map(|(kind, content, text)| {
        object(vec![("type", Some(kind)), ("content", Some(content)), ("text", Some(text))])
    });
    prop_oneof![12 => item, 1 => raw(&["null", "[]", "\"a\""])].boxed()
}

fn payload() -> BoxedStrategy<Json> {
    let kind = |kind: &'static str| ("type", Some(Json::Text(kind.to_owned())));
    let started = (select(vec!["task_started", "turn_started"]), id())
        .prop_map(move |(name, id)| object(vec![kind(name), ("turn_id", id)]));
    let error =
        prop_oneof![6 => Just(None), 1 => raw(&["null", "{}", "{\"message\":\"a\"}", "\"a\"", "[]"]).prop_map(Some)];
    let stated = raw(&["1770000000", "1770000000.0", "177e7", "1.5", "-1", "\"1770000000\"", "9007199254741", "0"]);
    let last = proptest::option::of(words());
    let completed = (select(vec!["task_complete", "turn_complete"]), id(), last, error, proptest::option::of(stated))
        .prop_map(move |(name, id, last, error, at)| {
            object(vec![
                kind(name),
                ("turn_id", id),
                ("last_agent_message", last),
                ("error", error),
                ("completed_at", at),
            ])
        });
    let aborted = id().prop_map(move |id| object(vec![kind("turn_aborted"), ("turn_id", id)]));
    let prompts = raw(&[
        "1",
        "1",
        "2",
        "3",
        "0",
        "1.0",
        "10e-1",
        "2.5",
        "-1",
        "-0",
        "true",
        "\"1\"",
        "null",
        "9007199254740991",
        "9007199254740993",
        "99999999999999999999999",
    ]);
    let rolled_back = proptest::option::weighted(0.9, prompts)
        .prop_map(move |n| object(vec![kind("thread_rolled_back"), ("num_turns", n)]));
    let said = (select(vec!["user_message", "agent_message"]), words(), id())
        .prop_map(move |(name, words, id)| object(vec![kind(name), ("message", Some(words)), ("turn_id", id)]));
    let item = (item(), id())
        .prop_map(move |(item, id)| object(vec![kind("item_completed"), ("item", Some(item)), ("turn_id", id)]));
    let other = (select(vec!["token_count", "task_started_", "TASK_STARTED", ""]), words())
        .prop_map(move |(name, words)| object(vec![kind(name), ("message", Some(words))]));
    prop_oneof![
        6 => started,
        7 => completed,
        1 => aborted,
        2 => rolled_back,
        9 => said,
        5 => item,
        1 => other,
        1 => raw(&["null", "[]", "{}", "{\"type\":1}"]),
    ]
    .boxed()
}

fn row() -> BoxedStrategy<Vec<u8>> {
    let time = prop_oneof![
        12 => texts(&["2026-07-01T00:00:00.000Z", "2026-07-01T00:00:01.999Z"]),
        2 => texts(&["2026-07-01T02:00:00+02:00", "2026-02-30T00:00:00.000Z", "1969-12-31T23:59:59.999Z", ""]),
        1 => raw(&["null", "0"]),
    ];
    let kind = prop_oneof![
        24 => texts(&["event_msg"]),
        1 => texts(&["response_item", "compacted", "session_meta", "event", ""]),
        1 => raw(&["null", "7"]),
    ];
    let ordinal = proptest::option::weighted(0.2, raw(&["7", "123", "7.5", "\"7\""]));
    let more =
        proptest::option::weighted(0.2, raw(&["{\"timestamp\":\"x\"}", "[[[]]]", "1e308", "\"\\ud83d\\ude80\""]));
    (time, ordinal, kind, payload(), more, spelling())
        .prop_map(|(time, ordinal, kind, payload, more, spelling)| {
            object(vec![
                ("timestamp", Some(time)),
                ("ordinal", ordinal),
                ("type", Some(kind)),
                ("payload", Some(payload)),
                ("metadata", more),
            ])
            .spelled(spelling)
        })
        .boxed()
}

/// The start of a row.
fn cut_row() -> BoxedStrategy<Vec<u8>> {
    let cut = |(row, percent): (Vec<u8>, usize)| row[..(row.len() * percent / 100).max(1)].to_vec();
    (row(), 1..100_usize).prop_map(cut).boxed()
}

/// A row that may be passed over, whole or cut, with another row behind it.
fn behind_passed_over() -> BoxedStrategy<Vec<u8>> {
    const ROW: &str =
        r#"{"timestamp":"2026-07-01T00:00:00.000Z","type":"response_item","payload":{"type":"message","text":"a"}}"#;
    (60..=ROW.len(), row()).prop_map(|(len, row)| [&ROW.as_bytes()[..len], &row].concat()).boxed()
}

/// One of the things that a line is made of.
fn piece() -> BoxedStrategy<Vec<u8>> {
    let other = select(vec![
        "",
        "\0\0\0",
        " ",
        "\r",
        "[]",
        "[1,{\"a\":2}] ",
        "null ",
        "7 ",
        "\"x\"",
        "{}",
        "{",
        "}",
        "tru",
        "x",
        "\u{feff}",
        "é",
    ]);
    prop_oneof![6 => row(), 3 => cut_row(), 3 => other.prop_map(|other| other.as_bytes().to_vec())].boxed()
}

fn line() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        12 => row(),
        2 => vec(piece(), 0..4).prop_map(|pieces| pieces.concat()),
        1 => vec(piece(), 7..12).prop_map(|pieces| pieces.concat()),
        2 => behind_passed_over(),
        // About as many unreadable pieces as end the reading of a line.
        2 => (vec(cut_row(), 6..9), row()).prop_map(|(cut, row)| [cut.concat(), row].concat()),
    ]
    .boxed()
}

/// The bytes of a rollout, shown as text.
struct Rollout(Vec<u8>);

impl std::fmt::Debug for Rollout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}

fn rollout() -> impl Strategy<Value = Rollout> {
    let lines = vec(line(), 0..28).prop_map(|lines| lines.join(&b'\n'));
    (proptest::bool::weighted(0.1), lines, any::<bool>()).prop_map(|(bom, lines, ended)| {
        let bom: &[u8] = if bom { b"\xef\xbb\xbf" } else { b"" };
        Rollout([bom, &lines, if ended { b"\n" } else { b"" }].concat())
    })
}

/// What is compared of a turn: number, id, prompts, and of a completed one time, place and digests.
#[derive(Debug, PartialEq)]
struct Seen {
    number: Option<u64>,
    id: Option<String>,
    prompts: u64,
}

/// Number, time, digests, in the order of completion.
type Completed = Vec<(u64, i64, Option<Digest>, Option<Digest>)>;

fn seen(turns: &Turns) -> Vec<Seen> {
    let id = |id: &TurnId| match id {
        TurnId::Uuid(id) => id.to_string(),
        TurnId::Text(text) => text.to_string(),
    };
    let turns = turns.turns().iter();
    turns.map(|turn| Seen { number: turn.number, id: turn.id.as_ref().map(id), prompts: turn.prompts }).collect()
}

fn completed(turns: &Turns, copied: bool) -> Completed {
    let thread: Uuid = THREAD.parse().unwrap();
    let completed = turns.completed_in(thread, copied);
    assert!(completed.is_sorted_by(|a, b| a.order < b.order), "no two turns complete at one place");
    completed.into_iter().map(|turn| (turn.number, turn.at, turn.user, turn.assistant)).collect()
}

fn naive_seen(turns: &[naive::Turn]) -> Vec<Seen> {
    let turns = turns.iter();
    turns.map(|turn| Seen { number: turn.number, id: turn.id.clone(), prompts: turn.prompts() as u64 }).collect()
}

fn naive_completed(turns: &[naive::Turn], copied: bool) -> Completed {
    let mut own: Vec<_> = turns.iter().filter(|turn| !(copied && turn.is_older_than(THREAD))).collect();
    own.sort_by_key(|turn| turn.order);
    let digest = |text: Option<String>| text.map(|text| Digest::of(&naive_body(&text)));
    own.into_iter()
        .filter_map(|turn| {
            Some((turn.number?, turn.completed_at?, digest(turn.text("user")), digest(turn.text("assistant"))))
        })
        .collect()
}

/// The lines of a file with their offsets, and whether each is ended.
fn lines(data: &[u8]) -> impl Iterator<Item = (&[u8], u64, bool)> {
    let mut offset = 0;
    data.split_inclusive(|byte| *byte == b'\n').map(move |line| {
        let at = offset;
        offset += line.len() as u64;
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        (text, at, text.len() < line.len())
    })
}

/// The text in a row.
fn text_at(data: &[u8], at: RowRef) -> Option<String> {
    said_in(&data[at.offset as usize..][..at.len as usize])
}

/// Reads in one go: nothing but the row itself may be read again.
fn read(data: &[u8], mut turns: Turns) -> Turns {
    for row in lines(data).flat_map(|(line, offset, ended)| read_line(line, offset, ended)) {
        turns.apply(&row, |at| (at == row.at).then(|| text_at(data, at))?).unwrap();
    }
    turns
}

/// The same, with the state saved and taken up again behind each row.
fn read_with_breaks(data: &[u8]) -> Turns {
    let mut turns = Turns::default();
    for row in lines(data).flat_map(|(line, offset, ended)| read_line(line, offset, ended)) {
        turns.apply(&row, |at| text_at(data, at)).unwrap();
        let mut packer = Packer::default();
        turns.pack(&mut packer);
        turns = Turns::unpack(&mut Unpacker::new(&packer.finish())).unwrap();
    }
    turns
}

/// The same with all turns but the last ones put aside whenever that can be, and taken back where they are needed.
fn read_with_turns_put_aside(data: &[u8], keep: usize) -> Turns {
    let (mut turns, mut aside) = (Turns::default(), Vec::new());
    for row in lines(data).flat_map(|(line, offset, ended)| read_line(line, offset, ended)) {
        let mut applied = turns.clone();
        if applied.apply(&row, |at| text_at(data, at)).is_err() {
            applied = turns;
            assert!(applied.join(std::mem::take(&mut aside)), "what is put aside is what was");
            applied.apply(&row, |at| text_at(data, at)).unwrap();
        }
        turns = applied;
        if turns.settled() == Settled::default() {
            aside = turns.settle(keep, keep / 2);
        }
        let mut packer = Packer::default();
        turns.pack(&mut packer);
        turns = Turns::unpack(&mut Unpacker::new(&packer.finish())).unwrap();
    }
    assert!(turns.join(aside), "what is put aside is what was");
    turns
}

/// The same, of the lines that the scanner finds in blocks of this size.
fn read_in_blocks(data: &[u8], size: usize) -> Turns {
    let (scanner, mut joiner, mut turns) = (<Scanner>::default(), Joiner::default(), Turns::default());
    let mut read = |line: Line| {
        let bytes = &data[line.span.start as usize..line.span.end as usize];
        for row in read_line(bytes, line.span.start, line.ended) {
            turns.apply(&row, |at| (at == row.at).then(|| text_at(data, at))?).unwrap();
        }
    };
    for base in (0..data.len()).step_by(size) {
        let len = size.min(data.len() - base);
        let bytes = &data[base..data.len().min(base + len + LOOKAHEAD)];
        let block = scanner.scan(bytes, len, base == 0 || data[base - 1] == b'\n');
        joiner.join(&block, len).into_iter().for_each(&mut read);
        for found in block.lines() {
            read(Line { span: (base + found.start) as u64..(base + found.end) as u64, ended: true });
        }
    }
    joiner.finish().into_iter().for_each(&mut read);
    turns
}

#[test]
fn rollouts_are_read_as_the_twin_reads_them() {
    let [pairs, gone, copies] = [const { Cell::new(0) }; 3];
    check(1500, (rollout(), prop_oneof![1..20_usize, 1..400_usize]), |(Rollout(data), size)| {
        let turns = naive::turns(&naive::rows(&data, |_| true));
        let passed_over = naive::turns(&naive::rows(&data, |line| !naive::is_passed_over(line)));
        for (how, ours, turns) in [
            ("at once", read(&data, Turns::default()), &turns),
            ("with texts", read(&data, Turns::keeping_texts()), &turns),
            ("with breaks", read_with_breaks(&data), &turns),
            ("with turns put aside", read_with_turns_put_aside(&data, size % 4), &turns),
            ("in blocks", read_in_blocks(&data, size), &passed_over),
        ] {
            prop_assert_eq!(seen(&ours), naive_seen(turns), "{}: {}", how, data.escape_ascii());
            for copied in [false, true] {
                let (ours, naive) = (completed(&ours, copied), naive_completed(turns, copied));
                prop_assert_eq!(ours, naive, "{}, copied {}: {}", how, copied, data.escape_ascii());
            }
        }
        let with_texts = read(&data, Turns::keeping_texts());
        for (ours, naive) in with_texts.turns().iter().zip(&turns).filter(|(_, naive)| naive.number.is_some()) {
            for (role, name) in [(Role::User, "user"), (Role::Assistant, "assistant")] {
                prop_assert_eq!(ours.text(role), naive.text(name), "{}", data.escape_ascii());
            }
        }
        let all = naive_completed(&turns, false);
        pairs.set(pairs.get() + all.iter().filter(|turn| turn.2.is_some() && turn.3.is_some()).count());
        copies.set(copies.get() + all.len() - naive_completed(&turns, true).len());
        let started = turns.iter().filter_map(|turn| turn.number).max().unwrap_or(0);
        gone.set(gone.get() + started as usize - turns.iter().filter(|turn| turn.number.is_some()).count());
        Ok(())
    });
    let reached = [pairs.get(), gone.get(), copies.get()];
    assert!(reached.iter().all(|n| *n > 20), "pairs, turns undone, copies: {reached:?}");
}

// ---- JSON documents

fn any_json() -> impl Strategy<Value = Json> {
    const NUMBERS: &[&str] = &[
        "0",
        "-0",
        "3",
        "3.0",
        "-3e2",
        "1.5",
        "25e-1",
        "100e-2",
        "9007199254740991",
        "-9007199254740992",
        "18446744073709551616",
        "1E+2",
        "0.1",
        "123456.789e3",
    ];
    const KEYS: &[&str] = &["a", "b", "", "timestamp", "é\u{1f680}", "\"\\\n"];
    let leaf = prop_oneof![
        raw(&["null", "true", "false"]),
        raw(NUMBERS),
        any::<String>().prop_map(Json::Text),
        texts(WORDS).prop_map(|text| match text {
            Json::Text(text) => Json::Text(text.replace(NO_UTF8.map(|(sign, _)| sign), "")),
            other => other,
        }),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Json::Array),
            vec((select(KEYS), inner), 0..5).prop_map(Json::Object),
        ]
    })
}

fn any_document() -> impl Strategy<Value = Vec<u8>> {
    (any_json(), spelling(), select(vec!["", " ", "\r\n\t"])).prop_map(|(json, spelling, blank)| {
        let json = json.spelled(spelling);
        [blank.as_bytes(), &json, blank.as_bytes()].concat()
    })
}

/// Why two readings differ, if they do.
fn difference(ours: json::Value<'_>, theirs: &Value) -> Option<String> {
    let differ = || Some(format!("{} is not {theirs}", ours.spelled()));
    let is_set = !(theirs.is_null() || theirs.as_str() == Some(""));
    if ours.is_set() != is_set {
        return differ();
    }
    match (ours, theirs) {
        (json::Value::Null, Value::Null) => None,
        (json::Value::Bool(ours), Value::Bool(theirs)) if ours == *theirs => None,
        (json::Value::Number(_), Value::Number(theirs)) => {
            // Where serde_json gives a float, its last digits are near enough only for small ones.
            let comparable = !theirs.is_f64() || theirs.as_f64().is_some_and(|value| value.abs() < 1e15);
            if comparable && ours.whole() != naive::whole(&Value::Number(theirs.clone())) { differ() } else { None }
        }
        (json::Value::String(_), Value::String(theirs)) if ours.text().as_deref() == Some(theirs) => None,
        (json::Value::Array(ours), Value::Array(theirs)) if ours.items().count() == theirs.len() => {
            ours.items().zip(theirs).find_map(|(ours, theirs)| difference(ours, theirs))
        }
        (json::Value::Object(ours), Value::Object(theirs)) => {
            let members: BTreeMap<String, json::Value<'_>> =
                ours.members().map(|(key, value)| (key.decode().into_owned(), value)).collect();
            if !members.keys().eq(theirs.keys().collect::<std::collections::BTreeSet<_>>()) {
                return differ();
            }
            theirs.iter().find_map(|(key, theirs)| {
                let [field] = ours.fields([key]);
                difference(members[key], theirs).or_else(|| difference(field?, theirs)).or_else(|| match field {
                    Some(_) => None,
                    None => differ(),
                })
            })
        }
        _ => differ(),
    }
}

#[test]
fn documents_are_read_as_serde_json_reads_them() {
    check(3000, any_document(), |text| {
        let theirs: Value = serde_json::from_slice(&text).unwrap();
        let ours = document(&text);
        prop_assert!(ours.is_ok(), "refused: {}", text.escape_ascii());
        prop_assert_eq!(difference(ours.unwrap(), &theirs), None);
        Ok(())
    });
}

/// What `serde_json` says of that which only it refuses.
const SERDE_JSON_REFUSES: [&str; 5] = [
    "lone leading surrogate in hex escape",
    "unexpected end of hex escape",
    "invalid unicode code point",
    "number out of range",
    "recursion limit exceeded",
];

#[test]
fn mutated_documents_are_refused_unless_only_serde_json_refuses_them() {
    let byte = prop_oneof![
        4 => select(b"\"\\{}[]:,.-+0123456789eEtfnu \t\n\r\0\x1f\x7f".to_vec()),
        1 => any::<u8>(),
    ];
    let edit = (0..3_u8, any::<prop::sample::Index>(), byte);
    let [accepted, refused] = [const { Cell::new(0) }; 2];
    check(12_000, (any_document(), vec(edit, 1..4)), |(mut text, edits)| {
        for (kind, at, byte) in edits {
            let at = at.index(text.len() + 1);
            match kind {
                0 => text.insert(at, byte),
                1 if at < text.len() => text[at] = byte,
                2 if at < text.len() => drop(text.remove(at)),
                _ => {}
            }
        }
        match (document(&text), serde_json::from_slice::<Value>(&text)) {
            (Ok(ours), Ok(theirs)) => {
                accepted.set(accepted.get() + 1);
                prop_assert_eq!(difference(ours, &theirs), None, "{}", text.escape_ascii());
            }
            (Err(_), Ok(_)) => prop_assert!(false, "only we refuse {}", text.escape_ascii()),
            (Ok(_), Err(error)) => {
                let error = error.to_string();
                let known = SERDE_JSON_REFUSES.iter().any(|reason| error.starts_with(reason));
                prop_assert!(known, "only serde_json refuses {}: {error}", text.escape_ascii());
            }
            (Err(_), Err(_)) => refused.set(refused.get() + 1),
        }
        Ok(())
    });
    let reached = [accepted.get(), refused.get()];
    assert!(reached.iter().all(|n| *n > 100), "accepted, refused: {reached:?}");
}

#[test]
fn what_serde_json_refuses_is_read() {
    let deep = format!("{}{}", "[".repeat(512), "]".repeat(512));
    for (text, value) in [
        (br#""\ud83dx\udc00\ud83d\n""#.as_slice(), Some("\u{fffd}x\u{fffd}\u{fffd}\n")),
        (br#""\ud83d\ud83d\ude80""#, Some("\u{fffd}\u{1f680}")),
        (b"\"a\xffb\xe2\x82\"", Some("a\u{fffd}b\u{fffd}")),
        (b"\"\xed\xa0\xbd\"", Some("\u{fffd}\u{fffd}\u{fffd}")),
        (b"1e400", None),
        (deep.as_bytes(), None),
    ] {
        let error = serde_json::from_slice::<Value>(text).unwrap_err().to_string();
        assert!(SERDE_JSON_REFUSES.iter().any(|reason| error.starts_with(reason)), "{error}");
        assert_eq!(document(text).unwrap().text().as_deref(), value);
    }
}

// ---- texts

fn naive_body(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.nfc().peekable();
    while let Some(c) = chars.next() {
        if c == '\r' {
            chars.next_if_eq(&'\n');
        }
        out.push(if c == '\r' { '\n' } else { c });
    }
    while out.chars().next().is_some_and(naive::is_space) {
        out.remove(0);
    }
    while out.chars().next_back().is_some_and(naive::is_space) {
        out.pop();
    }
    out
}

/// Texts with much white space, many line ends and characters that compose.
fn any_text() -> impl Strategy<Value = String> {
    const SPACE: &str = " \n\r\t\u{b}\u{85}\u{a0}\u{180e}\u{1680}\u{2007}\u{200b}\u{2028}\u{3000}\u{feff}";
    const COMPOSING: &str = "abe\u{301}\u{327}\u{1f680}\u{ac01}\u{1100}\u{1161}\u{11a8}\u{2126}\u{958}";
    let some = select(SPACE.chars().chain(COMPOSING.chars()).collect::<Vec<_>>());
    vec(prop_oneof![6 => some, 1 => any::<char>()], 0..24).prop_map(|chars| chars.into_iter().collect())
}

#[test]
fn texts_are_folded_and_trimmed_as_char_by_char() {
    check(3000, any_text(), |text| {
        prop_assert_eq!(text::fold(&text), naive::fold(&text));
        prop_assert_eq!(text::body(&text), naive_body(&text));
        prop_assert_eq!(text::nfc(&text), text.nfc().collect::<String>());
        let body = text::body(&text);
        prop_assert_eq!(text::body(&body), body.as_ref());
        Ok(())
    });
}

#[test]
fn white_space_is_that_of_ecmascript() {
    for c in '\0'..=char::MAX {
        assert_eq!(text::is_space(c), naive::is_space(c), "{c:?}");
    }
}

#[test]
fn messages_digest_one_by_one_as_they_do_joined() {
    check(1000, vec(any_text(), 0..4), |messages| {
        let folded: Vec<String> = messages.iter().map(|message| naive::fold(message)).collect();
        let folded: Vec<&String> = folded.iter().filter(|message| !message.is_empty()).collect();
        let mut joined = JoinedBody::default();
        folded.iter().for_each(|message| joined.push(message));
        let whole = folded.iter().map(|message| message.as_str()).collect::<Vec<_>>().join("\n\n");
        let digest = (!folded.is_empty()).then(|| Digest::of(&naive_body(&whole)));
        prop_assert_eq!(joined.finish(), digest);
        Ok(())
    });
}

#[test]
fn tails_are_cut_by_units() {
    check(1000, (any_text(), 0..30_usize), |(text, limit)| {
        let units: Vec<u16> = text.encode_utf16().collect();
        prop_assert_eq!(text::utf16_len(&text), units.len());
        let mut end = &units[units.len() - units.len().min(limit)..];
        if end.first().is_some_and(|unit| (0xdc00..0xe000).contains(unit)) {
            end = &end[1..];
        }
        let end_text = String::from_utf16(end).unwrap();
        prop_assert_eq!(text::tail(&text, limit), (end_text.as_str(), end.len()));
        Ok(())
    });
}

#[test]
fn digests_are_read_as_they_are_written() {
    check(500, any::<[u8; 32]>(), |bytes| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        prop_assert_eq!(Digest(bytes).to_string(), hex.as_str());
        prop_assert_eq!(Digest::from_hex(&hex), Some(Digest(bytes)));
        Ok(())
    });
}

// ---- times

/// A time of the contract's grammar, and its milliseconds; before the epoch too.
fn any_time() -> impl Strategy<Value = (String, i64)> {
    let date = (1_i64..10_000, 1_i64..13, 1_i64..32, 0..86_400_i64);
    let date = prop_oneof![date.clone(), (1969_i64..1972, date.1, date.2, date.3)];
    let fraction = proptest::option::of((0..1_000_000_000_u32, 1..10_usize));
    let zone = proptest::option::of((any::<bool>(), 0..24_i64, 0..60_i64));
    (date, fraction, zone, any::<bool>()).prop_map(|((year, month, day, second), fraction, zone, lower)| {
        let day = day.min(naive::days_of(year, month));
        let (fraction, millis) = match fraction {
            None => (String::new(), 0),
            Some((digits, len)) => {
                let digits = format!("{digits:09}")[..len].to_owned();
                let millis =
                    (0..3).fold(0, |ms, n| ms * 10 + digits.as_bytes().get(n).map_or(0, |d| i64::from(d - b'0')));
                (format!(".{digits}"), millis)
            }
        };
        let (zone, minutes) = match zone {
            None => ("Z".to_owned(), 0),
            Some((west, hours, minutes)) => {
                let sign = if west { '-' } else { '+' };
                let minutes_east = (hours * 60 + minutes) * if west { -1 } else { 1 };
                (format!("{sign}{hours:02}:{minutes:02}"), minutes_east)
            }
        };
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let mut text =
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}{fraction}{zone}", second % 60);
        if lower {
            text.make_ascii_lowercase();
        }
        let days = naive::days_before(year, month) + day - 1;
        (text, ((days * 86_400 + second) - minutes * 60) * 1000 + millis)
    })
}

#[test]
fn times_are_read_as_they_are_written() {
    check(800, any_time(), |(text, ms)| {
        let expected = (ms >= 0).then_some(ms);
        prop_assert_eq!(parse_ms(&text), expected, "{}", text);
        prop_assert_eq!(naive::parse_ms(&text), expected, "{}", text);
        Ok(())
    });
}

#[test]
fn mutated_times_are_read_as_the_twin_reads_them() {
    let c = prop_oneof![select("0123456789-:.+TtZz ,é\u{661}".chars().collect::<Vec<_>>()), any::<char>()];
    let accepted = Cell::new(0);
    check(3000, (any_time(), any::<prop::sample::Index>(), c, 0..3_u8), |((text, _), at, c, kind)| {
        let mut chars: Vec<char> = text.chars().collect();
        let at = at.index(chars.len());
        match kind {
            0 => chars[at] = c,
            1 => chars.insert(at, c),
            _ => drop(chars.remove(at)),
        }
        let text: String = chars.into_iter().collect();
        prop_assert_eq!(parse_ms(&text), naive::parse_ms(&text), "{}", text);
        accepted.set(accepted.get() + i32::from(parse_ms(&text).is_some()));
        Ok(())
    });
    assert!(accepted.get() > 20, "only {} of the mutated times are times", accepted.get());
}
