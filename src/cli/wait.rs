//! `throughline observer-wait`: the contract's own grammar, answers and errors; and what cancels it.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, getppid};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use throughline::events::Watching;
use throughline::observer::cancel::{Cancel, Over};
use throughline::observer::wait::{self, Request};
use throughline::{Kind, Mapping};

use super::fault::{self, Contract, Failure};
use super::observer::{READ, is_help, json, parse, parse_number, stores};

/// Wait until a project has other completed turns than a cursor says
///
/// Answers in one JSON line, exit code 0: `changed` with the cursor to the current end, at once when that is already another
/// one; `timeout`; `resync_required` and `ambiguous_parent` as observer-read does. It looks whenever the stores change, and
/// once a minute even so; where the system does not tell of changes, or THROUGHLINE_WATCH=poll is set, once a second. SIGINT,
/// SIGTERM and the death of the parent process cancel it: like other failures, one JSON line on stderr with exit code 1.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct WaitHelp {
    /// The project: an absolute path of an existing directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    project: OsString,
    /// What you have already: the throughCursor of an earlier answer
    #[arg(long, value_name = "CURSOR")]
    after_cursor: String,
    /// The most seconds to wait, 1 to 3600
    #[arg(long, value_name = "N", default_value = "3600")]
    timeout_seconds: String,
    /// Answer in JSON
    #[arg(long, required = true)]
    json: bool,
    /// Print this help; only as the one argument
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
}

// It never looks at the database.
const WAIT: Contract = Contract {
    schema: "throughline.observer_wait.v1",
    code: "E_OBSERVER_WAIT",
    args: "invalid observer-wait arguments",
    input: "observer wait input is invalid",
    cancelled: "observer wait was cancelled",
    internal: "observer wait failed",
    ..READ
};

/// How often the parent is looked at.
const LOOK_AT_PARENT: Duration = Duration::from_millis(500);
/// What is cancelled may go on for so long: as a rule it ends by itself in a few milliseconds, but for a look that takes long.
const PATIENCE: Duration = Duration::from_millis(500);

/// `observer-wait`
pub fn wait(arguments: &[OsString]) -> ExitCode {
    if is_help(arguments) {
        return super::print(&super::help_of("observer-wait"));
    }
    let parent = getppid();
    fault::answer(&WAIT, || {
        let begun = Instant::now();
        let [project, after, seconds] = parse(arguments, ["--project", "--after-cursor", "--timeout-seconds"])?;
        let after = after.ok_or(Failure::Args)?.to_string_lossy();
        let seconds = seconds.map_or(Ok(3600), |seconds| parse_number(seconds, 1..=3600))?;
        let request = Request {
            project: Path::new(project.ok_or(Failure::Args)?),
            after: &after,
            deadline: begun + Duration::from_secs(seconds),
            watching: Watching::from_env(),
        };
        let stores = stores()?;
        let cancel = cancel_at_an_end(parent).map_err(|_| Failure::Kind(Kind::Internal))?;
        json(&wait::wait(&stores, &request, &cancel, Mapping::LargeFiles)?)
    })
}

/// A token that SIGINT, SIGTERM and the death of the parent cancel, if that is not one which adopts any process.
fn cancel_at_an_end(parent: Option<Pid>) -> io::Result<Cancel> {
    let cancel = Cancel::new()?;
    for signal in [SIGINT, SIGTERM] {
        pipe::register(signal, cancel.writer()?)?;
    }
    let parent = parent.filter(|parent| *parent != Pid::INIT);
    let token = cancel.clone();
    thread::Builder::new().spawn(move || {
        while token.pause(None, Instant::now() + LOOK_AT_PARENT) != Over::Cancelled {
            if parent.is_some() && getppid() != parent {
                token.cancel();
            }
        }
        thread::sleep(PATIENCE);
        fault::end_now(&WAIT, Failure::Kind(Kind::Cancelled));
    })?;
    Ok(cancel)
}
