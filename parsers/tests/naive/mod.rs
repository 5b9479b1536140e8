//! The naive twin of the rollout reading: the same rules over whole `serde_json` values, with texts kept as texts,
//! everything read at once and nothing resumed. It favours obviousness over speed and shares no code with the reader.

use serde_json::{Map, Value};

/// A JSON object.
pub type Object = Map<String, Value>;

const ROW_START: &str = "{\"timestamp\":\"";
const MAX_WHOLE: i64 = 9_007_199_254_740_991;
const SPACE: &[char] = &[
    '\u{9}', '\u{a}', '\u{b}', '\u{c}', '\u{d}', '\u{20}', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}', '\u{2002}',
    '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}', '\u{200a}', '\u{2028}',
    '\u{2029}', '\u{202f}', '\u{205f}', '\u{3000}', '\u{feff}',
];

/// White space of the contract.
pub fn is_space(c: char) -> bool {
    SPACE.contains(&c)
}

/// Every run of white space is one space, both ends trimmed.
pub fn fold(text: &str) -> String {
    let mut out = String::new();
    let mut gap = false;
    for c in text.chars() {
        if is_space(c) {
            gap = true;
            continue;
        }
        if gap && !out.is_empty() {
            out.push(' ');
        }
        gap = false;
        out.push(c);
    }
    out
}

/// Every object of a rollout, in file order, of the lines that `keep` wants.
pub fn rows(data: &[u8], keep: impl Fn(&[u8]) -> bool) -> Vec<Object> {
    let data = data.strip_prefix("\u{feff}".as_bytes()).unwrap_or(data);
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let mut rows = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        // Of a last line without its line feed the whole objects at its start count.
        let pieces = if n == lines.len() - 1 { 1 } else { 8 };
        if keep(line) {
            rows.extend(objects(&String::from_utf8_lossy(line), pieces));
        }
    }
    rows
}

/// The objects of one line. After something unreadable the reading goes on at the next row start, and gives up at so
/// many unreadable pieces.
fn objects(line: &str, pieces: usize) -> Vec<Object> {
    let mut found = Vec::new();
    let mut rest = line;
    let mut unreadable = 0;
    while unreadable < pieces {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\0']);
        let Some(first) = rest.chars().next() else { break };
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        if let Some(Ok(value)) = values.next() {
            rest = &rest[values.byte_offset()..];
            if let Value::Object(object) = value {
                found.push(object);
            }
            continue;
        }
        unreadable += 1;
        let behind = &rest[first.len_utf8()..];
        let Some(next) = behind.find(ROW_START) else { break };
        rest = &behind[next..];
    }
    found
}

/// Whether the reader may pass over a line: it begins in Codex's own exact spelling with a type that does not matter,
/// and no other row starts in it.
pub fn is_passed_over(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    let Some(rest) = line.strip_prefix(ROW_START) else { return false };
    if rest.contains(ROW_START) || rest.len() < 24 || !rest.is_char_boundary(24) {
        return false;
    }
    let (time, rest) = rest.split_at(24);
    if !time.chars().all(|c| "0123456789-:.TZ".contains(c)) {
        return false;
    }
    let Some(mut rest) = rest.strip_prefix("\",") else { return false };
    if let Some(ordinal) = rest.strip_prefix("\"ordinal\":") {
        let Some((digits, behind)) = ordinal.split_once(',') else { return false };
        if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) {
            return false;
        }
        rest = behind;
    }
    let name = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let Some((kind, rest)) = rest.strip_prefix("\"type\":\"").and_then(|rest| rest.split_once('"')) else {
        return false;
    };
    if kind == "event_msg" {
        let event = rest.strip_prefix(",\"payload\":{\"type\":\"").and_then(|rest| rest.split_once('"'));
        return event.is_some_and(|(event, _)| !event.is_empty() && name(event) && !MATTERING.contains(&event));
    }
    !kind.is_empty() && name(kind) && kind != "session_meta"
}

const MATTERING: &[&str] = &[
    "task_started",
    "turn_started",
    "task_complete",
    "turn_complete",
    "turn_aborted",
    "thread_rolled_back",
    "user_message",
    "agent_message",
    "item_completed",
];

/// A message as it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// `user` or `assistant`.
    pub role: &'static str,
    /// Folded; empty for a prompt without words.
    pub text: String,
    item: bool,
}

/// A turn.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// Its ordinal among the started ones; `None` for what stands in front of the first prompt.
    pub number: Option<u64>,
    /// `turn_id`.
    pub id: Option<String>,
    /// What was said.
    pub said: Vec<Said>,
    /// When it completed.
    pub completed_at: Option<i64>,
    /// Its place among the completions.
    pub order: usize,
    closed: bool,
}

impl Turn {
    fn say(&mut self, said: Said) {
        let again = self
            .said
            .last()
            .is_some_and(|last| last.role == said.role && last.text == said.text && last.item != said.item);
        if !again {
            self.said.push(said);
        }
    }

    /// The joined texts of a role; `None` when it said nothing.
    pub fn text(&self, role: &str) -> Option<String> {
        let texts = self.said.iter().filter(|said| said.role == role && !said.text.is_empty());
        let texts: Vec<&str> = texts.map(|said| said.text.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// How many prompts it has.
    pub fn prompts(&self) -> usize {
        self.said.iter().filter(|said| said.role == "user").count()
    }

    /// Whether its id is a UUID of version 7 that is older than the thread, which is one too.
    pub fn is_older_than(&self, thread: &str) -> bool {
        let id = self.id.as_deref().unwrap_or_default();
        is_uuid_v7(id) && is_uuid_v7(thread) && id < thread
    }
}

fn is_uuid_v7(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    lengths == [8, 4, 4, 4, 12]
        && groups.concat().chars().all(|c| "0123456789abcdef".contains(c))
        && groups[2].starts_with('7')
}

/// The turns that stand after these rows.
pub fn turns(rows: &[Object]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut open: Option<usize> = None;
    let mut waiting = Turn::default();
    let (mut started, mut finished) = (0, 0);
    for row in rows {
        if text_of(row, "type") != Some("event_msg") {
            continue;
        }
        let nothing = Object::new();
        let payload = row.get("payload").and_then(Value::as_object).unwrap_or(&nothing);
        let turn_id = text_of(payload, "turn_id");
        match text_of(payload, "type").unwrap_or_default() {
            "task_started" | "turn_started" => {
                started += 1;
                let said = std::mem::take(&mut waiting).said;
                let lead = said.iter().position(|said| said.role == "user").unwrap_or(said.len());
                let (lead, said) = said.split_at(lead);
                if !lead.is_empty() {
                    turns.push(Turn { said: lead.to_vec(), ..Turn::default() });
                }
                open = Some(turns.len());
                let (number, id) = (Some(started), turn_id.map(str::to_owned));
                turns.push(Turn { number, id, said: said.to_vec(), ..Turn::default() });
            }
            kind @ ("task_complete" | "turn_complete" | "turn_aborted") => {
                let Some(index) = named(&turns, open, turn_id) else { continue };
                if open == Some(index) {
                    open = None;
                }
                let turn = &mut turns[index];
                if turn.closed {
                    continue;
                }
                turn.closed = true;
                if kind == "turn_aborted" || payload.get("error").is_some_and(Value::is_object) {
                    continue;
                }
                finished += 1;
                turn.order = finished;
                let stated = payload.get("completed_at").and_then(whole);
                let stated = stated.filter(|seconds| (0..=MAX_WHOLE / 1000).contains(seconds));
                turn.completed_at =
                    text_of(row, "timestamp").and_then(parse_ms).or(stated.map(|seconds| seconds * 1000));
                let last = fold(text_of(payload, "last_agent_message").unwrap_or_default());
                if turn.text("assistant").is_none() && !last.is_empty() {
                    turn.said.push(Said { role: "assistant", text: last, item: false });
                }
            }
            "thread_rolled_back" => {
                let prompts = payload.get("num_turns").and_then(whole).filter(|n| *n > 0).unwrap_or(0);
                let mut left = prompts - std::mem::take(&mut waiting).prompts() as i64;
                while left > 0 {
                    let Some(gone) = turns.pop() else { break };
                    left -= gone.prompts() as i64;
                }
                open = open.filter(|open| *open < turns.len());
            }
            kind => {
                let Some(said) = said_by(kind, payload) else { continue };
                let mut to = open;
                if kind == "item_completed" && turn_id.is_some() {
                    to = named(&turns, open, turn_id);
                    if to.is_none() && !turns.is_empty() {
                        continue;
                    }
                }
                match to {
                    None => waiting.say(said),
                    Some(to) if !turns[to].closed => turns[to].say(said),
                    Some(_) => {}
                }
            }
        }
    }
    turns
}

/// The turn that an event is about.
fn named(turns: &[Turn], open: Option<usize>, id: Option<&str>) -> Option<usize> {
    if id.is_none() {
        return open;
    }
    if open.is_some_and(|open| turns[open].id.as_deref() == id) {
        return open;
    }
    let latest = turns.iter().rposition(|turn| turn.id.as_deref() == id);
    latest.or(open.filter(|open| turns[*open].id.is_none()))
}

fn said_by(kind: &str, payload: &Object) -> Option<Said> {
    let message = text_of(payload, "message").unwrap_or_default();
    match kind {
        "user_message" => user(message, false),
        "agent_message" => assistant(message, false),
        "item_completed" => {
            let item = payload.get("item")?.as_object()?;
            let parts = item.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
            let texts: Vec<&str> = parts.iter().filter_map(|part| text_of(part.as_object()?, "text")).collect();
            match text_of(item, "type")? {
                "UserMessage" => user(&texts.concat(), true),
                "AgentMessage" => assistant(&texts.concat(), true),
                "Plan" => assistant(text_of(item, "text").unwrap_or_default(), true),
                _ => None,
            }
        }
        _ => None,
    }
}

fn user(text: &str, item: bool) -> Option<Said> {
    let text = fold(text);
    let injected = text.starts_with("# AGENTS.md instructions") || text.starts_with("<hook_prompt");
    (!injected).then_some(Said { role: "user", text, item })
}

fn assistant(text: &str, item: bool) -> Option<Said> {
    let text = fold(text);
    (!text.is_empty()).then_some(Said { role: "assistant", text, item })
}

/// The text of a member that is a string.
pub fn text_of<'o>(object: &'o Object, key: &str) -> Option<&'o str> {
    object.get(key).and_then(Value::as_str)
}

/// The value of a whole number within ±(2^53 − 1).
pub fn whole(value: &Value) -> Option<i64> {
    let number = value.as_number()?;
    if number.is_f64() {
        let value = number.as_f64()?;
        return (value.trunc() == value && value.abs() <= MAX_WHOLE as f64).then_some(value as i64);
    }
    number.as_i64().filter(|value| (-MAX_WHOLE..=MAX_WHOLE).contains(value))
}

/// Milliseconds since the epoch of an RFC 3339 time, counted day by day.
pub fn parse_ms(text: &str) -> Option<i64> {
    let digits = |from: usize, len: usize| -> Option<i64> {
        let digits = text.get(from..from + len)?;
        digits.chars().all(|c| c.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let shaped = text.get(4..5)? == "-"
        && text.get(7..8)? == "-"
        && text.get(10..11)?.eq_ignore_ascii_case("t")
        && text.get(13..14)? == ":"
        && text.get(16..17)? == ":";
    let [year, month, day] = [digits(0, 4)?, digits(5, 2)?, digits(8, 2)?];
    let [hour, minute, second] = [digits(11, 2)?, digits(14, 2)?, digits(17, 2)?];
    let mut zone = text.get(19..)?;
    let mut millis = 0;
    if let Some(fraction) = zone.strip_prefix('.') {
        zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        let fraction = &fraction[..fraction.len() - zone.len()];
        if fraction.is_empty() {
            return None;
        }
        millis = format!("{fraction}000")[..3].parse().ok()?;
    }
    let offset = if zone.eq_ignore_ascii_case("z") {
        0
    } else {
        let at = text.len() - zone.len();
        let [hours, minutes] = [digits(at + 1, 2)?, digits(at + 4, 2)?];
        if zone.len() != 6 || zone.get(3..4)? != ":" || hours > 23 || minutes > 59 {
            return None;
        }
        match zone.get(..1)? {
            "+" => hours * 60 + minutes,
            "-" => -(hours * 60 + minutes),
            _ => return None,
        }
    };
    let real = year > 0 && (1..=12).contains(&month) && day > 0 && day <= days_of(year, month);
    if !shaped || !real || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days_before(year, month) + day - 1;
    let ms = (((days * 24 + hour) * 60 + minute - offset) * 60 + second) * 1000 + millis;
    (ms >= 0).then_some(ms)
}

/// Days from the epoch to the first of a month.
pub fn days_before(year: i64, month: i64) -> i64 {
    let days_of_year = |year| (1..=12).map(|month| days_of(year, month)).sum::<i64>();
    let years: i64 = (1970..year).map(days_of_year).sum::<i64>() - (year..1970).map(days_of_year).sum::<i64>();
    years + (1..month).map(|month| days_of(year, month)).sum::<i64>()
}

/// How many days a month has.
pub fn days_of(year: i64, month: i64) -> i64 {
    let leap = if year % 100 == 0 { year % 400 == 0 } else { year % 4 == 0 };
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
