//! Edits of a JSON document that leave everything else in it byte for byte as it is.
//!
//! The document may have comments and trailing commas. An edit is a few cuts and insertions in its text, at places that a
//! parse of it tells: it is never written anew, so nobody's layout is lost. What is put in takes on the layout around it.

use std::ops::Range;

use jsonc_parser::ast::{Array, Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

/// An edit: what stands in these places is replaced by these texts.
pub type Edit = Vec<(Range<usize>, String)>;

/// Parses a document; `None` when there is nothing in it but space and comments.
///
/// # Errors
///
/// It is no JSON, even with comments and trailing commas. The text says where.
pub fn parse(text: &str) -> Result<Option<Value<'_>>, String> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_extended_string_escapes: false,
        allow_non_finite_numbers: false,
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options);
    parsed.map(|parsed| parsed.value).map_err(|error| error.to_string())
}

/// The text with an edit made.
pub fn edited(text: &str, mut edit: Edit) -> String {
    edit.sort_by_key(|(place, _)| (place.start, place.end));
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (place, new) in edit {
        out.push_str(&text[at..place.start]);
        out.push_str(&new);
        at = place.end;
    }
    out + &text[at..]
}

/// The member of this name; of several the last one, which is the one that counts.
pub fn member<'o, 'a>(object: &'o Object<'a>, name: &str) -> Option<&'o ObjectProp<'a>> {
    object.properties.iter().rev().find(|member| member.name.as_str() == name)
}

/// An object or an array: where it stands, and what is in it.
#[derive(Clone, Debug)]
pub struct Container {
    /// From its opening to behind its closing bracket.
    pub place: Range<usize>,
    /// Its members or elements, in order.
    pub items: Vec<Range<usize>>,
}

impl From<&Object<'_>> for Container {
    fn from(object: &Object<'_>) -> Self {
        Self { place: place(object), items: object.properties.iter().map(place).collect() }
    }
}

impl From<&Array<'_>> for Container {
    fn from(array: &Array<'_>) -> Self {
        Self { place: place(array), items: array.elements.iter().map(place).collect() }
    }
}

/// Where a part of the document stands.
pub fn place(part: &impl Ranged) -> Range<usize> {
    part.start()..part.end()
}

/// What is put into a container.
#[derive(Clone, Debug)]
pub enum Item<'v> {
    /// An element of an array.
    Element(&'v serde_json::Value),
    /// A member of an object.
    Member(&'v str, &'v serde_json::Value),
}

/// Puts an item behind the last one of a container.
pub fn append(text: &str, container: &Container, item: &Item<'_>) -> Edit {
    let Range { start, end } = container.place;
    let close = end - 1;
    // Behind the last item there may be comments; the new one comes behind those.
    let at = start + 1 + text[start + 1..close].trim_end().len();
    let last = container.items.last();
    let comma = last.map(|last| skip_trivia(text, last.end)).filter(|&next| text.as_bytes()[next] == b',');
    let newline = newline(text);
    let mut new = String::new();
    if is_multiline(text, container) {
        let indent = item_indent(text, container);
        new += &format!("{newline}{indent}{}", pretty(item, unit(text)).replace('\n', &format!("{newline}{indent}")));
        new += if comma.is_some() { "," } else { "" };
        if !text[at..close].contains('\n') && last.is_none() {
            new += &format!("{newline}{}", line_indent(text, start));
        }
    } else {
        let spaced = text[container.place.clone()].contains(' ');
        new += if last.is_some() && spaced { " " } else { "" };
        new += &compact(item);
        new += if comma.is_some() { "," } else { "" };
    }
    let mut edit = vec![(at..at, new)];
    if let (Some(last), None) = (last, comma) {
        edit.insert(0, (last.end..last.end, ",".to_owned()));
    }
    edit
}

/// Takes an item out of a container, with the comma that it needed.
pub fn remove(text: &str, container: &Container, number: usize) -> Edit {
    let item = container.items[number].clone();
    let close = container.place.end - 1;
    let next = skip_trivia(text, item.end);
    let comma = (text.as_bytes()[next] == b',').then_some(next..next + 1);
    let own_end = comma.as_ref().map_or(item.end, |comma| comma.end);
    let mut edit: Edit = Vec::new();
    if number + 1 < container.items.len() {
        // The next line, or the next item on this one, moves up into the place.
        let rest = &text[own_end..close];
        let blank = rest.len() - rest.trim_start().len();
        edit.push((item.start..item.end, String::new()));
        edit.push((item.end..own_end + blank, text[item.end..own_end].trim_end_matches(',').to_owned()));
        return edit;
    }
    let before = number.checked_sub(1).map(|number| &container.items[number]);
    let from = before.map_or(container.place.start + 1, |before| before.end);
    let gap = &text[from..item.start];
    let alone = before.is_none() && gap.trim().is_empty() && text[own_end..close].trim().is_empty();
    let line_ends = text[own_end..close].contains('\n');
    // A comment in front may reach to the end of its line: then that end has to stay.
    let start = if gap.contains("//") && !line_ends { item.start } else { from + gap.trim_end().len() };
    edit.push((start..item.end, String::new()));
    match (comma, before) {
        _ if alone => edit = vec![(from..close, String::new())],
        (Some(comma), _) => edit.push((comma, String::new())),
        (None, Some(before)) => {
            let comma = skip_trivia(text, before.end);
            edit.push((comma..comma + 1, String::new()));
        }
        (None, None) => {}
    }
    edit
}

/// Whether nothing but this item is in the container, no comment either.
pub fn is_alone(text: &str, container: &Container) -> bool {
    let [item] = &container.items[..] else { return false };
    let around = [&text[container.place.start + 1..item.start], &text[item.end..container.place.end - 1]];
    around.iter().all(|part| part.trim().trim_start_matches(',').is_empty())
}

/// A string as it is written in a document.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The place of the next byte that is neither space nor comment.
fn skip_trivia(text: &str, mut at: usize) -> usize {
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n')
        } else if rest.starts_with("/*") {
            rest.find("*/").map(|end| end + 2)
        } else {
            return at;
        };
        // In a document that was parsed every comment of a container ends.
        let Some(length) = length else { return text.len() };
        at += length;
    }
}

/// Whether the items of a container stand on lines of their own.
fn is_multiline(text: &str, container: &Container) -> bool {
    let Range { start, end } = container.place;
    match (container.items.first(), container.items.last()) {
        (Some(first), Some(last)) => text[start..first.start].contains('\n') || text[last.end..end].contains('\n'),
        // An empty one opens up, unless the document around it is one line.
        _ => text.trim().contains('\n') || text.trim() == &text[start..end],
    }
}

fn item_indent(text: &str, container: &Container) -> String {
    let first = container.items.first().map(|first| first.start);
    match first.filter(|&first| text[line_start(text, first)..first].trim().is_empty()) {
        Some(first) => line_indent(text, first).to_owned(),
        None => format!("{}{}", line_indent(text, container.place.start), unit(text)),
    }
}

/// The step by which the document is indented.
fn unit(text: &str) -> &str {
    let mut lines = text.lines().skip(1).map(|line| &line[..line.len() - line.trim_start().len()]);
    lines.find(|indent| !indent.is_empty()).unwrap_or("  ")
}

fn newline(text: &str) -> &'static str {
    if text.split_once('\n').is_some_and(|(first, _)| first.ends_with('\r')) { "\r\n" } else { "\n" }
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn line_indent(text: &str, at: usize) -> &str {
    let line = &text[line_start(text, at)..at];
    &line[..line.len() - line.trim_start().len()]
}

fn pretty(item: &Item<'_>, unit: &str) -> String {
    let write = |value: &serde_json::Value| {
        let mut out = Vec::new();
        let mut serializer = Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(unit.as_bytes()));
        value.serialize(&mut serializer).expect("a value can be written into memory");
        String::from_utf8(out).expect("JSON is text")
    };
    match item {
        Item::Element(value) => write(value),
        Item::Member(name, value) => format!("{}: {}", quoted(name), write(value)),
    }
}

fn compact(item: &Item<'_>) -> String {
    match item {
        Item::Element(value) => value.to_string(),
        Item::Member(name, value) => format!("{}:{value}", quoted(name)),
    }
}
