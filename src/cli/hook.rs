//! `throughline hook`: what the agents call at their events.
//!
//! An agent takes a hook's exit code 2 as a veto and its stdout as an answer, so neither happens here, whatever the
//! arguments are; and an agent that ends sends signals, while what it said last is still to be stored.

use std::ffi::OsString;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use clap::Args;
use throughline::hooks::{Failure, Payload, claude, codex};
use throughline::{Mapping, Stores};

/// Store what an agent said or did just now: its own hooks call this
///
/// Claude: throughline hook claude stop, with the event's payload on stdin: the turns that are complete go into the
/// database, and each gets a receipt.
///
/// Codex: throughline hook codex stop, user-prompt-submit or post-tool-use: the texts of the thread go into the database.
///
/// Exit code 0, and 1 with one line on stderr when nothing could be stored; the next hook makes that good. Nothing is
/// written to stdout. An event that is not known is no failure.
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
        ["codex", "stop" | "user-prompt-submit" | "post-tool-use"] => {
            with_payload(|stores, payload| codex::capture(stores, payload, Mapping::Never))
        }
        ["claude", "stop"] => with_payload(claude::stop),
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
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => failed(),
    }
}

fn failed() -> ExitCode {
    super::complain(FAILED);
    ExitCode::FAILURE
}

fn with_payload(hook: impl FnOnce(&Stores, &Payload) -> Result<(), Failure>) -> Result<(), Failure> {
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
