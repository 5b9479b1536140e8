//! Single rows, as Codex spells them.

use std::fmt;
use std::io::{self, Write};

use super::{Mix, Writer};
use crate::text::prose;
use crate::units::stamp;

impl<W: Write> Writer<'_, W> {
    pub(super) fn row(&mut self, kind: &str, payload: fmt::Arguments<'_>) -> io::Result<()> {
        self.state.now += self.random.magnitude(1, 2000) as i64;
        write!(self.out, r#"{{"timestamp":"{}","#, stamp(self.state.now))?;
        if self.paginated() {
            write!(self.out, r#""ordinal":{},"#, self.state.end.ordinal)?;
        }
        self.state.end.ordinal += 1;
        writeln!(self.out, r#""type":"{kind}","payload":{{{payload}}}}}"#)
    }

    pub(super) fn event(&mut self, kind: &str, rest: fmt::Arguments<'_>) -> io::Result<()> {
        self.row("event_msg", format_args!(r#""type":"{kind}"{rest}"#))
    }

    fn item(&mut self, kind: &str, rest: fmt::Arguments<'_>) -> io::Result<()> {
        if !self.paginated() {
            return self.row("response_item", format_args!(r#""type":"{kind}",{rest}"#));
        }
        let (id, turn) = (self.id(), self.turn_id());
        self.row(
            "response_item",
            format_args!(
                r#""type":"{kind}","id":"{id}",{rest},"internal_chat_message_metadata_passthrough":{{"turn_id":"{turn}"}}"#
            ),
        )
    }

    fn completed_item(&mut self, kind: &str, rest: fmt::Arguments<'_>) -> io::Result<()> {
        let (thread, turn, id, now) = (self.state.thread.clone(), self.turn_id(), self.id(), self.state.now);
        self.event(
            "item_completed",
            format_args!(
                r#","thread_id":"{thread}","turn_id":"{turn}","item":{{"type":"{kind}","id":"{id}",{rest}}},"started_at_ms":{now},"completed_at_ms":{now}"#
            ),
        )
    }

    /// The instructions in front of a thread's first prompt.
    pub(super) fn preamble(&mut self, size: u64) -> io::Result<()> {
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

    pub(super) fn turn_context(&mut self, size: u64) -> io::Result<()> {
        let (turn, cwd, pool) = (self.turn_id(), json(&self.shape.cwd), self.pool);
        let bytes = self.random.magnitude(200, (size / 4).clamp(200, 7_000));
        let instructions = pool.prose(self.random, bytes);
        self.row(
            "turn_context",
            format_args!(
                r#""turn_id":"{turn}","cwd":{cwd},"current_date":"2026-07-01","timezone":"Etc/UTC","approval_policy":"on-request","sandbox_policy":{{"type":"workspace-write","network_access":false}},"model":"gpt-5.5","collaboration_mode":{{"mode":"default","settings":{{"model":"gpt-5.5","developer_instructions":"{instructions}"}}}},"effort":"medium","summary":"auto""#
            ),
        )
    }

    pub(super) fn ask(&mut self) -> io::Result<String> {
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
            let pasted = self.shape.mix == Mix::Image && self.random.percent(30);
            let image = if pasted { format!("\"{PNG}{}\"", self.image()) } else { String::new() };
            self.event(
                "user_message",
                format_args!(r#","message":{spelled},"images":[{image}],"local_images":[],"text_elements":[]"#),
            )?;
        }
        Ok(text)
    }

    pub(super) fn reasoning(&mut self, bytes: u64) -> io::Result<()> {
        let thought = self.pool.base64(self.random, bytes);
        let content = if self.paginated() { "" } else { r#""content":null,"# };
        self.item("reasoning", format_args!(r#""summary":[],{content}"encrypted_content":"gAAAAAB{thought}""#))
    }

    pub(super) fn say(&mut self, bytes: u64, phase: &str) -> io::Result<String> {
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
    pub(super) fn command(&mut self, end: u64) -> io::Result<()> {
        let (turn, cwd, pool) = (self.turn_id(), json(&self.shape.cwd), self.pool);
        let call = self.random.bits();
        let bytes = self.random.magnitude(20, 1500);
        let command = prose(self.random, bytes);
        let arguments = json(&format!(r#"{{"cmd":{},"yield_time_ms":1000,"max_output_tokens":6000}}"#, json(&command)));
        self.item(
            "function_call",
            format_args!(r#""name":"exec_command","arguments":{arguments},"call_id":"call_{call:016x}""#),
        )?;
        if self.shape.mix == Mix::Image && self.random.percent(40) {
            let image = self.image();
            return self.item(
                "function_call_output",
                format_args!(
                    r#""call_id":"call_{call:016x}","output":[{{"type":"input_image","image_url":"{PNG}{image}"}}]"#
                ),
            );
        }
        let most = if self.shape.mix == Mix::Reasoning { 8_000 } else { 40_000 };
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

    pub(super) fn token_count(&mut self) -> io::Result<()> {
        let output = self.random.magnitude(20, 4000);
        self.state.tokens += output;
        let (total, used) = (self.state.tokens, self.state.tokens % 100);
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
    pub(super) fn compacted(&mut self) -> io::Result<()> {
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

    pub(super) fn complete(&mut self, turn: &str, started_at: i64, answer: &str) -> io::Result<()> {
        let answer = json(answer);
        let completed_at = self.state.now / 1000;
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

    fn id(&mut self) -> String {
        format!("it_{}", self.random.uuid(self.state.now))
    }
}

const PNG: &str = "data:image/png;base64,";

/// The first lines of escaped text, to the end of the one that reaches so many bytes.
fn lines_within(escaped: &str, bytes: usize) -> &str {
    let rest = escaped.as_bytes().get(bytes..).unwrap_or_default();
    memchr::memmem::find(rest, b"\\n").map_or(escaped, |at| &escaped[..bytes + at + 2])
}

/// The text as it stands in JSON.
pub(super) fn json(text: &str) -> String {
    serde_json::to_string(text).expect("every text has a JSON spelling")
}
