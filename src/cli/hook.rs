//! `throughline hook`: what the agents call at their events.
//!
//! An agent takes a hook's exit code 2 as a veto and its stdout as an answer. The one never happens here, whatever the
//! arguments are, and the other only where a session's name was not shown; and an agent that ends sends signals, while what
//! it said last is still to be stored.

use std::env;
use std::ffi::OsString;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use throughline::hooks::claude::session_name::{self, Told};
use throughline::hooks::{Failure, Payload, claude, codex};
use throughline::{Mapping, Stores};

/// Store what an agent said or did just now: its own hooks call this
///
/// Claude: throughline hook claude stop, with the event's payload on stdin: the turns that are complete go into the
/// database, and each gets a receipt.
///
/// Codex: throughline hook codex stop, user-prompt-submit or post-tool-use: the texts of the thread go into the database.
///
/// Claude, too, where throughline install --session-name was run: hook claude pre-tool-use, and stop --session-name. They
/// look whether the session has shown its name (see throughline session-name), and refuse the tool, or the end of the turn,
/// where a reply can be read that had to show it and does not.
///
/// Exit code 0, and 1 with one line on stderr when nothing could be stored; the next hook makes that good. Nothing else is
/// written to stdout than such a refusal. An event that is not known is no failure.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, verbatim_doc_comment)]
pub struct HookHelp {
    /// The agent: claude or codex
    host: String,
    /// Its event
    event: String,
}

/// What is said of every failure: anything more could hold a path, an id or a text.
const FAILED: &str = "throughline: the hook failed; the next one makes good what was missed";

/// Runs the hook that the arguments name.
pub fn run(arguments: &[OsString]) -> ExitCode {
    ignore_endings();
    // The text of a panic could hold anything.
    panic::set_hook(Box::new(|_| {}));
    panic::catch_unwind(AssertUnwindSafe(|| dispatch(arguments))).unwrap_or_else(|_| failed())
}

fn dispatch(arguments: &[OsString]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let done = match words[..] {
        ["--help"] => return super::print(&super::help_of("hook")),
        ["codex", "stop" | "user-prompt-submit" | "post-tool-use"] => with_payload(|stores, payload| {
            codex::capture(stores, payload, Mapping::Never)?;
            Ok(Told::default())
        }),
        ["claude", "stop"] => stop(false),
        ["claude", "stop", "--session-name"] => stop(true),
        ["claude", "pre-tool-use"] => Ok(pre_tool_use()),
        // Nothing is to be done at any other event of Claude's.
        ["claude", event] if !event.starts_with('-') => {
            return match Payload::read(io::stdin().lock()) {
                Ok(_) | Err(_) => ExitCode::SUCCESS,
            };
        }
        _ => {
            super::complain("throughline: this hook is not known (see: throughline hook --help)");
            return ExitCode::SUCCESS;
        }
    };
    match done {
        Ok(told) => tell(told),
        Err(_) => failed(),
    }
}

fn stop(may_refuse: bool) -> Result<Told, Failure> {
    with_payload(|stores, payload| {
        claude::stop(stores, payload)?;
        Ok(session_name::stop(stores, payload, &program(), may_refuse))
    })
}

/// It never fails: a host could take that for a veto.
fn pre_tool_use() -> Told {
    let payload = Payload::read(io::stdin().lock()).ok().flatten();
    let check = |stores: Stores| session_name::pre_tool_use(&stores, payload.as_ref(), &program());
    Stores::from_env().map(check).unwrap_or_default()
}

/// What the agent can call.
fn program() -> PathBuf {
    env::current_exe().unwrap_or_default()
}

fn tell(told: Told) -> ExitCode {
    if let Some(reason) = told.reason {
        super::complain(&format!("throughline: the session's name is not enforced: {reason}"));
    }
    if let Some(refusal) = told.refusal {
        // What cannot be said is not refused.
        let _printed = super::print(&(refusal + "\n"));
    }
    ExitCode::SUCCESS
}

fn failed() -> ExitCode {
    super::complain(FAILED);
    ExitCode::FAILURE
}

fn with_payload(hook: impl FnOnce(&Stores, &Payload) -> Result<Told, Failure>) -> Result<Told, Failure> {
    let payload = Payload::read(io::stdin().lock()).ok().flatten().ok_or(Failure::Payload)?;
    let stores = Stores::from_env().ok_or(Failure::Payload)?;
    hook(&stores, &payload)
}

/// An agent that ends tells its hooks to end, too. What it said last is still stored.
fn ignore_endings() {
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: to ignore a signal runs no code of ours when it comes, and any thread may ask for it.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
