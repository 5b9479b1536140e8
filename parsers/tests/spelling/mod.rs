//! JSON in all its spellings, for random input.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;

/// Runs a property, as often as `PROPTEST_CASES` says or else `cases` times.
pub fn check<S: Strategy>(cases: u32, strategy: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(cases);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    if let Err(failure) = TestRunner::new(config).run(&strategy, property) {
        panic!("{failure}");
    }
}

/// A value that is still to be spelled.
#[derive(Clone, Debug)]
pub enum Json {
    /// As it stands.
    Raw(&'static str),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

/// A way to spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// As the hosts write it.
    Compact,
    Spaced,
    Escaped,
    Reversed,
    /// Every member stands there with another value first.
    Repeated,
    /// The first member of an object stands there once more, with another value.
    Overridden,
}

/// Mostly as the hosts do.
pub fn spelling() -> impl Strategy<Value = Spelling> {
    use Spelling::*;
    prop_oneof![6 => Just(Compact), 4 => select(vec![Spaced, Escaped, Reversed, Repeated]), 1 => Just(Overridden)]
}

impl Json {
    /// Spells it.
    pub fn spell(&self, spelling: Spelling, out: &mut Vec<u8>) {
        let blank: &[u8] = if spelling == Spelling::Spaced { b" \t\r" } else { b"" };
        match self {
            Self::Raw(raw) => out.extend(raw.as_bytes()),
            Self::Text(text) => spell_text(text, spelling, out),
            Self::Array(items) => {
                out.push(b'[');
                for (n, item) in items.iter().enumerate() {
                    out.extend(if n > 0 { b",".as_slice() } else { b"" });
                    out.extend(blank);
                    item.spell(spelling, out);
                    out.extend(blank);
                }
                out.push(b']');
            }
            Self::Object(members) => {
                let mut members: Vec<(&str, &Json)> = members.iter().map(|(key, value)| (*key, value)).collect();
                const OTHERS: [Json; 4] = [Json::Raw("null"), Json::Raw("{}"), Json::Raw("\"x\""), Json::Raw("2")];
                let others = members.iter().enumerate().map(|(n, (key, _))| (*key, &OTHERS[(n + key.len()) % 4]));
                let others: Vec<_> = others.collect();
                match spelling {
                    Spelling::Reversed => members.reverse(),
                    Spelling::Repeated => members.splice(0..0, others).for_each(drop),
                    Spelling::Overridden => members.extend(others.first()),
                    _ => {}
                }
                out.push(b'{');
                for (n, (key, value)) in members.into_iter().enumerate() {
                    out.extend(if n > 0 { b",".as_slice() } else { b"" });
                    out.extend(blank);
                    spell_text(key, spelling, out);
                    out.extend(blank);
                    out.push(b':');
                    out.extend(blank);
                    value.spell(spelling, out);
                    out.extend(blank);
                }
                out.push(b'}');
            }
        }
    }

    /// Its spelling.
    pub fn spelled(&self, spelling: Spelling) -> Vec<u8> {
        let mut out = Vec::new();
        self.spell(spelling, &mut out);
        out
    }
}

/// Stands for a byte that is no UTF-8, and for the start of a character that is not finished.
pub const NO_UTF8: [(char, &[u8]); 2] = [('\u{f8ff}', b"\xff"), ('\u{f8fe}', b"\xe2\x82")];

fn spell_text(text: &str, spelling: Spelling, out: &mut Vec<u8>) {
    out.push(b'"');
    for (n, c) in text.chars().enumerate() {
        let short = ['"', '\\', '\n', '\r', '\t', '\u{8}', '\u{c}'].iter().position(|short| *short == c);
        let odd = NO_UTF8.iter().find(|(sign, _)| *sign == c);
        if let Some((_, bytes)) = odd {
            out.extend(*bytes);
        } else if (c < ' ' && short.is_none()) || (spelling == Spelling::Escaped && n % 3 == 0) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let hex = format!("\\u{unit:04x}");
                out.extend(if n % 2 == 0 { hex } else { hex.to_uppercase().replace('U', "u") }.bytes());
            }
        } else if let Some(short) = short {
            out.extend([b'\\', b"\"\\nrtbf"[short]]);
        } else {
            out.extend(c.encode_utf8(&mut [0; 4]).bytes());
        }
    }
    out.push(b'"');
}

/// One of these, as they stand.
pub fn raw(values: &'static [&'static str]) -> impl Strategy<Value = Json> {
    select(values).prop_map(Json::Raw)
}

/// One of these texts.
pub fn texts(values: &'static [&'static str]) -> impl Strategy<Value = Json> {
    select(values).prop_map(|text| Json::Text(text.to_owned()))
}

/// The members that are there.
pub fn object(members: Vec<(&'static str, Option<Json>)>) -> Json {
    Json::Object(members.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}
