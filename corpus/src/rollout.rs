//! One rollout: rows spelled as Codex spells them, in its order and of its sizes.

use std::fmt;
use std::io::{self, Write};

use clap::ValueEnum;

use crate::random::Random;
use crate::text::{Pool, prose};
use crate::units::stamp;

/// What most of a rollout's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mix {
    /// Output of tools, of 100 bytes to 40 KiB.
    Tool,
    /// `compacted` rows of 1 to 4 MB.
    Compacted,
    /// Encrypted reasoning.
    Reasoning,
    /// Images as base64.
    Image,
}

impl Mix {
    /// The mean size of a turn.
    pub fn turn_bytes(self) -> u64 {
        match self {
            Mix::Tool | Mix::Reasoning => 256 << 10,
            Mix::Compacted | Mix::Image => 4 << 20,
        }
    }
}

/// How rows are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// Messages and ends of commands are events of their own.
    Legacy,
    /// Rows have an ordinal, messages and commands are completed items.
    Paginated,
}

/// What a rollout is to be.
pub struct Plan {
    /// The thread's working directory.
    pub cwd: String,
    /// The size, about: the rollout ends with the turn that comes near it.
    pub bytes: u64,
    /// What most of the bytes are.
    pub mix: Mix,
    /// How rows are laid out.
    pub layout: Layout,
    /// The mean size of a turn.
    pub turn_bytes: u64,
    /// When it begins, in milliseconds.
    pub start: i64,
    /// Whether another thread's agent started it.
    pub of_agent: bool,
}

/// What a rollout became.
pub struct Written {
    /// The id of the thread.
    pub thread: String,
    /// The size.
    pub bytes: u64,
    /// Its turns, the first one being number 1.
    pub turns: Vec<Turn>,
}

/// One turn, with its texts as they were said.
pub struct Turn {
    /// What the user said.
    pub user: String,
    /// What the assistant said, one message after the other.
    pub assistant: Vec<String>,
    /// When it completed, in milliseconds; `None` if it was aborted.
    pub completed_at: Option<i64>,
}

/// Writes a rollout.
pub fn write(plan: &Plan, pool: &Pool, random: &mut Random, out: impl Write) -> io::Result<Written> {
    let thread = random.uuid(plan.start);
    let mut writer = Writer {
        plan,
        pool,
        random,
        out: Counted { out, bytes: 0 },
        thread,
        turn: String::new(),
        now: plan.start,
        ordinal: 0,
        tokens: 20_000,
    };
    writer.session_meta()?;
    let mut turns = Vec::new();
    while turns.is_empty() || writer.left() > 0 {
        turns.push(writer.turn(turns.is_empty())?);
    }
    writer.out.flush()?;
    Ok(Written { thread: writer.thread, bytes: writer.out.bytes, turns })
}

struct Writer<'a, W> {
    plan: &'a Plan,
    pool: &'a Pool,
    random: &'a mut Random,
    out: Counted<W>,
    thread: String,
    /// The id of the turn that is open.
    turn: String,
    now: i64,
    ordinal: u64,
    tokens: u64,
}

impl<W: Write> Writer<'_, W> {
    fn row(&mut self, kind: &str, payload: fmt::Arguments<'_>) -> io::Result<()> {
        self.now += self.random.magnitude(1, 2000) as i64;
        write!(self.out, r#"{{"timestamp":"{}","#, stamp(self.now))?;
        if self.paginated() {
            write!(self.out, r#""ordinal":{},"#, self.ordinal)?;
        }
        self.ordinal += 1;
        writeln!(self.out, r#""type":"{kind}","payload":{{{payload}}}}}"#)
    }

    fn event(&mut self, kind: &str, rest: fmt::Arguments<'_>) -> io::Result<()> {
        self.row("event_msg", format_args!(r#""type":"{kind}"{rest}"#))
    }

    fn item(&mut self, kind: &str, rest: fmt::Arguments<'_>) -> io::Result<()> {
        if !self.paginated() {
            return self.row("response_item", format_args!(r#""type":"{kind}",{rest}"#));
        }
        let (id, turn) = (self.id(), self.turn.clone());
        self.row(
            "response_item",
            format_args!(
                r#""type":"{kind}","id":"{id}",{rest},"internal_chat_message_metadata_passthrough":{{"turn_id":"{turn}"}}"#
            ),
        )
    }

    fn completed_item(&mut self, kind: &str, rest: fmt::Arguments<'_>) -> io::Result<()> {
        let (thread, turn, id, now) = (self.thread.clone(), self.turn.clone(), self.id(), self.now);
        self.event(
            "item_completed",
            format_args!(
                r#","thread_id":"{thread}","turn_id":"{turn}","item":{{"type":"{kind}","id":"{id}",{rest}}},"started_at_ms":{now},"completed_at_ms":{now}"#
            ),
        )
    }

    fn session_meta(&mut self) -> io::Result<()> {
        let (thread, cwd, pool) = (self.thread.clone(), json(&self.plan.cwd), self.pool);
        let room = (self.plan.bytes / 2).clamp(500, 20_000);
        let bytes = self.random.magnitude(500, room);
        let instructions = pool.prose(self.random, bytes);
        let session = if self.paginated() { format!(r#""session_id":"{thread}","#) } else { String::new() };
        let history = if self.paginated() { r#","history_mode":"paginated""# } else { "" };
        let source = if self.plan.of_agent {
            let parent = self.random.uuid(self.plan.start - 1000);
            format!(
                r#"{{"subagent":{{"thread_spawn":{{"parent_thread_id":"{parent}","depth":1}}}}}},"thread_source":"subagent""#
            )
        } else {
            r#""cli","thread_source":"user""#.to_owned()
        };
        let at = stamp(self.now);
        self.row(
            "session_meta",
            format_args!(
                r#"{session}"id":"{thread}","timestamp":"{at}","cwd":{cwd},"originator":"codex-tui","cli_version":"0.150.0","source":{source},"model_provider":"openai","base_instructions":{{"text":"{instructions}"}}{history},"git":{{"commit_hash":"0123456789abcdef0123456789abcdef01234567","branch":"main"}}"#
            ),
        )
    }

    fn turn(&mut self, first: bool) -> io::Result<Turn> {
        let start = self.out.bytes;
        let size = self.random.between(self.plan.turn_bytes / 4, self.plan.turn_bytes * 7 / 4).min(self.left());
        let end = start + size;
        self.turn = self.random.uuid(self.now);
        let started_at = self.now / 1000;
        let turn = self.turn.clone();
        self.event(
            "task_started",
            format_args!(
                r#","turn_id":"{turn}","started_at":{started_at},"model_context_window":258400,"collaboration_mode_kind":"default""#
            ),
        )?;
        if first {
            self.preamble(size)?;
        }
        self.turn_context(size)?;
        let user = self.ask()?;
        let mut assistant = Vec::new();
        let aborted = !first && self.random.percent(2);
        while self.out.bytes < end {
            self.step(end, &mut assistant)?;
        }
        let completed_at = if aborted {
            self.event("turn_aborted", format_args!(r#","turn_id":"{turn}","reason":"interrupted""#))?;
            None
        } else {
            let bytes = self.random.magnitude(60, 3000);
            assistant.push(self.say(bytes, "final_answer")?);
            self.token_count()?;
            self.complete(started_at, assistant.last().map_or("", String::as_str))?;
            Some(self.now)
        };
        Ok(Turn { user, assistant, completed_at })
    }

    /// The instructions in front of a thread's first prompt.
    fn preamble(&mut self, size: u64) -> io::Result<()> {
        let pool = self.pool;
        let bytes = self.random.magnitude(300, (size / 4).clamp(300, 20_000));
        let developer = pool.prose(self.random, bytes);
        self.item(
            "message",
            format_args!(r#""role":"developer","content":[{{"type":"input_text","text":"{developer}"}}]"#),
        )?;
        let bytes = self.random.magnitude(300, (size / 4).clamp(300, 12_000));
        let project = pool.prose(self.random, bytes);
        self.item(
            "message",
            format_args!(
                r##""role":"user","content":[{{"type":"input_text","text":"# AGENTS.md instructions for project\n\n<INSTRUCTIONS>\n{project}</INSTRUCTIONS>"}}]"##
            ),
        )
    }

    fn turn_context(&mut self, size: u64) -> io::Result<()> {
        let (turn, cwd, pool) = (self.turn.clone(), json(&self.plan.cwd), self.pool);
        let bytes = self.random.magnitude(200, (size / 4).clamp(200, 7_000));
        let instructions = pool.prose(self.random, bytes);
        self.row(
            "turn_context",
            format_args!(
                r#""turn_id":"{turn}","cwd":{cwd},"current_date":"2026-07-01","timezone":"Etc/UTC","approval_policy":"on-request","sandbox_policy":{{"type":"workspace-write","network_access":false}},"model":"gpt-5.5","collaboration_mode":{{"mode":"default","settings":{{"model":"gpt-5.5","developer_instructions":"{instructions}"}}}},"effort":"medium","summary":"auto""#
            ),
        )
    }

    fn ask(&mut self) -> io::Result<String> {
        let bytes = self.random.magnitude(20, 1500);
        let text = prose(self.random, bytes);
        let spelled = json(&text);
        self.item("message", format_args!(r#""role":"user","content":[{{"type":"input_text","text":{spelled}}}]"#))?;
        if self.paginated() {
            self.completed_item(
                "UserMessage",
                format_args!(r#""content":[{{"type":"text","text":{spelled},"text_elements":[]}}]"#),
            )?;
        } else {
            let pasted = self.plan.mix == Mix::Image && self.random.percent(30);
            let image = if pasted { format!("\"{PNG}{}\"", self.image()) } else { String::new() };
            self.event(
                "user_message",
                format_args!(r#","message":{spelled},"images":[{image}],"local_images":[],"text_elements":[]"#),
            )?;
        }
        Ok(text)
    }

    /// One request to the model: what it thought, said and had done.
    fn step(&mut self, end: u64, assistant: &mut Vec<String>) -> io::Result<()> {
        let reasoning = match self.plan.mix {
            Mix::Reasoning => self.random.magnitude(4_000, 60_000),
            _ => self.random.magnitude(700, 7_000),
        };
        self.reasoning(self.within(reasoning, end))?;
        if self.random.percent(25) {
            let bytes = self.random.magnitude(30, 400);
            assistant.push(self.say(bytes, "commentary")?);
        }
        self.token_count()?;
        for _ in 0..self.random.between(1, 2) {
            self.command(end)?;
        }
        if self.plan.mix == Mix::Compacted && self.random.percent(40) && self.left() > 1 << 20 {
            self.compacted()?;
        }
        Ok(())
    }

    fn reasoning(&mut self, bytes: u64) -> io::Result<()> {
        let thought = self.pool.base64(self.random, bytes);
        let content = if self.paginated() { "" } else { r#""content":null,"# };
        self.item("reasoning", format_args!(r#""summary":[],{content}"encrypted_content":"gAAAAAB{thought}""#))
    }

    fn say(&mut self, bytes: u64, phase: &str) -> io::Result<String> {
        let text = prose(self.random, bytes);
        let spelled = json(&text);
        if self.paginated() {
            self.completed_item(
                "AgentMessage",
                format_args!(r#""content":[{{"type":"Text","text":{spelled}}}],"phase":"{phase}""#),
            )?;
        } else {
            self.event(
                "agent_message",
                format_args!(r#","message":{spelled},"phase":"{phase}","memory_citation":null"#),
            )?;
        }
        self.item(
            "message",
            format_args!(
                r#""role":"assistant","content":[{{"type":"output_text","text":{spelled}}}],"phase":"{phase}""#
            ),
        )?;
        Ok(text)
    }

    /// A tool call and its output; of a third of them the end is told in a row of its own.
    fn command(&mut self, end: u64) -> io::Result<()> {
        let (turn, cwd, pool) = (self.turn.clone(), json(&self.plan.cwd), self.pool);
        let call = self.random.next();
        let bytes = self.random.magnitude(20, 1500);
        let command = prose(self.random, bytes);
        let arguments = json(&format!(r#"{{"cmd":{},"yield_time_ms":1000,"max_output_tokens":6000}}"#, json(&command)));
        self.item(
            "function_call",
            format_args!(r#""name":"exec_command","arguments":{arguments},"call_id":"call_{call:016x}""#),
        )?;
        if self.plan.mix == Mix::Image && self.random.percent(40) {
            let image = self.image();
            return self.item(
                "function_call_output",
                format_args!(
                    r#""call_id":"call_{call:016x}","output":[{{"type":"input_image","image_url":"{PNG}{image}"}}]"#
                ),
            );
        }
        let most = if self.plan.mix == Mix::Reasoning { 8_000 } else { 40_000 };
        let bytes = self.random.magnitude(100, most);
        let output = pool.escaped(self.random, self.within(bytes, end));
        if self.random.percent(33) {
            let told = lines_within(output, 10_000);
            let command = json(&command);
            let tail = format_args!(
                r#""command":["/bin/bash","-lc",{command}],"cwd":{cwd},"parsed_cmd":[{{"type":"unknown","cmd":{command}}}],"source":"unified_exec_startup","stdout":"","stderr":"","aggregated_output":"{told}","exit_code":0,"duration":{{"secs":0,"nanos":8208}},"formatted_output":"","status":"completed""#
            );
            if self.paginated() {
                self.completed_item("CommandExecution", tail)?;
            } else {
                self.event(
                    "exec_command_end",
                    format_args!(r#","call_id":"call_{call:016x}","turn_id":"{turn}",{tail}"#),
                )?;
            }
        }
        self.item("function_call_output", format_args!(r#""call_id":"call_{call:016x}","output":"{output}""#))
    }

    fn token_count(&mut self) -> io::Result<()> {
        let output = self.random.magnitude(20, 4000);
        self.tokens += output;
        let (total, used) = (self.tokens, self.tokens % 100);
        let usage = format!(
            r#"{{"input_tokens":{total},"cached_input_tokens":{},"output_tokens":{output},"reasoning_output_tokens":0,"total_tokens":{}}}"#,
            total / 2,
            total + output
        );
        self.event(
            "token_count",
            format_args!(
                r#","info":{{"total_token_usage":{usage},"last_token_usage":{usage},"model_context_window":258400}},"rate_limits":{{"limit_id":"codex","limit_name":null,"primary":{{"used_percent":{used}.0,"window_minutes":300,"resets_at":1782910000}},"secondary":{{"used_percent":4.0,"window_minutes":10080,"resets_at":1783400000}},"credits":null,"plan_type":"pro","rate_limit_reached_type":null}}"#
            ),
        )
    }

    /// What a conversation was shortened to: 1 to 4 MB in one row.
    fn compacted(&mut self) -> io::Result<()> {
        let pool = self.pool;
        let size = self.random.between(1_000_000, 4_000_000);
        let mut history = String::with_capacity(size as usize + 100_000);
        while (history.len() as u64) < size * 9 / 10 {
            let role = self.random.pick(&["user", "user", "assistant"]);
            let bytes = self.random.magnitude(200, 60_000);
            let text = pool.escaped(self.random, bytes);
            history.push_str(&format!(
                r#"{{"type":"message","role":"{role}","content":[{{"type":"input_text","text":"{text}"}}]}},"#
            ));
        }
        let rest = pool.base64(self.random, size / 10);
        self.row(
            "compacted",
            format_args!(
                r#""message":"","replacement_history":[{history}{{"type":"compaction","encrypted_content":"gAAAAAB{rest}"}}]"#
            ),
        )?;
        self.event("context_compacted", format_args!(""))
    }

    fn complete(&mut self, started_at: i64, answer: &str) -> io::Result<()> {
        let (turn, answer) = (self.turn.clone(), json(answer));
        let completed_at = self.now / 1000;
        let duration = (completed_at - started_at) * 1000;
        self.event(
            "task_complete",
            format_args!(
                r#","turn_id":"{turn}","last_agent_message":{answer},"started_at":{started_at},"completed_at":{completed_at},"duration_ms":{duration},"time_to_first_token_ms":2423"#
            ),
        )
    }

    fn image(&mut self) -> String {
        let bytes = self.random.magnitude(60_000, 3_000_000);
        self.pool.base64(self.random, bytes).to_owned()
    }

    /// What is left of the rollout's size, but for the end of its last turn.
    fn left(&self) -> u64 {
        self.plan.bytes.saturating_sub(self.out.bytes + TURN_END_BYTES)
    }

    /// This size, or what is left of the turn.
    fn within(&self, bytes: u64, end: u64) -> u64 {
        bytes.min(end.saturating_sub(self.out.bytes))
    }

    fn id(&mut self) -> String {
        format!("it_{}", self.random.uuid(self.now))
    }

    fn paginated(&self) -> bool {
        self.plan.layout == Layout::Paginated
    }
}

/// The mean size of what stands in a turn behind its steps.
const TURN_END_BYTES: u64 = 4000;

const PNG: &str = "data:image/png;base64,";

struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The first lines of escaped text, to the end of the one that reaches so many bytes.
fn lines_within(escaped: &str, bytes: usize) -> &str {
    let rest = escaped.as_bytes().get(bytes..).unwrap_or_default();
    memchr::memmem::find(rest, b"\\n").map_or(escaped, |at| &escaped[..bytes + at + 2])
}

fn json(text: &str) -> String {
    serde_json::to_string(text).expect("every text has a JSON spelling")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::units::END;
    use serde_json::Value;
    use std::collections::BTreeMap;

    fn plan(mix: Mix, layout: Layout, bytes: u64) -> Plan {
        Plan {
            cwd: "/home/me/project".to_owned(),
            bytes,
            mix,
            layout,
            turn_bytes: mix.turn_bytes(),
            start: END,
            of_agent: false,
        }
    }

    fn made(plan: &Plan) -> (Written, Vec<u8>) {
        let mut random = Random::new(5);
        let pool = Pool::new(&mut random);
        let mut bytes = Vec::new();
        let written = write(plan, &pool, &mut random, &mut bytes).unwrap();
        (written, bytes)
    }

    /// Bytes by the type of their row.
    fn sizes(bytes: &[u8]) -> BTreeMap<String, usize> {
        let mut sizes = BTreeMap::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let row: Value = serde_json::from_slice(line).unwrap();
            let kind = match &row["payload"]["type"] {
                Value::String(kind) => format!("{}.{kind}", row["type"].as_str().unwrap()),
                _ => row["type"].as_str().unwrap().to_owned(),
            };
            *sizes.entry(kind).or_default() += line.len();
        }
        sizes
    }

    #[test]
    fn every_row_is_json_and_the_size_is_about_right() {
        for mix in [Mix::Tool, Mix::Compacted, Mix::Reasoning, Mix::Image] {
            for layout in [Layout::Legacy, Layout::Paginated] {
                let (written, bytes) = made(&plan(mix, layout, 20 << 20));
                assert_eq!(written.bytes, bytes.len() as u64);
                assert!((19 << 20..25 << 20).contains(&bytes.len()), "{mix:?} {}", bytes.len());
                assert!(bytes.starts_with(b"{\"timestamp\":\"2026-07-01T12:00:0"));
                assert!(sizes(&bytes).contains_key("session_meta"));
                assert!(written.turns.iter().filter(|turn| turn.completed_at.is_some()).count() > 3);
            }
        }
    }

    #[test]
    fn the_bytes_are_what_the_mix_says() {
        for (mix, kind, least) in [
            (Mix::Tool, "response_item.function_call_output", 0.4),
            (Mix::Compacted, "compacted", 0.9),
            (Mix::Reasoning, "response_item.reasoning", 0.6),
        ] {
            let (written, bytes) = made(&plan(mix, Layout::Legacy, 32 << 20));
            let share = sizes(&bytes)[kind] as f64 / written.bytes as f64;
            assert!(share >= least, "{mix:?}: {share}");
        }
    }

    #[test]
    fn a_small_rollout_is_small_and_has_a_turn() {
        for bytes in [0, 4_000, 30_000] {
            let (written, _) = made(&plan(Mix::Tool, Layout::Paginated, bytes));
            assert!(written.bytes < bytes + 12_000, "{bytes}: {}", written.bytes);
            assert!(written.turns[0].completed_at.is_some());
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_bytes() {
        let plan = plan(Mix::Tool, Layout::Legacy, 1 << 20);
        assert_eq!(made(&plan).1, made(&plan).1);
    }
}
