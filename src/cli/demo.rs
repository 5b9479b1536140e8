//! `throughline demo`: the real commands on a small store of its own.

use std::error::Error;
use std::fmt::Write as _;
use std::process::{Command, ExitCode};

use clap::Args;
use serde_json::Value;
use throughline::demo::{Demo, Layout};

/// Show the commands and their answers on a small store in a temporary directory
///
/// Nothing of yours is read or written. Answers are laid out for reading, with tokens and digests shortened; --raw prints
/// the lines as a program gets them.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Print commands and answers as they are
    #[arg(long)]
    raw: bool,
}

/// Tells the story.
pub fn run(arguments: &Arguments) -> ExitCode {
    match tell(arguments.raw) {
        Ok(text) => super::print(&text),
        Err(error) => {
            super::complain(&format!("throughline: the demo could not be shown: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn tell(raw: bool) -> Result<String, Box<dyn Error>> {
    let directory = tempfile::Builder::new().prefix("throughline-demo-").tempdir()?;
    let mut demo = Demo::new(directory.path())?;
    let mut show = Show { raw, out: String::new() };

    show.heading("A Codex session of two turns. Without a cursor the answer is a snapshot.");
    let mut first = demo.codex_session(Layout::Legacy)?;
    demo.codex_turn(&mut first, "Where is the parser?", "In parsers/src/codex.")?;
    demo.codex_turn(&mut first, "Is it tested?", "Yes: each module has its tests beside it.")?;
    demo.capture(&first)?;
    let snapshot = show.read(&demo, &[])?.through();

    show.heading("A turn completes. Behind the snapshot's throughCursor there is a delta of one turn.");
    demo.codex_turn(&mut first, "Add a test for CR.", "Added; a CR before the LF is blank.")?;
    demo.capture(&first)?;
    let delta = show.read(&demo, &["--after-cursor", &snapshot])?.through();

    show.heading(
        "Three more turns, read in pages of two: the second page is asked for with both cursors and the token.",
    );
    for n in 1..=3 {
        demo.codex_turn(&mut first, &format!("Step {n}?"), &format!("Step {n} is done."))?;
    }
    demo.capture(&first)?;
    let page = show.read(&demo, &["--after-cursor", &delta, "--limit", "2"])?;
    let (through, token) = (page.through(), page.text("/page/nextToken"));
    let next = ["--after-cursor", &delta, "--through-cursor", &through, "--page-token", &token, "--limit", "2"];
    show.read(&demo, &next)?;

    show.heading("A turn has completed, but its bodies are not captured yet. Read again a little later.");
    demo.codex_turn(&mut first, "Run the tests.", "All of them pass.")?;
    show.read(&demo, &["--after-cursor", &through])?;
    demo.capture(&first)?;
    let here = show.read(&demo, &["--after-cursor", &through])?.through();

    show.heading("Another Codex session, in the paginated layout, completes a turn: it is the current thread now.");
    let mut second = demo.codex_session(Layout::Paginated)?;
    demo.codex_turn(&mut second, "Review the change.", "It is small and right.")?;
    demo.capture(&second)?;
    show.read(&demo, &["--after-cursor", &here])?;

    show.heading("A Claude session completes a turn: the current thread is of the other host.");
    demo.claude_turn("claude-session", 1, "Write the changelog.", "Written, one line.")?;
    show.read(&demo, &["--after-cursor", &here])?;

    show.heading("All threads with a cursor to their ends: for an Observer that follows several sessions at once.");
    show.command(&demo, "observer-threads", &[])?;

    show.heading(
        "The person rolls the last prompt of the first session back: the cursor behind it does not hold any more.",
    );
    demo.codex_rollback(&mut first, 1)?;
    show.read(&demo, &["--after-cursor", &here])?;
    Ok(show.out)
}

struct Show {
    raw: bool,
    out: String,
}

/// An answer of a command.
struct Answer(Value);

impl Answer {
    fn text(&self, pointer: &str) -> String {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn through(&self) -> String {
        self.text("/throughCursor")
    }
}

impl Show {
    fn heading(&mut self, text: &str) {
        let gap = if self.out.is_empty() { "" } else { "\n" };
        self.add(&format!("{gap}# {text}\n"));
    }

    fn read(&mut self, demo: &Demo, options: &[&str]) -> Result<Answer, Box<dyn Error>> {
        self.command(demo, "observer-read", options)
    }

    /// Runs a command on the store of the demo and shows both sides.
    fn command(&mut self, demo: &Demo, name: &str, options: &[&str]) -> Result<Answer, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(name).arg("--project").arg(&demo.project).args(options).arg("--json");
        command.env_clear().env("HOME", &demo.stores.home);
        let ended = command.output()?;
        let line = String::from_utf8(ended.stdout)?;
        if !ended.status.success() {
            return Err(String::from_utf8(ended.stderr)?.trim_end().into());
        }
        let answer: Value = serde_json::from_str(&line)?;
        let shown = options.iter().map(|option| self.shortened(option)).collect::<Vec<_>>().join(" ");
        let gap = if shown.is_empty() { "" } else { " " };
        let text = if self.raw { line } else { laid_out(&answer) };
        self.add(&format!("$ throughline {name} --project {}{gap}{shown} --json\n{text}", demo.project.display()));
        Ok(Answer(answer))
    }

    fn shortened(&self, option: &str) -> String {
        if self.raw { option.to_owned() } else { shorten(option) }
    }

    fn add(&mut self, text: &str) {
        self.out.push_str(text);
    }
}

/// A token or digest as its first characters.
fn shorten(text: &str) -> String {
    let is_token = ["tlc1.", "tlp1."].iter().any(|prefix| text.starts_with(prefix));
    let is_digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match (is_token, is_digest) {
        (true, _) => format!("{}…{}", &text[..9], &text[text.len() - 4..]),
        (_, true) => format!("{}…", &text[..8]),
        _ => text.to_owned(),
    }
}

/// The answer with a line per member and per turn or thread.
fn laid_out(answer: &Value) -> String {
    let mut out = String::from("{\n");
    let members: Vec<_> = answer.as_object().into_iter().flatten().collect();
    for (n, (key, value)) in members.iter().enumerate() {
        let comma = if n + 1 < members.len() { "," } else { "" };
        match value {
            Value::Array(records) if !records.is_empty() => {
                let lines: Vec<_> = records.iter().map(|record| format!("    {}", short(record))).collect();
                // Writing into a string does not fail.
                let _written = writeln!(out, "  \"{key}\": [\n{}\n  ]{comma}", lines.join(",\n"));
            }
            value => {
                let _written = writeln!(out, "  \"{key}\": {}{comma}", short(value));
            }
        }
    }
    out + "}\n"
}

/// The value on one line, its long texts shortened.
fn short(value: &Value) -> String {
    fn shortened(value: &Value) -> Value {
        match value {
            Value::String(text) => shorten(text).into(),
            Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), shortened(value))).collect(),
            other => other.clone(),
        }
    }
    shortened(value).to_string()
}
