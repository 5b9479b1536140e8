//! `throughline audit`: what there is of all projects at once.

mod table;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use serde_json::json;
use throughline::Stores;
use throughline::audit::{self, Audited, Progress, Report, Request, html};
use throughline::private_file;
use throughline_parsers::time::parse_ms;

use super::progress;

/// Show what all projects come to: what completed, what is stuck, what cannot be read
///
/// Reads the logs of Codex ($CODEX_HOME, ~/.codex) and Claude Code ($CLAUDE_CONFIG_DIR, ~/.claude), the receipts and the
/// database, and writes nothing to them. A project is the nearest folder with a .git above the directory in which a thread
/// works, or that directory. What could not be read is named, and the rest is reported all the same: exit code 0 when
/// everything was read, else 1. Ctrl-C ends it with what was read until then, marked as not complete.
///
/// JSON (throughline.audit.v1): see schemas/audit.schema.json. With ndjson each project is a line, so is each thing that
/// could not be read, and the last line has the totals. HTML is one file that needs no network.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Only the project in this directory, and those below it; may be given several times
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with = "all")]
    project: Vec<PathBuf>,
    /// All projects, which is what is shown if no project is named
    #[arg(long)]
    all: bool,
    /// Only threads in which something happened since: an RFC 3339 time, or so long ago (30m, 12h, 7d, 2w)
    #[arg(long, value_name = "WHEN", value_parser = parse_since)]
    since: Option<i64>,
    /// Also the threads that Codex has archived
    #[arg(long)]
    archived: bool,
    /// How the report is written
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write it to this file, in one step; only you can read it
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    out: Option<PathBuf>,
    /// How many files are read at once [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// The order of the projects
    #[arg(long, value_enum, default_value_t = Sort::Last)]
    sort: Sort,
    /// When the table has colours
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    color: Color,
    /// Take the directory in which a thread works as its project
    #[arg(long)]
    no_git: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Ndjson,
    Html,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// The latest completion first
    Last,
    /// By root
    Root,
    /// The most pairs first
    Pairs,
    /// The most open turns first
    Open,
    /// The most bytes first
    Bytes,
    /// The most unreadable rows first
    Unreadable,
}

impl From<Sort> for audit::Sort {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Last => Self::Last,
            Sort::Root => Self::Root,
            Sort::Pairs => Self::Pairs,
            Sort::Open => Self::Open,
            Sort::Bytes => Self::Bytes,
            Sort::Unreadable => Self::Unreadable,
        }
    }
}

/// Looks, and prints what was found.
pub fn run(arguments: &Arguments) -> ExitCode {
    match found(arguments).and_then(|report| Ok((write(arguments, &report)?, report))) {
        Ok((written, report)) => {
            let all_read = report.complete && report.unreadable.is_empty();
            // The program ends now, and the system lets go of it faster.
            std::mem::forget(report);
            if all_read { written } else { ExitCode::FAILURE }
        }
        Err(why) => {
            super::complain(&format!("throughline: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn found(arguments: &Arguments) -> Result<Audited, String> {
    let stores = Stores::from_env().ok_or("there is no home directory")?;
    let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()));
    let request = Request {
        projects: arguments.project.iter().map(absolute).collect::<Result<_, _>>()?,
        since: arguments.since,
        archived: arguments.archived,
        no_git: arguments.no_git,
        jobs: arguments.jobs.map(usize::from),
        sort: arguments.sort.into(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    end_early_with(&stop).map_err(|error| error.to_string())?;
    let progress = Progress::stopped_by(stop);
    progress::beside(&progress, || audit::audit(&stores, &request, &progress)).map_err(|error| error.to_string())
}

/// A first Ctrl-C ends the reading, a second one the process.
fn end_early_with(stop: &Arc<AtomicBool>) -> io::Result<()> {
    use signal_hook::consts::SIGINT;
    signal_hook::flag::register_conditional_default(SIGINT, stop.clone())?;
    signal_hook::flag::register(SIGINT, stop.clone())?;
    debug_assert!(!stop.load(Ordering::Relaxed), "nobody has pressed it yet");
    Ok(())
}

fn write(arguments: &Arguments, report: &Report) -> Result<ExitCode, String> {
    let text = match arguments.format {
        Format::Table => table::of(report, table::Style::new(colored(arguments), arguments.out.is_some())),
        Format::Json => report.to_json() + "\n",
        Format::Ndjson => lines(report),
        Format::Html => html::page(report),
    };
    match &arguments.out {
        None => Ok(super::print(&text)),
        Some(path) => put(path, &text).map(|()| ExitCode::SUCCESS).map_err(|why| format!("{}: {why}", path.display())),
    }
}

/// Puts the report into a file, private and in one step; through a link, but in the place of nothing that is no file.
fn put(path: &Path, text: &str) -> Result<(), String> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err("is no file".to_owned());
    }
    private_file::replace_like(&path, text.as_bytes(), None).map_err(|error| match error {
        private_file::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    })
}

fn colored(arguments: &Arguments) -> bool {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    match arguments.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => arguments.out.is_none() && wanted && io::stdout().is_terminal(),
    }
}

/// Each project and each thing that could not be read on a line of its own, and the totals on the last one.
fn lines(report: &Report) -> String {
    let schema = report.schema;
    let projects = report.projects.iter().map(|project| json!({"schema": schema, "project": project}));
    let files = report.files_of_no_thread.iter().map(|file| json!({"schema": schema, "file_of_no_thread": file}));
    let unreadable = report.unreadable.iter().map(|unreadable| json!({"schema": schema, "unreadable": unreadable}));
    let end = json!({"schema": schema, "complete": report.complete, "totals": report.totals});
    projects.chain(files).chain(unreadable).chain([end]).map(|line| format!("{line}\n")).collect()
}

/// A time, or how long ago it was.
fn parse_since(text: &str) -> Result<i64, String> {
    if let Some(at) = parse_ms(text) {
        return Ok(at);
    }
    let unit = match text.chars().last() {
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        Some('w') => 7 * 86_400,
        _ => 0,
    };
    let count =
        text.get(..text.len().saturating_sub(1)).filter(|count| count.bytes().all(|byte| byte.is_ascii_digit()));
    let seconds = count.and_then(|count| count.parse::<u64>().ok()?.checked_mul(unit)).filter(|_| unit > 0);
    let ago = Duration::from_secs(seconds.ok_or("neither an RFC 3339 time with its zone nor like 7d")?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(i64::try_from(now.saturating_sub(ago).as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn times_are_instants_or_so_long_ago() {
        assert_eq!(parse_since("2026-01-06T00:30:00+02:00"), parse_since("2026-01-05T22:30:00Z"));
        let now = parse_since("0d").unwrap();
        for (text, ago) in [("90m", 5_400_000), ("12h", 43_200_000), ("7d", 604_800_000), ("2w", 1_209_600_000)] {
            let at = parse_since(text).unwrap();
            // The clock goes on between two looks.
            assert!((now - ago..now - ago + 60_000).contains(&at), "{text}");
        }
        for odd in ["", "7", "d", "-7d", "7 d", "7D", "2026-01-06", "2026-01-06T00:00:00", "é", "99999999999999999999d"]
        {
            assert!(parse_since(odd).is_err(), "{odd}");
        }
    }
}
