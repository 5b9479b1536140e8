//! `throughline observer-read` and `observer-threads`: the contract's own grammar, answers and errors.

use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use throughline::observer::read::{self, MOST_TURNS, Request};
use throughline::observer::threads;
use throughline::{Kind, Mapping, Stores};

use super::fault::{self, Contract, Failure};

/// Print the completed turns of a project as one JSON line
///
/// Without a cursor: the newest turns (status `snapshot`). With --after-cursor: what completed behind it. Known states,
/// `resync_required` and `projection_pending` among them, go to stdout with exit code 0; hard failures are one JSON line
/// on stderr with exit code 1. Each option may be given once, as `--option value`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct ReadHelp {
    /// The project: an absolute path of an existing directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    project: OsString,
    /// What you have already: the throughCursor of an earlier answer
    #[arg(long, value_name = "CURSOR")]
    after_cursor: Option<String>,
    /// Where the series of pages ends: a throughCursor; turns completed later are left for the next read
    #[arg(long, value_name = "CURSOR")]
    through_cursor: Option<String>,
    /// The next page: the nextToken of the page before; needs both cursors
    #[arg(long, value_name = "TOKEN")]
    page_token: Option<String>,
    /// The most turns of one answer, 1 to 100
    #[arg(long, value_name = "N", default_value = "10")]
    limit: String,
    /// Answer in JSON
    #[arg(long, required = true)]
    json: bool,
    /// Print this help; only as the one argument
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
}

/// Print every thread of a project with a cursor to its end, as one JSON line
///
/// The first thread is the current one. To follow several sessions at once without loss, read each thread from your own
/// cursor of it (at first `emptyCursor`) to its `throughCursor`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct ThreadsHelp {
    /// The project: an absolute path of an existing directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    project: OsString,
    /// Answer in JSON
    #[arg(long, required = true)]
    json: bool,
    /// Print this help; only as the one argument
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
}

pub const READ: Contract = Contract {
    schema: "throughline.observer_read.v1",
    code: "E_OBSERVER_READ",
    args: "invalid observer-read arguments",
    input: "observer read input is invalid",
    db_schema: "observer read database schema is unsupported",
    db_project: "observer read database project does not match",
    db_io: "observer read database could not be read",
    cancelled: "observer read was cancelled",
    internal: "observer read failed",
};

// It never looks at the database.
const THREADS: Contract = Contract {
    schema: "throughline.observer_threads.v1",
    code: "E_OBSERVER_THREADS",
    args: "invalid observer-threads arguments",
    input: "observer threads input is invalid",
    internal: "observer threads failed",
    ..READ
};

/// `observer-read`
pub fn read(arguments: &[OsString]) -> ExitCode {
    if is_help(arguments) {
        return super::print(&super::help_of("observer-read"));
    }
    let options = ["--project", "--after-cursor", "--through-cursor", "--page-token", "--limit"];
    fault::answer(&READ, || {
        let [project, after, through, page, limit] = parse(arguments, options)?;
        let [after, through, page] = [after, through, page].map(|token| token.map(|token| token.to_string_lossy()));
        let request = Request {
            project: Path::new(project.ok_or(Failure::Args)?),
            after: after.as_deref(),
            through: through.as_deref(),
            page: page.as_deref(),
            limit: limit.map_or(Ok(10), |limit| parse_number(limit, 1..=MOST_TURNS))?,
        };
        if request.page.is_some() && (request.after.is_none() || request.through.is_none()) {
            return Err(Failure::Args);
        }
        json(&read::read(&stores()?, &request, Mapping::LargeFiles)?)
    })
}

/// `observer-threads`
pub fn threads(arguments: &[OsString]) -> ExitCode {
    if is_help(arguments) {
        return super::print(&super::help_of("observer-threads"));
    }
    fault::answer(&THREADS, || {
        let [project] = parse(arguments, ["--project"])?;
        let project = Path::new(project.ok_or(Failure::Args)?);
        json(&threads::threads(&stores()?, project, Mapping::LargeFiles)?)
    })
}

pub fn is_help(arguments: &[OsString]) -> bool {
    matches!(arguments, [only] if only == "--help")
}

/// The values of the options, each at most once, none empty or like an option; `--json` has to be there.
pub fn parse<'a, const N: usize>(
    arguments: &'a [OsString],
    options: [&str; N],
) -> Result<[Option<&'a OsString>; N], Failure> {
    let (mut values, mut as_json) = ([None; N], false);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--json" && !as_json {
            as_json = true;
            continue;
        }
        let option = options.iter().position(|option| argument == option).ok_or(Failure::Args)?;
        let value = arguments.next().filter(|value| !value.is_empty() && !value.as_encoded_bytes().starts_with(b"-"));
        if values[option].replace(value.ok_or(Failure::Args)?).is_some() {
            return Err(Failure::Args);
        }
    }
    if as_json { Ok(values) } else { Err(Failure::Args) }
}

/// ASCII digits for a number in a range.
pub fn parse_number<N: FromStr + PartialOrd>(text: &OsStr, range: RangeInclusive<N>) -> Result<N, Failure> {
    let text = text.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = text.and_then(|text| text.parse().ok());
    number.filter(|number| range.contains(number)).ok_or(Failure::Args)
}

pub fn stores() -> Result<Stores, Failure> {
    Stores::from_env().ok_or(Failure::Kind(Kind::Internal))
}

pub fn json(answer: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(answer).map_err(|_| Failure::Kind(Kind::Internal))
}
