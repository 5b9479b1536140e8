//! The naive twin of the ordered scan for a session's name: one name, one pass over whole `serde_json` values.

use std::collections::BTreeSet;

use serde_json::Value;
use throughline_parsers::text::is_space;

use crate::naive_rows::{Object, is_true, is_truthy, object_in, rows, text_in};

/// Status and reason of a name, by the rows of a transcript.
pub fn check(data: &[u8], name: &str) -> (&'static str, Option<&'static str>) {
    let (mut opened, mut closed, mut spoiled, mut seen) = (false, false, None, BTreeSet::new());
    for (row, ()) in rows(data, |_, _| ()) {
        let Some(row) = row else {
            spoiled = spoiled.or(Some("corrupt_row")).filter(|_| opened);
            continue;
        };
        let kind = text_in(&row, "type").unwrap_or_default();
        let is_row = ["user", "assistant", "attachment"].contains(&kind);
        if is_row && text_in(&row, "uuid").is_some_and(|uuid| !seen.insert(uuid.to_owned())) {
            continue;
        }
        if is_true(&row, "isSidechain") || is_true(&row, "isVisibleInTranscriptOnly") || is_truthy(row.get("teamName"))
        {
            continue;
        }
        if kind == "user" && mints(&row, name) {
            (opened, closed, spoiled) = (true, false, None);
            continue;
        }
        let is_reply = kind == "assistant"
            && !is_true(&row, "isApiErrorMessage")
            && text_in(object_in(&row, "message"), "model") != Some("<synthetic>");
        if !opened || closed || !is_reply {
            continue;
        }
        let mut text = String::new();
        for block in content(&row) {
            match block.get("type").and_then(Value::as_str) {
                Some("text") => text += block.get("text").and_then(Value::as_str).unwrap_or_default(),
                Some("tool_use") if text.chars().all(is_space) => spoiled = spoiled.or(Some("tool_before_reply")),
                _ => {}
            }
        }
        if text.chars().all(is_space) {
            continue;
        }
        if shows(&text, name) {
            return ("present", None);
        }
        closed = spoiled.is_none();
    }
    match (closed, spoiled) {
        (true, None) => ("absent", None),
        (_, Some(reason)) => ("unavailable", Some(reason)),
        (false, None) => ("unavailable", Some(if opened { "no_visible_reply" } else { "no_mint" })),
    }
}

/// The blocks of a message; a string is one.
fn content(row: &Object) -> Vec<Value> {
    match object_in(row, "message").get("content") {
        Some(Value::String(text)) => vec![serde_json::json!({"type": "text", "text": text})],
        Some(Value::Array(blocks)) => blocks.clone(),
        _ => Vec::new(),
    }
}

fn mints(row: &Object, name: &str) -> bool {
    let results = content(row).into_iter().filter(|block| block.get("type") == Some(&"tool_result".into()));
    let texts = results.map(|block| match block.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    });
    let gives = |piece: &str| {
        let Ok(Value::Object(object)) = serde_json::from_str(piece) else { return false };
        text_in(&object, "suggested_session_name") == Some(name)
            && (is_true(&object, "first_of_session") || is_true(&object, "session_name_retry"))
    };
    texts.into_iter().any(|text| gives(&text) || text.split('\n').any(gives))
}

fn shows(text: &str, name: &str) -> bool {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = text.trim_start_matches(is_space).split('\n').collect();
    let [opening, line, closing, ..] = lines[..] else { return false };
    let ticks = opening.chars().take_while(|c| *c == '`').count();
    let word = opening[ticks..].trim_matches([' ', '\t']);
    ticks >= 3
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "_.+#-".contains(c))
        && line == name
        && closing.trim_end_matches([' ', '\t']) == "`".repeat(ticks)
}
