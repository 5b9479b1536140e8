//! JSON text as the logs hold it: read where it lies, never copied, never trusted.
//!
//! The writers of these logs are interrupted, spliced and migrated, so this reader accepts what a strict library
//! refuses in a row that is still of use (lone surrogates, bytes that are no UTF-8, numbers of any length, any depth)
//! and refuses what is no JSON (`NaN`, control characters in strings, trailing commas). One pass with a [`Reader`]
//! both checks a value and finds the few members that matter; what is skipped costs neither memory nor recursion.
//!
//! ```
//! use throughline_parsers::json::{document, Value};
//! let Ok(Value::Object(row)) = document(br#"{"type":"a","type":"b","n":3.0}"#) else { panic!("an object") };
//! let [kind, n] = row.fields(["type", "n"]);
//! assert_eq!(kind.and_then(Value::text).as_deref(), Some("b"), "of equal keys the last wins");
//! assert_eq!(n.and_then(Value::whole), Some(3));
//! ```

use std::borrow::Cow;

use memchr::memchr;
use smallvec::SmallVec;
use wide::u8x16;

use crate::text::{Folder, Sink};

/// The greatest whole number that every reader of JSON agrees on: 2^53 − 1.
pub const MAX_WHOLE: i64 = (1 << 53) - 1;

/// Here stands no JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bad;

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no JSON value")
    }
}

impl std::error::Error for Bad {}

/// A JSON value whose extent is known and whose text has been checked, still in its place.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, of any length.
    Number(Number<'a>),
    /// A string.
    String(Text<'a>),
    /// An array.
    Array(Array<'a>),
    /// An object.
    Object(Object<'a>),
}

impl<'a> Value<'a> {
    /// The decoded text of a string; `None` for any other value.
    pub fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Value::String(text) => Some(text.decode()),
            _ => None,
        }
    }

    /// The value of a whole number within ±(2^53 − 1), spelled in any way (`3`, `3.0`, `3e0`); `None` for anything else.
    pub fn whole(self) -> Option<i64> {
        match self {
            Value::Number(number) => number.whole(),
            _ => None,
        }
    }

    /// The object; `None` for any other value.
    pub fn object(self) -> Option<Object<'a>> {
        match self {
            Value::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The array; `None` for any other value.
    pub fn array(self) -> Option<Array<'a>> {
        match self {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The value in its own spelling, for telling two values apart.
    pub fn spelled(self) -> String {
        String::from_utf8_lossy(self.raw()).into_owned()
    }

    /// The bytes of its spelling; of a string those between its quotes.
    pub fn raw(self) -> &'a [u8] {
        match self {
            Value::Null => b"null",
            Value::Bool(true) => b"true",
            Value::Bool(false) => b"false",
            Value::Number(number) => number.0,
            Value::String(text) => text.raw,
            Value::Array(array) => array.0,
            Value::Object(object) => object.0,
        }
    }

    /// Whether the value says something: not `null`, not `false`, no zero, nothing empty.
    pub fn is_truthy(self) -> bool {
        match self {
            Value::Null => false,
            Value::Bool(value) => value,
            Value::Number(number) => number.whole() != Some(0),
            Value::String(text) => !text.raw.is_empty(),
            Value::Array(array) => array.items().next().is_some(),
            Value::Object(object) => object.members().next().is_some(),
        }
    }

    /// Whether a field with this value counts as set: anything but `null` and `""`.
    pub fn is_set(self) -> bool {
        match self {
            Value::Null => false,
            Value::String(text) => !text.raw.is_empty(),
            _ => true,
        }
    }
}

/// The text of a JSON string between its quotes, escapes not yet resolved.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> From<&'a str> for Text<'a> {
    /// A text without escapes.
    fn from(text: &'a str) -> Self {
        Self { raw: text.as_bytes(), escaped: false }
    }
}

impl<'a> Text<'a> {
    /// The text with its escapes resolved; U+FFFD for bytes that are no UTF-8 and for unpaired surrogates.
    pub fn decode(self) -> Cow<'a, str> {
        if !self.escaped {
            return lossy(self.raw);
        }
        let mut out = String::with_capacity(self.raw.len());
        self.decode_into(&mut out);
        Cow::Owned(out)
    }

    /// The decoded text [folded](crate::text::fold), in one go.
    pub fn decode_folded(self) -> String {
        let mut folder = Folder::with_capacity(self.raw.len());
        self.decode_into(&mut folder);
        folder.finish()
    }

    /// Gives the decoded text to `sink`, piece by piece.
    pub fn decode_into(self, sink: &mut impl Sink) {
        let text = lossy(self.raw);
        let mut rest = &*text;
        while self.escaped
            && let Some(plain) = memchr(b'\\', rest.as_bytes())
        {
            sink.push_str(&rest[..plain]);
            rest = unescape(&rest[plain..], sink);
        }
        sink.push_str(rest);
    }

    /// The text's bytes for comparing with ASCII names: undecoded where there is no escape.
    pub fn name(self) -> Cow<'a, [u8]> {
        if self.escaped { Cow::Owned(self.decode().into_owned().into_bytes()) } else { Cow::Borrowed(self.raw) }
    }
}

/// The text of bytes; well-formed ones, nearly all there are, are found to be so many at a time.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Resolves the escape at the start of `rest` and gives what follows it.
fn unescape<'a>(rest: &'a str, sink: &mut impl Sink) -> &'a str {
    let plain = match rest.as_bytes()[1] {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unescape_unit(rest, sink),
        other => char::from(other),
    };
    sink.push(plain);
    &rest[2..]
}

/// Resolves `\uXXXX`, together with the `\uXXXX` behind it where both are a surrogate pair.
fn unescape_unit<'a>(rest: &'a str, sink: &mut impl Sink) -> &'a str {
    let high = unit(rest.as_bytes()).unwrap_or(0xFFFD);
    let after = &rest[6..];
    let is_high = (0xD800..0xDC00).contains(&high);
    match unit(after.as_bytes()).filter(|low| is_high && (0xDC00..0xE000).contains(low)) {
        Some(low) => {
            let pair = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
            sink.push(char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER));
            &after[6..]
        }
        None => {
            sink.push(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
            after
        }
    }
}

/// The UTF-16 unit of a `\uXXXX` at the start of `text`.
fn unit(text: &[u8]) -> Option<u32> {
    let hex = text.strip_prefix(b"\\u")?.get(..4)?;
    hex.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

/// A JSON number in its own spelling.
#[derive(Debug, Clone, Copy)]
pub struct Number<'a>(&'a [u8]);

impl Number<'_> {
    /// The value if it is whole and within ±(2^53 − 1), spelled in any way (`3`, `3.0`, `3e0`).
    pub fn whole(self) -> Option<i64> {
        if self.is_integer() {
            return self.integer();
        }
        let value: f64 = self.spelling()?.parse().ok()?;
        // The cast is exact: the value is whole and within 2^53.
        (value.fract() == 0.0 && value.abs() <= MAX_WHOLE as f64).then_some(value as i64)
    }

    /// The value if it is spelled as an integer (no fraction, no exponent) and within ±(2^53 − 1).
    pub fn integer(self) -> Option<i64> {
        let value: i64 = self.spelling().filter(|_| self.is_integer())?.parse().ok()?;
        (value.abs() <= MAX_WHOLE).then_some(value)
    }

    fn is_integer(self) -> bool {
        self.0.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-')
    }

    fn spelling(&self) -> Option<&str> {
        std::str::from_utf8(self.0).ok()
    }
}

/// A JSON array in its place.
#[derive(Debug, Clone, Copy)]
pub struct Array<'a>(&'a [u8]);

impl<'a> Array<'a> {
    /// The elements, in order.
    pub fn items(self) -> impl Iterator<Item = Value<'a>> {
        let mut reader = Reader::new(self.0, 1);
        let mut first = true;
        std::iter::from_fn(move || {
            reader.blank();
            if !first && !reader.take(b',') {
                return None;
            }
            reader.blank();
            if first && reader.peek() == Some(b']') {
                return None;
            }
            first = false;
            reader.value().ok()
        })
    }

    /// Calls `item` with a reader at each element, which `item` must read or skip.
    ///
    /// # Errors
    /// As `item` says.
    pub fn read(self, item: impl FnMut(&mut Reader<'a>) -> Result<(), Bad>) -> Result<(), Bad> {
        Reader::new(self.0, 0).array(item).map(drop)
    }
}

/// A JSON object in its place.
#[derive(Debug, Clone, Copy)]
pub struct Object<'a>(&'a [u8]);

impl<'a> Object<'a> {
    /// The members in order, equal keys as often as they stand there.
    pub fn members(self) -> impl Iterator<Item = (Text<'a>, Value<'a>)> {
        let mut members = Vec::new();
        // The text was checked when the object was read, so nothing can be bad here.
        let _checked = Reader::new(self.0, 0).object(|key, reader| {
            members.push((key, reader.value()?));
            Ok(())
        });
        members.into_iter()
    }

    /// The values of the named members; of equal keys the last wins.
    pub fn fields<const N: usize>(self, names: [&str; N]) -> [Option<Value<'a>>; N] {
        let mut values = [None; N];
        // The text was checked when the object was read, so nothing can be bad here.
        let _checked = Reader::new(self.0, 0).object(|key, reader| {
            match names.iter().position(|name| *key.name() == *name.as_bytes()) {
                Some(n) => values[n] = Some(reader.value()?),
                None => reader.skip()?,
            }
            Ok(())
        });
        values
    }
}

/// The one value that is the whole text, with blanks around it.
///
/// # Errors
/// [`Bad`] when the text is not one JSON value.
pub fn document(text: &[u8]) -> Result<Value<'_>, Bad> {
    document_by(text, Reader::value)
}

/// The same, read in this way.
///
/// # Errors
/// [`Bad`] when something stands behind what was read, or as `read` says.
pub fn document_by<'a, T>(text: &'a [u8], read: impl FnOnce(&mut Reader<'a>) -> Result<T, Bad>) -> Result<T, Bad> {
    let mut reader = Reader::new(text, 0);
    reader.blank();
    let value = read(&mut reader)?;
    reader.blank();
    if reader.at == text.len() { Ok(value) } else { Err(Bad) }
}

/// Walks through JSON text once, checking what it passes.
#[derive(Debug)]
pub struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Begins at byte `at` of `text`.
    pub fn new(text: &'a [u8], at: usize) -> Self {
        Self { text, at }
    }

    /// The position of the next byte to be read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Reads the value that begins here.
    ///
    /// # Errors
    /// [`Bad`] when no value stands here.
    pub fn value(&mut self) -> Result<Value<'a>, Bad> {
        if self.peek() == Some(b'"') {
            return Ok(Value::String(self.string()?));
        }
        let from = self.at;
        self.skip()?;
        let text = &self.text[from..self.at];
        Ok(match text[0] {
            b'{' => Value::Object(Object(text)),
            b'[' => Value::Array(Array(text)),
            b'n' => Value::Null,
            b't' => Value::Bool(true),
            b'f' => Value::Bool(false),
            _ => Value::Number(Number(text)),
        })
    }

    /// Passes over the value that begins here, of any depth and size.
    ///
    /// # Errors
    /// [`Bad`] when no value stands here.
    pub fn skip(&mut self) -> Result<(), Bad> {
        let mut nest = Nest::default();
        loop {
            let entered = self.scalar_or_entry(&mut nest)?;
            if !entered && !self.go_on(&mut nest)? {
                return Ok(());
            }
        }
    }

    /// Reads the object that begins here, calling `member` for each key with the reader at its value, which `member`
    /// must read or skip. `Ok(false)` with nothing read when something else than an object stands here.
    ///
    /// # Errors
    /// [`Bad`] when the object is broken, or as `member` says.
    pub fn object(&mut self, mut member: impl FnMut(Text<'a>, &mut Self) -> Result<(), Bad>) -> Result<bool, Bad> {
        if self.peek() != Some(b'{') {
            return Ok(false);
        }
        self.at += 1;
        self.blank();
        if self.take(b'}') {
            return Ok(true);
        }
        loop {
            let key = self.key()?;
            member(key, self)?;
            self.blank();
            if self.take(b'}') {
                return Ok(true);
            }
            self.expect(b',')?;
            self.blank();
        }
    }

    /// Reads the array that begins here, calling `item` with the reader at each value, which `item` must read or skip.
    /// `Ok(false)` with nothing read when something else than an array stands here.
    ///
    /// # Errors
    /// [`Bad`] when the array is broken, or as `item` says.
    pub fn array(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), Bad>) -> Result<bool, Bad> {
        if self.peek() != Some(b'[') {
            return Ok(false);
        }
        self.at += 1;
        self.blank();
        if self.take(b']') {
            return Ok(true);
        }
        loop {
            item(self)?;
            self.blank();
            if self.take(b']') {
                return Ok(true);
            }
            self.expect(b',')?;
            self.blank();
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let here = self.peek() == Some(byte);
        self.at += usize::from(here);
        here
    }

    fn expect(&mut self, byte: u8) -> Result<(), Bad> {
        if self.take(byte) { Ok(()) } else { Err(Bad) }
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// A key with its colon; the reader then stands at the value.
    fn key(&mut self) -> Result<Text<'a>, Bad> {
        let key = self.string()?;
        self.blank();
        self.expect(b':')?;
        self.blank();
        Ok(key)
    }

    /// Passes a scalar or an empty container, or enters a container up to its first value (then the answer is true).
    fn scalar_or_entry(&mut self, nest: &mut Nest) -> Result<bool, Bad> {
        match self.peek().ok_or(Bad)? {
            b'"' => drop(self.string()?),
            b'{' => {
                self.at += 1;
                self.blank();
                if !self.take(b'}') {
                    self.key()?;
                    nest.push(true);
                    return Ok(true);
                }
            }
            b'[' => {
                self.at += 1;
                self.blank();
                if !self.take(b']') {
                    nest.push(false);
                    return Ok(true);
                }
            }
            b't' => self.literal(b"true")?,
            b'f' => self.literal(b"false")?,
            b'n' => self.literal(b"null")?,
            _ => self.number()?,
        }
        Ok(false)
    }

    /// Behind a value: closes what ends here and goes to the next value; false when the outermost value has ended.
    fn go_on(&mut self, nest: &mut Nest) -> Result<bool, Bad> {
        while let Some(in_object) = nest.top() {
            self.blank();
            if self.take(if in_object { b'}' } else { b']' }) {
                nest.pop();
                continue;
            }
            self.expect(b',')?;
            self.blank();
            if in_object {
                self.key()?;
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Bad> {
        if !self.text[self.at..].starts_with(word) {
            return Err(Bad);
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Bad> {
        self.take(b'-');
        if !self.take(b'0') {
            let whole = self.digits(self.at);
            if whole == 0 {
                return Err(Bad);
            }
            self.at += whole;
        }
        if self.peek() == Some(b'.') {
            let fraction = self.digits(self.at + 1);
            self.at += if fraction > 0 { 1 + fraction } else { 0 };
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.text.get(self.at + 1), Some(b'+' | b'-')));
            let exponent = self.digits(self.at + 1 + sign);
            self.at += if exponent > 0 { 1 + sign + exponent } else { 0 };
        }
        Ok(())
    }

    /// How many digits stand from `from` on.
    fn digits(&self, from: usize) -> usize {
        self.text.get(from..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    /// A string, checked: no control characters, only legal escapes.
    fn string(&mut self) -> Result<Text<'a>, Bad> {
        self.expect(b'"')?;
        let rest = &self.text[self.at..];
        let (mut len, mut escaped) = (0, false);
        loop {
            len += plain_len(&rest[len..]);
            match rest.get(len) {
                Some(b'"') => {
                    self.at += len + 1;
                    return Ok(Text { raw: &rest[..len], escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    len += escape_len(&rest[len..])?;
                }
                _ => return Err(Bad),
            }
        }
    }
}

/// The length of a legal escape.
fn escape_len(escape: &[u8]) -> Result<usize, Bad> {
    match escape.get(1) {
        Some(b'n' | b'"' | b'\\' | b'/' | b'b' | b'f' | b'r' | b't') => Ok(2),
        Some(b'u') => unit(escape).map(|_| 6).ok_or(Bad),
        _ => Err(Bad),
    }
}

/// How many bytes of a string stand before one that means something: a quote, a backslash, a control character.
#[inline]
pub(crate) fn plain_len(text: &[u8]) -> usize {
    let (chunks, rest) = text.as_chunks();
    for (n, chunk) in chunks.iter().enumerate() {
        let special = special(chunk);
        if special != 0 {
            return n * CHUNK + special.trailing_zeros() as usize;
        }
    }
    let at = rest.iter().position(|byte| is_special(*byte));
    text.len() - rest.len() + at.unwrap_or(rest.len())
}

/// So many bytes of a string are looked at together.
const CHUNK: usize = 16;

#[inline]
fn is_special(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// A bit for each byte that means something, the lowest for the first one.
#[inline]
fn special(chunk: &[u8; CHUNK]) -> u32 {
    let bytes = u8x16::new(*chunk);
    let [quotes, backslashes] = [b'"', b'\\'].map(|byte| bytes.simd_eq(u8x16::splat(byte)));
    let controls = bytes.simd_eq(bytes.min(u8x16::splat(0x1F)));
    (quotes | backslashes | controls).to_bitmask()
}

/// The containers around the present place, innermost last: a bit each, 512 of them without the heap.
#[derive(Default)]
struct Nest {
    objects: SmallVec<[u64; 8]>,
    depth: usize,
}

impl Nest {
    fn push(&mut self, object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.objects.len() {
            self.objects.push(0);
        }
        self.objects[word] = self.objects[word] & !(1 << bit) | u64::from(object) << bit;
        self.depth += 1;
    }

    fn top(&self) -> Option<bool> {
        let last = self.depth.checked_sub(1)?;
        Some(self.objects[last / 64] >> (last % 64) & 1 == 1)
    }

    fn pop(&mut self) {
        self.depth -= 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn text_of(json: &str) -> String {
        document(json.as_bytes()).unwrap().text().unwrap().into_owned()
    }

    #[test]
    fn strings_decode() {
        assert_eq!(text_of(r#""a\"\\\/\b\f\n\r\t\u00e9""#), "a\"\\/\u{8}\u{c}\n\r\té");
        assert_eq!(text_of(r#""\ud83d\ude80""#), "🚀");
    }

    #[test]
    fn plain_bytes_end_at_the_first_that_means_something() {
        for special in ["\"", "\\", "\n", "\0", "\u{1f}"] {
            for at in 0..20 {
                let text = format!("{}{special}\"\\\0é", "x €".repeat(8).chars().take(at).collect::<String>());
                assert_eq!(Some(plain_len(text.as_bytes())), text.find(special), "{text:?}");
            }
        }
        assert_eq!(plain_len("€ \u{7f} !#[]".as_bytes()), "€ \u{7f} !#[]".len());
    }

    #[test]
    fn lone_surrogates_and_bad_bytes_read_as_replacement() {
        assert_eq!(text_of(r#""\ud83d end""#), "\u{fffd} end");
        assert_eq!(text_of(r#""\ude00\ud83d""#), "\u{fffd}\u{fffd}");
        assert_eq!(text_of(r#""\ud83d\ud83d\ude80""#), "\u{fffd}🚀");
        assert_eq!(text_of(r#""\\ud83d""#), "\\ud83d");
        assert_eq!(document(b"\"cut \xe6\x87\"").unwrap().text().unwrap(), "cut \u{fffd}");
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for bad in [
            "",
            "{",
            "{\"a\":1,}",
            "[1,]",
            "NaN",
            "-Infinity",
            "-",
            "tru",
            "\"a",
            "\"\t\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "{\"a\" 1}",
            "{a:1}",
            "1 2",
            "{\"a\":01}",
            "[1.]",
            "[1e]",
            "]",
            "{]",
            "[}",
        ] {
            assert_eq!(document(bad.as_bytes()).err(), Some(Bad), "{bad}");
        }
    }

    #[test]
    fn whole_numbers_in_any_spelling() {
        let whole = |json: &str| document(json.as_bytes()).unwrap().whole();
        for (json, value) in [
            ("3", Some(3)),
            ("3.0", Some(3)),
            ("3e2", Some(300)),
            ("-0", Some(0)),
            ("-7", Some(-7)),
            ("3.5", None),
            ("1e400", None),
            ("9007199254740991", Some(MAX_WHOLE)),
            ("9007199254740992", None),
            ("99999999999999999999999", None),
            ("\"3\"", None),
        ] {
            assert_eq!(whole(json), value, "{json}");
        }
        let Value::Number(float) = document(b"3.0").unwrap() else { panic!("a number") };
        assert_eq!(float.integer(), None);
    }

    #[test]
    fn any_depth_is_skipped() {
        let deep =
            format!("{{\"x\":{}{},\"y\":1}}", "[{\"a\":".repeat(500_000), "[]".to_owned() + &"}]".repeat(500_000));
        let [y] = document(deep.as_bytes()).unwrap().object().unwrap().fields(["y"]);
        assert_eq!(y.unwrap().whole(), Some(1));
    }

    #[test]
    fn truth() {
        for falsy in ["null", "false", "0", "-0.0", "0e9", "\"\"", "[ ]", "{ }"] {
            assert!(!document(falsy.as_bytes()).unwrap().is_truthy(), "{falsy}");
        }
        for truthy in ["true", "1", "0.5", "1e400", "\"0\"", "[0]", "{\"\":0}"] {
            assert!(document(truthy.as_bytes()).unwrap().is_truthy(), "{truthy}");
        }
    }

    #[test]
    fn arrays_are_read_item_by_item() {
        for (text, items) in [("[]", Ok(Some(0))), ("[ 1 , [2] ]", Ok(Some(2))), ("{}", Ok(None)), ("[1,]", Err(Bad))] {
            let (mut reader, mut count) = (Reader::new(text.as_bytes(), 0), 0);
            let read = reader.array(|reader| {
                count += 1;
                reader.skip()
            });
            assert_eq!(read.map(|is_array| is_array.then_some(count)), items, "{text}");
        }
    }

    #[test]
    fn items_and_members() {
        let Value::Array(array) = document(b" [1, [], {\"a\": [2]} , \"x\"] ").unwrap() else { panic!("an array") };
        assert_eq!(array.items().count(), 4);
        let Value::Array(empty) = document(b"[ ]").unwrap() else { panic!("an array") };
        assert_eq!(empty.items().count(), 0);
        let object = document(br#"{"a":1,"\u0061":2}"#).unwrap().object().unwrap();
        assert_eq!(object.members().count(), 2);
        assert_eq!(object.fields(["a"])[0].unwrap().whole(), Some(2));
    }
}
