//! The naive twin of the transcript reading: the same rules over whole `serde_json` values, with texts kept as texts,
//! everything read at once and nothing resumed. Texts and times are the package's own, which have twins of their own.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use throughline_parsers::text::is_space;
use throughline_parsers::time::parse_ms;

use crate::naive_rows::{Object, PARENT, TYPE, is_true, is_truthy, object_in, rows, text_in};

const REPORTS: &[&str] =
    &["<local-command-stdout>", "<local-command-stderr>", "<local-command-caveat>", "<bash-stdout>", "<bash-stderr>"];
const ERRORS: &[&str] = &["API Error", "You've hit your session limit", "You've reached your"];
const MACHINES: &[&str] = &["task-notification", "peer", "channel", "coordinator", "auto-continuation"];
const TERMINAL: &[&str] = &["end_turn", "stop_sequence", "max_tokens", "refusal"];

/// Whether the reader may pass over a line: it begins in Claude's own exact spelling with a type that does not matter, and
/// no other row starts in it.
pub fn is_passed_over(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    if !(line.starts_with(PARENT) || line.starts_with(TYPE)) || line[1..].contains(PARENT) {
        return false;
    }
    let mut rest = &line[1..];
    loop {
        let Some((key, value)) = rest.strip_prefix('"').and_then(|rest| rest.split_once("\":")) else { return false };
        if key == "type" {
            let Some((name, behind)) = value.strip_prefix('"').and_then(|rest| rest.split_once('"')) else {
                return false;
            };
            let is_name = !name.is_empty()
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_');
            return is_name && behind.starts_with([',', '}']) && !["user", "assistant", "attachment"].contains(&name);
        }
        let Some((value, behind)) = split_plain(value) else { return false };
        let is_known = key.chars().all(|c| c != '\\' && c != '"' && c >= ' ') && value;
        match behind.strip_prefix(',') {
            Some(next) if is_known => rest = next,
            _ => return false,
        }
    }
}

/// Whether a string without escapes, a word or a number stands here, and what stands behind it.
fn split_plain(value: &str) -> Option<(bool, &str)> {
    if let Some(text) = value.strip_prefix('"') {
        let (text, behind) = text.split_once('"')?;
        return Some((text.chars().all(|c| c != '\\' && c >= ' '), behind));
    }
    let (plain, behind) = value.split_at(value.find([',', '}', ']', '{', '['])?);
    let number = !plain.is_empty() && plain.chars().all(|c| c.is_ascii_digit());
    Some((number || ["true", "false", "null"].contains(&plain), behind))
}

/// A row of the agent with text: index, message, text, time.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its index among the text rows.
    pub index: i64,
    message: String,
    /// Its text.
    pub text: String,
    /// Its time.
    pub time: Option<i64>,
}

/// A turn.
#[derive(Debug, Default)]
pub struct Turn {
    session: Value,
    prompt: String,
    /// When the prompt was.
    pub asked_at: Option<i64>,
    asides: Vec<(i64, String)>,
    /// The agent's rows with text.
    pub replies: Vec<Reply>,
    last: Option<String>,
    tools: BTreeSet<String>,
    stops: BTreeMap<String, Value>,
    synthetic: BTreeSet<String>,
    /// The host could not go on.
    pub failed: bool,
    /// The user stopped it.
    pub aborted: bool,
}

impl Turn {
    /// Index, text and time of the answer among the replies behind text row `after`.
    pub fn answer(&self, after: i64) -> Option<(i64, String, Option<i64>)> {
        let rest: Vec<_> = self.replies.iter().filter(|reply| reply.index > after).collect();
        let last = rest.last()?;
        let texts = rest.iter().filter(|reply| reply.message == last.message).map(|reply| reply.text.as_str());
        Some((last.index, texts.collect(), last.time))
    }

    /// What the agent was asked.
    pub fn user(&self, after: i64) -> String {
        let mut texts: Vec<_> =
            self.asides.iter().filter(|aside| aside.0 >= after).map(|aside| aside.1.as_str()).collect();
        if after < 0 || texts.is_empty() {
            texts.insert(0, &self.prompt);
        }
        texts.join("\n\n")
    }

    /// The text of a reply's message up to that reply.
    pub fn whole(&self, reply: &Reply) -> String {
        let up_to = self.replies.iter().filter(|one| one.index <= reply.index && one.message == reply.message);
        up_to.map(|one| one.text.as_str()).collect()
    }

    /// Whether it has come to its end.
    pub fn ended(&self) -> bool {
        let Some(reply) = self.replies.last() else { return false };
        let stop = self.stops.get(&reply.message);
        self.last.as_ref() == Some(&reply.message)
            && !self.tools.contains(&reply.message)
            && stop.is_none_or(|stop| stop.as_str().is_some_and(|stop| TERMINAL.contains(&stop)))
    }

    fn was_over(&self) -> bool {
        let Some(last) = &self.last else { return false };
        let stop = self.stops.get(last).and_then(Value::as_str).unwrap_or_default();
        self.ended() && !self.synthetic.contains(last) && TERMINAL.contains(&stop)
    }

    /// Whether it has completed by itself.
    pub fn completed(&self) -> bool {
        !self.replies.is_empty() && !self.aborted && !self.failed && self.ended()
    }

    fn reply(&mut self, row: &Object, n: usize, index: i64, text: String, time: Option<i64>) {
        let message = object_in(row, "message");
        let is_synthetic = text_in(message, "model") == Some("<synthetic>");
        if is_synthetic && text == "No response requested." {
            return;
        }
        if is_true(row, "isApiErrorMessage") || (is_synthetic && ERRORS.iter().any(|error| text.starts_with(error))) {
            self.failed = true;
            return;
        }
        let id = text_in(message, "id").map_or(format!("\0row {n}"), str::to_owned);
        if let Some(stop) = message.get("stop_reason").filter(|stop| !stop.is_null()) {
            self.stops.insert(id.clone(), stop.clone());
        }
        if is_synthetic {
            self.synthetic.insert(id.clone());
        }
        let kinds: Vec<_> = blocks(row).into_iter().map(|(kind, _)| kind).collect();
        if kinds.iter().any(|kind| kind == "tool_use") {
            self.tools.insert(id.clone());
        }
        let is_blank = text.chars().all(is_space);
        if !is_blank || kinds.iter().any(|kind| !["thinking", "redacted_thinking", "text"].contains(&kind.as_str())) {
            self.last = Some(id.clone());
        }
        if !is_blank {
            self.failed = false;
            self.replies.push(Reply { index, message: id, text, time });
        }
    }
}

/// The turns of a transcript, read without the lines that `passed` tells.
pub fn turns(data: &[u8], passed: impl Fn(&[u8]) -> bool) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let (mut open, mut index, mut seen, mut clock) = (false, -1, BTreeSet::new(), None);
    // Of the lines that are not wanted only the times count.
    let is_passed = |line: &[u8], is_ended: bool| passed(line) && (!is_ended || line.ends_with(b"}"));
    for (n, (row, is_passed)) in rows(data, is_passed).iter().enumerate() {
        let Some(row) = row else { continue };
        clock = text_in(row, "timestamp").and_then(parse_ms).or(clock);
        let kind = text_in(row, "type").unwrap_or_default();
        if *is_passed || !["user", "assistant", "attachment"].contains(&kind) {
            continue;
        }
        let is_repeat = text_in(row, "uuid").is_some_and(|uuid| !seen.insert(uuid.to_owned()));
        if is_true(row, "isSidechain") {
            continue;
        }
        let session = row.get("sessionId").cloned().unwrap_or_default();
        let current = turns.last_mut().filter(|turn| open && turn.session == session);
        if kind == "attachment" {
            if let (Some(text), Some(turn), false) = (aside(object_in(row, "attachment")), current, is_repeat) {
                turn.asides.push((index, text));
            }
            continue;
        }
        let texts = blocks(row).into_iter().filter(|(kind, _)| kind == "text").filter_map(|(_, text)| text);
        let text: String = texts.collect();
        index += i64::from(!text.is_empty());
        let is_ignored = is_true(row, "isCompactSummary") || is_true(row, "isVisibleInTranscriptOnly");
        if is_repeat || is_ignored || is_truthy(row.get("teamName")) {
            continue;
        }
        let role = object_in(row, "message").get("role").filter(|role| is_truthy(Some(role)));
        let role = role.map_or(kind, |role| role.as_str().unwrap_or_default());
        let lead = text.trim_start_matches(is_space);
        if role == "assistant" {
            if let Some(turn) = current {
                turn.reply(row, n, index, text, clock);
            }
        } else if role == "user"
            && !lead.is_empty()
            && !REPORTS.iter().any(|report| lead.starts_with(report))
            && !is_reminders(lead)
        {
            if lead.starts_with("[Request interrupted by user") {
                if let Some(turn) = turns.last_mut().filter(|_| open) {
                    turn.aborted = !turn.was_over();
                }
                open = false;
                continue;
            }
            let origin = text_in(object_in(row, "origin"), "kind").unwrap_or_default();
            let acted_on = lead.starts_with("Stop hook feedback") || MACHINES.contains(&origin);
            if is_truthy(row.get("sourceToolUseID")) || (is_true(row, "isMeta") && !acted_on) {
                continue;
            }
            let prompt = command(lead).unwrap_or(text);
            turns.push(Turn { session, prompt, asked_at: clock, ..Turn::default() });
            open = true;
        }
    }
    turns
}

fn is_reminders(lead: &str) -> bool {
    let mut rest = lead.trim_matches(is_space);
    while !rest.is_empty() {
        let Some(inner) = rest.strip_prefix("<system-reminder>") else { return false };
        let Some((_, behind)) = inner.split_once("</system-reminder>") else { return false };
        rest = behind.trim_start_matches(is_space);
    }
    true
}

fn command(lead: &str) -> Option<String> {
    if !lead.starts_with("<command-name>") && !lead.starts_with("<command-message>") {
        return None;
    }
    let inner = |tag: &str| {
        let (_, behind) = lead.split_once(&format!("<{tag}>"))?;
        Some(behind.split_once(&format!("</{tag}>"))?.0.trim_matches(is_space))
    };
    let words = [inner("command-name")?, inner("command-args").unwrap_or_default()];
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn aside(attachment: &Object) -> Option<String> {
    let is = |key, name| text_in(attachment, key) == Some(name);
    let text = if is("type", "queued_command") {
        let of_a_person = match object_in(attachment, "origin").get("kind") {
            None => true,
            Some(kind) => kind == "human",
        };
        if !is("commandMode", "prompt") || !of_a_person || is_true(attachment, "isMeta") {
            return None;
        }
        texts_of(attachment.get("prompt")?)
    } else if is("type", "hook_additional_context") && is("hookEvent", "Stop") {
        texts_of(attachment.get("content")?)
    } else {
        return None;
    };
    Some(text).filter(|text| !text.is_empty())
}

fn texts_of(value: &Value) -> String {
    let text_of = |item: &Value| item.as_str().or(item.get("text").and_then(Value::as_str)).map(str::to_owned);
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().filter_map(text_of).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// The type and text of each block of a row's content.
fn blocks(row: &Object) -> Vec<(String, Option<String>)> {
    let block = |block: &Value| {
        let member = |key| block.get(key).and_then(Value::as_str).map(str::to_owned);
        (member("type").unwrap_or_default(), member("text"))
    };
    match object_in(row, "message").get("content") {
        Some(Value::String(text)) => vec![("text".to_owned(), Some(text.clone()))],
        Some(Value::Array(items)) => items.iter().map(block).collect(),
        _ => Vec::new(),
    }
}
