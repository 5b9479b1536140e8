//! The reading of transcripts against its naive twin, on random input: rows of all kinds that collide, splice and break.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "naive/transcript.rs"]
mod naive;
#[path = "naive/rows.rs"]
mod naive_rows;
mod spelling;
mod transcript;

use std::cell::Cell;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use spelling::{Json, Spelling, check, object, raw, spelling, texts};
use throughline_parsers::claude::{Turns, read_line};
use throughline_parsers::text::Digest;
use transcript::{Seen, bytes_of, lines, read, saved, scanned_rows, seen, taken_up};

const WORDS: &[&str] = &["a", "b", "a b\r\n c", "e\u{301}\u{1f680}", "\u{f8ff}x\u{f8fe}", "API Error", "ok\n"];
const ODD_WORDS: &[&str] = &[
    "",
    " \u{feff}\n",
    "\u{85}",
    "[Request interrupted by user]",
    " \n[Request interrupted by user for tool use]",
    "Stop hook feedback:\n- look again",
    "<command-message>x</command-message>\n<command-name>/x</command-name>\n<command-args> a b </command-args>",
    "<command-name>/x</command-name>",
    "<command-name> </command-name>",
    "\n<local-command-stdout>out</local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>x",
    "<bash-stdout>a",
    "<bash-stderr>",
    "<system-reminder>a</system-reminder>",
    " <system-reminder>a\n</system-reminder>\n<system-reminder></system-reminder> ",
    "<system-reminder>a</system-reminder> real",
    "<system-reminder>a",
    "No response requested.",
    "You've hit your session limit",
    "You've reached your",
    "{\"type\":\"user\"}",
    "{\"parentUuid\":",
];
const NO_TEXT: &[&str] = &["null", "1", "{\"text\":\"a\"}", "[[]]"];

fn words() -> BoxedStrategy<Json> {
    prop_oneof![6 => texts(WORDS), 4 => texts(ODD_WORDS), 1 => raw(NO_TEXT)].boxed()
}

fn maybe(weight: f64, values: &'static [&'static str]) -> BoxedStrategy<Option<Json>> {
    weighted(weight, raw(values)).boxed()
}

fn block() -> BoxedStrategy<Json> {
    let of = |kind: &'static str, key: &'static str| {
        words().prop_map(move |text| object(vec![("type", Some(Json::Text(kind.to_owned()))), (key, Some(text))]))
    };
    prop_oneof![
        8 => of("text", "text"),
        2 => of("thinking", "thinking"),
        1 => of("redacted_thinking", "text"),
        2 => of("tool_use", "input"),
        2 => of("tool_result", "content"),
        1 => raw(&["null", "\"a\"", "{}", "{\"text\":\"a\"}", "{\"type\":7,\"text\":\"a\"}", "{\"type\":\"image\"}"]),
    ]
    .boxed()
}

fn content() -> BoxedStrategy<Json> {
    prop_oneof![4 => words(), 6 => vec(block(), 0..4).prop_map(Json::Array)].boxed()
}

fn message(role: &'static str) -> BoxedStrategy<Json> {
    let role = prop_oneof![
        20 => Just(Some(Json::Text(role.to_owned()))),
        2 => weighted(0.5, texts(&["user", "assistant", "", "system"])),
        1 => maybe(0.5, &["null", "7", "0", "{}", "[]"]),
    ];
    let id = prop_oneof![8 => texts(&["m1", "m2", "m3"]).prop_map(Some), 1 => maybe(0.5, &["null", "7", "\"\""])];
    let model = prop_oneof![8 => texts(&["claude-x"]), 2 => texts(&["<synthetic>"]), 1 => raw(&["null"])];
    let stop = maybe(
        0.8,
        &[
            "null",
            "null",
            "null",
            "\"end_turn\"",
            "\"end_turn\"",
            "\"stop_sequence\"",
            "\"max_tokens\"",
            "\"refusal\"",
            "\"tool_use\"",
            "7",
        ],
    );
    let whole = (model, id, role, weighted(0.95, content()), stop).prop_map(|(model, id, role, content, stop)| {
        let kind = Json::Text("message".to_owned());
        let members = vec![("model", Some(model)), ("id", id), ("type", Some(kind)), ("role", role)];
        object(members.into_iter().chain([("content", content), ("stop_reason", stop)]).collect())
    });
    prop_oneof![20 => whole, 1 => raw(&["null", "\"a\"", "[]"])].boxed()
}

fn attachment() -> BoxedStrategy<Json> {
    let text = prop_oneof![2 => words(), 1 => vec(prop_oneof![block(), words()], 0..3).prop_map(Json::Array)];
    let kind =
        texts(&["queued_command", "queued_command", "hook_additional_context", "hook_additional_context", "file"]);
    let mode = weighted(0.9, texts(&["prompt", "prompt", "prompt", "task-notification"]));
    let origin = maybe(0.4, &["{\"kind\":\"human\"}", "{\"kind\":\"peer\"}", "{}", "null", "{\"kind\":null}"]);
    let event = weighted(0.9, texts(&["Stop", "Stop", "SubagentStop"]));
    let whole = (kind, mode, origin, maybe(0.1, &["true", "false"]), text, event).prop_map(
        |(kind, mode, origin, is_meta, text, event)| {
            object(vec![
                ("type", Some(kind)),
                ("commandMode", mode),
                ("origin", origin),
                ("isMeta", is_meta),
                ("prompt", Some(text.clone())),
                ("hookEvent", event),
                ("content", Some(text)),
            ])
        },
    );
    prop_oneof![12 => whole, 1 => raw(&["null", "[]"])].boxed()
}

/// Flags that say what a row is not, each seldom.
fn flags() -> BoxedStrategy<Vec<(&'static str, Option<Json>)>> {
    const TRUTH: &[&str] = &["true", "true", "false", "null", "\"true\""];
    const SET: &[&str] = &["\"x\"", "\"\"", "null", "0", "0.0", "1", "false", "[]", "{}", "[0]"];
    (
        maybe(0.03, TRUTH),
        maybe(0.03, TRUTH),
        maybe(0.05, SET),
        maybe(0.12, TRUTH),
        maybe(0.05, SET),
        maybe(0.04, TRUTH),
        maybe(
            0.1,
            &["{\"kind\":\"human\"}", "{\"kind\":\"task-notification\"}", "{\"kind\":\"peer\"}", "{}", "\"peer\""],
        ),
    )
        .prop_map(|(compact, visible, team, meta, tool, error, origin)| {
            vec![
                ("isCompactSummary", compact),
                ("isVisibleInTranscriptOnly", visible),
                ("teamName", team),
                ("isMeta", meta),
                ("sourceToolUseID", tool),
                ("isApiErrorMessage", error),
                ("origin", origin),
            ]
        })
        .boxed()
}

fn uuid() -> BoxedStrategy<Option<Json>> {
    let fresh = any::<u64>().prop_map(|low| Some(Json::Text(format!("019c0000-0000-4000-8000-{:012x}", low >> 16))));
    prop_oneof![
        16 => fresh,
        2 => texts(&["019c0000-0000-4000-8000-00000000000a", "019C0000-0000-4000-8000-00000000000A", "r"]).prop_map(Some),
        1 => maybe(0.5, &["null", "7"]),
    ]
    .boxed()
}

fn time() -> BoxedStrategy<Option<Json>> {
    let time = (0..60_u8).prop_map(|second| Some(Json::Text(format!("2026-07-01T00:00:{second:02}.000Z"))));
    prop_oneof![12 => time, 1 => texts(&["not a time", ""]).prop_map(Some), 1 => maybe(0.5, &["null", "7"])].boxed()
}

/// What a row is made of besides its ids: the members up to the type and behind it.
type Body = Vec<(&'static str, Option<Json>)>;

fn body() -> BoxedStrategy<Body> {
    let kind = |kind: &'static str| ("type", Some(Json::Text(kind.to_owned())));
    let user = (message("user"), flags())
        .prop_map(move |(message, flags)| [vec![kind("user"), ("message", Some(message))], flags].concat());
    let assistant = (message("assistant"), flags())
        .prop_map(move |(message, flags)| [vec![("message", Some(message)), kind("assistant")], flags].concat());
    let attachment =
        attachment().prop_map(move |attachment| vec![("attachment", Some(attachment)), kind("attachment")]);
    let names = select(vec!["progress", "progress", "system", "file-history-snapshot", "Odd", "user_"]);
    let other = (names, message("assistant"))
        .prop_map(move |(name, message)| vec![kind(name), ("data", Some(object(vec![("message", Some(message))])))]);
    prop_oneof![6 => user, 10 => assistant, 3 => attachment, 4 => other, 1 => Just(vec![("type", Some(Json::Raw("7")))])]
        .boxed()
}

fn row() -> BoxedStrategy<Vec<u8>> {
    let session = prop_oneof![
        14 => texts(&["s"]).prop_map(Some),
        2 => texts(&["other"]).prop_map(Some),
        1 => maybe(0.5, &["null", "7", "[\"s\"]"]),
    ];
    let side = maybe(0.95, &["false", "false", "false", "false", "false", "false", "false", "true", "null"]);
    let parent = weighted(0.9, raw(&["null", "\"019c0000-0000-4000-8000-00000000000b\""]));
    (parent, side, body(), uuid(), time(), session, spelling())
        .prop_map(|(parent, side, body, uuid, time, session, spelling)| {
            let lead = vec![("parentUuid", parent), ("isSidechain", side)];
            object([lead, body, vec![("uuid", uuid), ("timestamp", time), ("sessionId", session)]].concat())
                .spelled(spelling)
        })
        .boxed()
}

/// A short conversation, so that turns do end.
fn turn() -> BoxedStrategy<Vec<u8>> {
    let said = |kind: &'static str, text: Json, id: &'static str| {
        let message = object(vec![("id", Some(Json::Text(id.to_owned()))), ("content", Some(text))]);
        let kind = Json::Text(kind.to_owned());
        object(vec![
            ("parentUuid", Some(Json::Raw("null"))),
            ("type", Some(kind)),
            ("message", Some(message)),
            ("sessionId", Some(Json::Raw("\"s\""))),
        ])
        .spelled(Spelling::Compact)
    };
    let progress =
        r#"{"parentUuid":null,"isSidechain":false,"type":"progress","data":{},"timestamp":"2026-07-01T00:01:00.000Z"}"#;
    (texts(WORDS), texts(WORDS), select(vec!["m1", "m2"]), any::<bool>())
        .prop_map(move |(ask, answer, id, passed)| {
            let between = if passed { progress.as_bytes().to_vec() } else { Vec::new() };
            [said("user", ask, "u"), between, said("assistant", answer, id)].join(&b'\n')
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
    const ROW: &str = r#"{"parentUuid":null,"isSidechain":false,"type":"progress","data":{"type":"user"},"uuid":"x"}"#;
    (50..=ROW.len(), row()).prop_map(|(len, row)| [&ROW.as_bytes()[..len], &row].concat()).boxed()
}

fn line() -> BoxedStrategy<Vec<u8>> {
    let others = [
        "",
        "\0\0\0",
        " ",
        "\r",
        "[]",
        "[1,{\"a\":2}] ",
        "7 ",
        "{}",
        "{",
        "}",
        "x",
        "{\"type\":\"user\"}",
        "{\"parentUuid\":",
        "é",
    ];
    let other = select(others.to_vec()).prop_map(|other| other.as_bytes().to_vec());
    let piece = prop_oneof![6 => row(), 3 => cut_row(), 3 => other];
    prop_oneof![
        16 => row(),
        4 => turn(),
        2 => vec(piece.clone(), 0..4).prop_map(|pieces| pieces.concat()),
        1 => vec(piece, 7..12).prop_map(|pieces| pieces.concat()),
        1 => behind_passed_over(),
        // About as many unreadable pieces as end the reading of a line.
        1 => (vec(cut_row(), 6..9), row()).prop_map(|(cut, row)| [cut.concat(), row].concat()),
    ]
    .boxed()
}

/// The bytes of a transcript, shown as text.
struct Bytes(Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

fn any_transcript() -> impl Strategy<Value = Bytes> {
    let lines = vec(line(), 0..24).prop_map(|lines| lines.join(&b'\n'));
    (proptest::bool::weighted(0.1), lines, any::<bool>()).prop_map(|(bom, lines, ended)| {
        let bom: &[u8] = if bom { b"\xef\xbb\xbf" } else { b"" };
        Bytes([bom, &lines, if ended { b"\n" } else { b"" }].concat())
    })
}

fn naive_seen(turns: &[naive::Turn]) -> Vec<Seen> {
    let seen = |turn: &naive::Turn| {
        let replies = turn.replies.iter();
        let afters = std::iter::once(-1).chain(turn.replies.iter().map(|reply| reply.index));
        let answer = |after| turn.answer(after).map(|(index, text, time)| (index as u64, time, text));
        Seen {
            asked_at: turn.asked_at,
            user: turn.user(-1),
            replies: replies
                .map(|reply| (reply.index as u64, reply.time, reply.text.clone(), Digest::of_body(&turn.whole(reply))))
                .collect(),
            answers: afters.map(|after| (answer(after), turn.user(after))).collect(),
            flags: [turn.ended(), turn.aborted, turn.failed, turn.completed()],
        }
    };
    turns.iter().map(seen).collect()
}

/// Read with the state saved and taken up again behind each line.
fn read_with_breaks(data: &[u8]) -> Turns {
    let mut turns = Turns::default();
    for (line, offset, ended) in lines(data) {
        for row in read_line(line, offset, ended) {
            turns.apply(&row, bytes_of(data)).unwrap();
        }
        turns = taken_up(&saved(&turns));
    }
    turns
}

#[test]
fn transcripts_read_as_their_twin() {
    let (completed, passed, continued) = (Cell::new(0), Cell::new(0), Cell::new(0));
    check(1000, (any_transcript(), prop_oneof![1..20_usize, 1..1500_usize]), |(Bytes(data), size)| {
        let naive = naive::turns(&data, |_| false);
        let want = naive_seen(&naive);
        let turns = read(&data);
        prop_assert_eq!(&seen(&turns, &data), &want);
        let with_breaks = read_with_breaks(&data);
        prop_assert_eq!(&seen(&with_breaks, &data), &want, "with breaks");
        prop_assert_eq!(saved(&with_breaks), saved(&turns));
        let shorter = naive_seen(&naive::turns(&data, naive::is_passed_over));
        let mut scanned = Turns::default();
        for row in scanned_rows(&data, || size) {
            scanned.apply(&row, bytes_of(&data)).unwrap();
        }
        prop_assert_eq!(&seen(&scanned, &data), &shorter, "in blocks of {}", size);
        completed.set(completed.get() + want.iter().filter(|turn| turn.flags[3]).count());
        passed.set(passed.get() + data.split(|byte| *byte == b'\n').filter(|line| naive::is_passed_over(line)).count());
        continued.set(continued.get() + want.iter().filter(|turn| turn.answers.len() > 2).count());
        Ok(())
    });
    for (count, what) in
        [(completed, "turns completed"), (passed, "rows were passed over"), (continued, "turns went on")]
    {
        assert!(count.get() > 500, "only {} {what}", count.get());
    }
}
