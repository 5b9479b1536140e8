//! `throughline session-name`: what an agent calls to get its session's name, and who looks after it to see what became of it.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use serde::Serialize;
use throughline::Stores;
use throughline::receipts::SessionId;
use throughline::session_name::state::Error;
use throughline::session_name::{self, Status};
use throughline_parsers::claude::Verdict;

use super::USAGE;

const SCHEMA: &str = "throughline.session_name.v1";

/// Give a session a name that its agent has to show, and see whether it did
///
/// The first task of a session gives it a name, which the agent has to show once, as the block that its next visible reply
/// begins with. The hooks that throughline install --session-name registers look whether it did.
///
/// The answers are JSON (throughline.session_name.v1), one line.
#[derive(Debug, Args)]
#[command(arg_required_else_help = false)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    SetTask(SetTaskArguments),
    Retry(RetryArguments),
    Status(StatusArguments),
    Check(CheckArguments),
}

/// Tell what the session works on; its first task gives it a name
///
/// JSON: command, suggested_session_name, first_of_session, session_name_retry. A later task is stored, and says nothing of
/// the name: suggested_session_name is null and both flags are false, whether the name was shown or not.
#[derive(Debug, Args)]
struct SetTaskArguments {
    /// What it works on, in a few words
    #[arg(allow_hyphen_values = true)]
    task: String,
    /// What stands in front of the task in the name
    #[arg(long, default_value = "Session", value_parser = NonEmptyStringValueParser::new())]
    label: String,
    #[command(flatten)]
    session: SessionArgument,
}

/// Ask for the name anew, to show it from here on
///
/// JSON: as of set-task, with session_name_retry true while the name was not seen yet; else without a name.
#[derive(Debug, Args)]
struct RetryArguments {
    #[command(flatten)]
    session: SessionArgument,
}

/// Show how far the session is with its name
///
/// JSON: status (unminted: it has none yet; pending: it was not seen yet; shown), name.
#[derive(Debug, Args)]
struct StatusArguments {
    #[command(flatten)]
    session: SessionArgument,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Look whether a transcript shows a name where it has to
///
/// JSON: status (present; absent: the reply that was to show it can be read and does not; unavailable: that cannot be told),
/// reason (of unavailable: missing_transcript, no_mint, no_visible_reply, tool_before_reply, corrupt_row). Exit code 0 for
/// all three.
#[derive(Debug, Args)]
struct CheckArguments {
    /// A transcript of Claude Code
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    transcript: PathBuf,
    /// The name
    #[arg(long)]
    name: String,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct SessionArgument {
    /// The session's id [default: $CLAUDE_CODE_SESSION_ID, which Claude Code sets]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

/// The answer to an agent.
#[derive(Serialize)]
struct Suggestion {
    schema: &'static str,
    command: &'static str,
    suggested_session_name: Option<String>,
    first_of_session: bool,
    session_name_retry: bool,
}

#[derive(Serialize)]
struct StatusAnswer<'a> {
    schema: &'static str,
    status: &'static str,
    name: Option<&'a str>,
}

#[derive(Serialize)]
struct VerdictAnswer {
    schema: &'static str,
    status: &'static str,
    reason: Option<&'static str>,
}

/// Runs one of the four.
pub fn run(arguments: &Arguments) -> ExitCode {
    match &arguments.command {
        Command::SetTask(SetTaskArguments { task, label, session }) => with_session(session, |stores, session| {
            let name = session_name::set_task(stores, session, label, task)?;
            let is_first = name.is_some();
            Ok(suggestion("set-task", name, is_first, false))
        }),
        Command::Retry(RetryArguments { session }) => with_session(session, |stores, session| {
            let name = session_name::retry(stores, session)?;
            let is_retry = name.is_some();
            Ok(suggestion("retry", name, false, is_retry))
        }),
        Command::Status(StatusArguments { session, json }) => {
            with_session(session, |stores, session| Ok(of_status(&session_name::status(stores, session)?, *json)))
        }
        Command::Check(CheckArguments { transcript, name, json }) => {
            let cache = Stores::from_env().and_then(|stores| stores.cache);
            super::print(&of_verdict(session_name::verdict(transcript, name, cache.as_ref()), *json))
        }
    }
}

/// Answers about the session that is given, or that of the agent.
fn with_session(
    argument: &SessionArgument,
    answer: impl FnOnce(&Stores, &SessionId) -> Result<String, Error>,
) -> ExitCode {
    let id = argument.session.clone().or_else(|| env::var("CLAUDE_CODE_SESSION_ID").ok());
    let Some(session) = id.and_then(SessionId::new) else {
        super::complain(
            "throughline: which session? Give --session ID or set CLAUDE_CODE_SESSION_ID (see: throughline session-name --help)",
        );
        return ExitCode::from(USAGE);
    };
    let Some(stores) = Stores::from_env() else {
        super::complain("throughline: there is no home directory");
        return ExitCode::FAILURE;
    };
    match answer(&stores, &session) {
        Ok(answer) => super::print(&answer),
        Err(error) => {
            super::complain(&format!("throughline: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn suggestion(command: &'static str, name: Option<String>, is_first: bool, is_retry: bool) -> String {
    super::line(&Suggestion {
        schema: SCHEMA,
        command,
        suggested_session_name: name,
        first_of_session: is_first,
        session_name_retry: is_retry,
    })
}

fn of_status(status: &Status, json: bool) -> String {
    let (status, name) = match status {
        Status::Unminted => ("unminted", None),
        Status::Pending(name) => ("pending", Some(name.as_str())),
        Status::Shown(name) => ("shown", Some(name.as_str())),
    };
    if json { super::line(&StatusAnswer { schema: SCHEMA, status, name }) } else { text(status, name) }
}

fn of_verdict(verdict: Verdict, json: bool) -> String {
    let (status, reason) = match verdict {
        Verdict::Present => ("present", None),
        Verdict::Absent => ("absent", None),
        Verdict::Unavailable(reason) => ("unavailable", Some(reason.name())),
    };
    if json { super::line(&VerdictAnswer { schema: SCHEMA, status, reason }) } else { text(status, reason) }
}

/// The answer for a person.
fn text(status: &str, more: Option<&str>) -> String {
    more.map_or_else(|| format!("{status}\n"), |more| format!("{status}: {more}\n"))
}
