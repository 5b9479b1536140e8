//! The rows of a transcript as whole `serde_json` values, line by line; and what is asked of such values.

use std::sync::LazyLock;

use serde_json::{Map, Value};

/// A row.
pub type Object = Map<String, Value>;

/// How rows begin.
pub const PARENT: &str = "{\"parentUuid\":";
/// How others do.
pub const TYPE: &str = "{\"type\":";

/// The rows of a transcript in order, each with what `about` says of its line, which is told whether it has an LF; `None`
/// stands for something unreadable.
pub fn rows<T: Copy>(data: &[u8], about: impl Fn(&[u8], bool) -> T) -> Vec<(Option<Object>, T)> {
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let mut rows = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let is_ended = n + 1 < lines.len();
        let text = String::from_utf8_lossy(line);
        let text = if n == 0 { text.strip_prefix('\u{feff}').unwrap_or(&text) } else { &text };
        let about = about(line, is_ended);
        rows.extend(objects(text, is_ended).into_iter().map(|row| (row, about)));
    }
    rows
}

/// The rows of one line, which is given up at the eighth unreadable piece, and at the first where more may follow.
fn objects(line: &str, is_ended: bool) -> Vec<Option<Object>> {
    let mut found = Vec::new();
    let mut rest = line;
    let mut unreadable = 0;
    while unreadable < if is_ended { 8 } else { 1 } {
        let behind = rest.trim_start_matches([' ', '\t', '\r', '\0']);
        let is_hole = rest[..rest.len() - behind.len()].contains('\0');
        rest = behind;
        let Some(first) = rest.chars().next() else {
            found.extend((is_hole && is_ended).then_some(None));
            break;
        };
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        if let Some(Ok(value)) = values.next() {
            rest = &rest[values.byte_offset()..];
            found.extend(is_hole.then_some(None));
            if let Value::Object(object) = value
                && (unreadable == 0 || ["sessionId", "parentUuid", "uuid"].iter().all(|key| object.contains_key(*key)))
            {
                found.push(Some(object));
            }
            continue;
        }
        unreadable += 1;
        found.extend(is_ended.then_some(None));
        let behind = &rest[first.len_utf8()..];
        let Some(next) = [PARENT, TYPE].iter().filter_map(|start| behind.find(start)).min() else { break };
        rest = &behind[next..];
    }
    found
}

/// The object in a member, an empty one where there is none.
pub fn object_in<'o>(object: &'o Object, key: &str) -> &'o Object {
    static NOTHING: LazyLock<Object> = LazyLock::new(Object::new);
    object.get(key).and_then(Value::as_object).unwrap_or(&NOTHING)
}

/// The text in a member.
pub fn text_in<'o>(object: &'o Object, key: &str) -> Option<&'o str> {
    object.get(key).and_then(Value::as_str)
}

/// Whether a member is true.
pub fn is_true(object: &Object, key: &str) -> bool {
    object.get(key) == Some(&Value::Bool(true))
}

/// Whether a value says something.
pub fn is_truthy(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(value)) => *value,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(object)) => !object.is_empty(),
    }
}
