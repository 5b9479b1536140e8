//! Random transcripts of sessions that have a name to show.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use crate::spelling::{Json, object, raw, spelling, texts};

/// The name that most of them were given.
pub const NAME: &str = "Session - fix the parser";
/// Another one.
pub const OTHER: &str = "Session - é";

/// The bytes of a transcript, shown as text.
pub struct Bytes(pub Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// A transcript.
pub fn transcript() -> impl Strategy<Value = Bytes> {
    let lines = prop_oneof![12 => row(), 2 => broken(), 2 => conversation()];
    (vec(lines, 0..16), any::<bool>()).prop_map(|(lines, ended)| {
        let mut bytes = lines.join(&b'\n');
        bytes.extend(ended.then_some(b'\n'));
        Bytes(bytes)
    })
}

/// A mint and what follows it, so that windows do open and close.
fn conversation() -> BoxedStrategy<Vec<u8>> {
    (minting(), vec(saying(), 1..3), spelling())
        .prop_map(|(mint, said, spelling)| {
            let rows: Vec<_> = std::iter::once(mint).chain(said).map(|row| object(row).spelled(spelling)).collect();
            rows.join(&b'\n')
        })
        .boxed()
}

fn row() -> BoxedStrategy<Vec<u8>> {
    let parts = (prop_oneof![2 => minting(), 5 => saying(), 1 => other()], ids(), flags(), spelling());
    parts.prop_map(|(row, ids, flags, spelling)| object([ids, row, flags].concat()).spelled(spelling)).boxed()
}

type Members = Vec<(&'static str, Option<Json>)>;

fn text(text: &str) -> Json {
    Json::Text(text.to_owned())
}

fn ids() -> BoxedStrategy<Members> {
    let fresh = any::<u64>().prop_map(|low| Some(text(&format!("019c0000-0000-4000-8000-{:012x}", low >> 16))));
    let uuid = prop_oneof![8 => fresh, 1 => texts(&["r", "s"]).prop_map(Some), 1 => Just(None)];
    let parent = weighted(0.9, raw(&["null"]));
    (parent, uuid, weighted(0.9, raw(&["\"s\""])))
        .prop_map(|(parent, uuid, session)| vec![("parentUuid", parent), ("uuid", uuid), ("sessionId", session)])
        .boxed()
}

/// What says that a row does not count.
fn flags() -> BoxedStrategy<Members> {
    const FLAGS: &[&str] =
        &["isSidechain", "isVisibleInTranscriptOnly", "teamName", "isApiErrorMessage", "isMeta", "isCompactSummary"];
    let flag = (select(FLAGS), raw(&["true", "true", "false", "null", "\"x\"", "\"\"", "0"]));
    weighted(0.12, flag).prop_map(|flag| flag.map(|(key, value)| (key, Some(value))).into_iter().collect()).boxed()
}

/// A tool's answer, most often with a name.
fn minting() -> BoxedStrategy<Members> {
    let flag = || weighted(0.6, raw(&["true", "true", "false", "1"]));
    let name = prop_oneof![6 => texts(&[NAME]), 2 => texts(&[OTHER]), 1 => raw(&["null"])];
    let evidence = (name, flag(), flag(), spelling()).prop_map(|(name, first, retry, spelling)| {
        let members = vec![
            ("schema", Some(text("x"))),
            ("suggested_session_name", Some(name)),
            ("first_of_session", first),
            ("session_name_retry", retry),
        ];
        String::from_utf8(object(members).spelled(spelling)).unwrap()
    });
    let around = (select(vec!["", "note\n", "\r\n", "x "]), evidence, select(vec!["", "\n", "\r\nmore", " x"]));
    let whole = around.prop_map(|(before, evidence, behind)| format!("{before}{evidence}{behind}"));
    let block = |kind: &'static str, key: &'static str, value: Json| {
        object(vec![("type", Some(text(kind))), (key, Some(value))])
    };
    let content = (whole, 0..6_u8).prop_map(move |(answer, how)| match how {
        0 => Json::Array(vec![block("text", "text", text("x")), block("text", "text", text(&answer))]),
        1 => Json::Array(vec![text(&answer)]),
        _ => text(&answer),
    });
    let kinds = (select(vec!["tool_result", "tool_result", "tool_result", "tool_result", "text"]), content);
    let message = kinds.prop_map(move |(kind, content)| {
        let key = if kind == "text" { "text" } else { "content" };
        object(vec![("role", Some(text("user"))), ("content", Some(Json::Array(vec![block(kind, key, content)])))])
    });
    (prop_oneof![9 => texts(&["user"]), 1 => texts(&["assistant", "attachment"])], message)
        .prop_map(|(kind, message)| vec![("type", Some(kind)), ("message", Some(message))])
        .boxed()
}

const SAID: &[&str] = &[
    "```\nSession - fix the parser\n```\nI begin.",
    "```\nSession - fix the parser\n```",
    "\n````text\r\nSession - fix the parser\r\n````\r\n",
    "```\nSession - é\n```",
    "Session - fix the parser",
    "prose\n```\nSession - fix the parser\n```",
    "```\nSession - fix the parser\n````",
    "```\nSession - fix the parser \n```",
    "prose",
    "prose",
];

/// A row of the agent.
fn saying() -> BoxedStrategy<Members> {
    let said = || prop_oneof![5 => texts(SAID), 1 => texts(&["", " \n\u{feff}"])];
    let block = prop_oneof![
        4 => said().prop_map(|said| object(vec![("type", Some(text("text"))), ("text", Some(said))])),
        2 => said().prop_map(|said| object(vec![("type", Some(text("thinking"))), ("thinking", Some(said))])),
        2 => Just(object(vec![("type", Some(text("tool_use"))), ("input", Some(Json::Raw("{}")))])),
        1 => raw(&["null", "{\"type\":\"text\"}", "{\"type\":\"server_tool_use\"}"]),
    ];
    let content = prop_oneof![1 => said(), 5 => vec(block, 0..3).prop_map(Json::Array), 1 => raw(&["null", "{}"])];
    let model = prop_oneof![9 => texts(&["claude-x"]), 1 => texts(&["<synthetic>"])];
    (content, model, prop_oneof![20 => texts(&["assistant"]), 1 => texts(&["user", "system"])])
        .prop_map(|(content, model, kind)| {
            let message = object(vec![("model", Some(model)), ("content", Some(content))]);
            vec![("message", Some(message)), ("type", Some(kind))]
        })
        .boxed()
}

/// A row of another kind.
fn other() -> BoxedStrategy<Members> {
    saying().prop_map(|saying| vec![("type", Some(text("progress"))), ("data", Some(object(saying)))]).boxed()
}

/// What cannot be read, with something readable behind it or not, and what is no row.
fn broken() -> BoxedStrategy<Vec<u8>> {
    let cut = (row(), 1..100_usize).prop_map(|(row, percent)| row[..(row.len() * percent / 100).max(1)].to_vec());
    const OTHERS: &[&str] = &["", "\0\0", " \0 ", "[]", "7 [1]", "{}", "x", "\r"];
    let piece =
        || prop_oneof![2 => cut.clone(), 2 => row(), 2 => select(OTHERS).prop_map(|other| other.as_bytes().to_vec())];
    vec(piece(), 1..3).prop_map(|pieces| pieces.concat()).boxed()
}
