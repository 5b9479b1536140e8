//! What a row says of the display of a session's name.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use smallvec::SmallVec;

use super::fence::shown;
use super::key::Key;
use super::members::Members;
use super::wording::is_blank;
use crate::json::{Value, document};

/// What is seen of a row by who looks for a session's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Nothing.
    None,
    /// Anything may have stood there.
    Unreadable,
    /// A tool gave the session these names to show.
    Minted(SmallVec<[Key; 1]>),
    /// The agent's.
    Reply {
        /// It asks for a tool before it says anything.
        begins_with_tool: bool,
        /// What it says, if it says anything.
        text: Option<Opening>,
    },
}

/// How a text begins that is no white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// With the block that shows this name.
    Block(Key),
    /// With something else.
    Other,
}

impl Sight {
    /// That of a row of the main thread, of a kind that has a message with this text.
    pub(super) fn of(kind: &[u8], members: &Members<'_>, text: &str) -> Self {
        if members.is_not_said() {
            return Self::None;
        }
        let content = &members.message.content;
        if kind == b"user" {
            let minted: SmallVec<_> = content.results.iter().flat_map(|result| minted_in(*result)).collect();
            return if minted.is_empty() { Self::None } else { Self::Minted(minted) };
        }
        if kind != b"assistant" || members.is_api_error || members.message.is_synthetic {
            return Self::None;
        }
        let opening = || shown(text).map_or(Opening::Other, |name| Opening::Block(Key::of(name)));
        Self::Reply { begins_with_tool: content.begins_with_tool(), text: (!is_blank(text)).then(opening) }
    }
}

/// The key of the name in mint evidence.
const NAME: &str = "suggested_session_name";
/// How any letter of the key can be spelled otherwise, in the answer or in the JSON around it.
const ESCAPE: &str = "\\u00";

/// The names that a tool's answer gives: each in an object that is the answer, or a line of it.
fn minted_in(result: Value<'_>) -> SmallVec<[Key; 1]> {
    static FINDERS: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| [NAME, ESCAPE].map(Finder::new));
    let can_mint = |text: &[u8]| FINDERS.iter().any(|finder| finder.find(text).is_some());
    if !can_mint(result.raw()) {
        return SmallVec::new();
    }
    let text = answer(result).filter(|text| can_mint(text.as_bytes())).unwrap_or_default();
    let mut names: SmallVec<_> = std::iter::once(&*text).chain(text.split('\n')).filter_map(minted).collect();
    // An answer of one line is that line.
    names.dedup();
    names
}

/// The text of an answer: a string, or the texts of its blocks, a line each.
fn answer(result: Value<'_>) -> Option<Cow<'_, str>> {
    let Some(blocks) = result.array() else { return result.text() };
    let texts = blocks.items().filter_map(|block| block.object()?.fields(["text"])[0]?.text());
    Some(texts.collect::<Vec<_>>().join("\n").into())
}

/// The name that an object gives, if it says that it is to be shown now.
fn minted(text: &str) -> Option<Key> {
    if !text.trim_ascii_start().starts_with('{') {
        return None;
    }
    let fields = document(text.as_bytes()).ok()?.object()?.fields([NAME, "first_of_session", "session_name_retry"]);
    let [Some(Value::String(name)), flags @ ..] = fields else { return None };
    let is_true = |flag: &Option<Value<'_>>| matches!(flag, Some(Value::Bool(true)));
    flags.iter().any(is_true).then(|| Key::of(&name.decode()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minted_by(answer: &str) -> Vec<Key> {
        let Ok(value) = document(answer.as_bytes()) else { panic!("{answer}") };
        minted_in(value).to_vec()
    }

    #[test]
    fn an_object_with_a_true_flag_mints_the_whole_answer_or_a_line_of_it() {
        for (answer, names) in [
            (r#""{\"suggested_session_name\":\"a\",\"first_of_session\":true}""#, &["a"][..]),
            (r#""note\n {\"session_name_retry\":true,\"suggested_session_name\":\"a\"}\r\nmore""#, &["a"]),
            (r#""{\n\"suggested_session_name\":\"a\",\n\"first_of_session\":true}\n""#, &["a"]),
            (
                r#"[{"type":"text","text":"{\"suggested_session_name\":\"a\","},{"text":"\"first_of_session\":true}"}]"#,
                &["a"],
            ),
            (r#""{\"suggested_session_n\\u0061me\":\"\\u00e9\",\"first_of_session\":true}""#, &["é"]),
            (r#""{\"\u0073uggested_session_name\":\"a\",\"first_of_session\":true}""#, &["a"]),
            (
                r#""{\"suggested_session_name\":\"a\",\"first_of_session\":true}\n{\"suggested_session_name\":\"b\",\"session_name_retry\":true}""#,
                &["a", "b"],
            ),
            (
                r#""{\"suggested_session_name\":\"a\",\"suggested_session_name\":\"b\",\"first_of_session\":true}""#,
                &["b"],
            ),
            (r#""{\"suggested_session_name\":\"a\",\"first_of_session\":false,\"session_name_retry\":1}""#, &[]),
            (r#""{\"suggested_session_name\":\"a\",\"first_of_session\":\"true\"}""#, &[]),
            (r#""{\"suggested_session_name\":null,\"first_of_session\":true}""#, &[]),
            (r#""x {\"suggested_session_name\":\"a\",\"first_of_session\":true}""#, &[]),
            (r#""{\"suggested_session_name\":\"a\",\"first_of_session\":true} x""#, &[]),
            (r#""[{\"suggested_session_name\":\"a\",\"first_of_session\":true}]""#, &[]),
            (r#"["{\"suggested_session_name\":\"a\",\"first_of_session\":true}"]"#, &[]),
            (r#"{"suggested_session_name":"a","first_of_session":true}"#, &[]),
            (r#""\u001b[31m{}""#, &[]),
            ("null", &[]),
        ] {
            assert_eq!(minted_by(answer), names.iter().map(|name| Key::of(name)).collect::<Vec<_>>(), "{answer}");
        }
    }
}
