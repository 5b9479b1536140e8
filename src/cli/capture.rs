//! `throughline capture`: the texts of Codex' threads go into the database, without a hook.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use throughline::capturing::{self, Captured, Failure, Which};
use throughline::observer::Project;
use throughline::{Mapping, Stores, db};
use throughline_parsers::codex::Uuid;

use super::progress::Progress;

/// Store the texts of Codex threads that ran without our hooks
///
/// Afterwards the database holds exactly the turns that the rollouts have now. (Bodies of Claude come from its Stop hook
/// only: nothing else proves that a turn is complete.)
///
/// JSON (throughline.capture.v1): threads: thread, cwd, turns (how many the database has now), changed (whether it had
/// others before).
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["project", "codex_thread", "all"]))]
pub struct Arguments {
    /// The threads of the project in this directory
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// This thread
    #[arg(long, value_name = "ID")]
    codex_thread: Option<Uuid>,
    /// All threads
    #[arg(long)]
    all: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Captures, and prints what was captured.
pub fn run(arguments: &Arguments) -> ExitCode {
    let captured = match capture(arguments) {
        Ok(captured) => captured,
        Err(why) => {
            super::complain(&format!("throughline: {why}"));
            return ExitCode::FAILURE;
        }
    };
    match arguments.json {
        true => super::print(&format!("{}\n", as_json(&captured))),
        false => super::print(&as_table(&captured)),
    }
}

fn capture(arguments: &Arguments) -> Result<Vec<Captured>, String> {
    let stores = Stores::from_env().ok_or("there is no home directory")?;
    let project = arguments.project.as_deref().map(open).transpose()?;
    let which = match (&project, arguments.codex_thread) {
        (Some(project), _) => Which::Project(&project.resolved),
        (None, Some(thread)) => Which::Thread(thread),
        (None, None) => Which::All,
    };
    let progress = Progress::of("threads");
    // What is not mapped raises no signal when an agent cuts it.
    capturing::threads(&stores, which, Mapping::Never, |done, all| progress.done(done, all)).map_err(|failure| {
        match failure {
            Failure::Database(db::Error::Version(version)) => {
                format!("database version {version}: migrate it with the Node tool")
            }
            failure => failure.to_string(),
        }
    })
}

fn open(project: &Path) -> Result<Project, String> {
    let absolute = std::path::absolute(project).map_err(|error| error.to_string())?;
    Project::open(&absolute).map_err(|_| format!("{} is no directory", project.display()))
}

fn as_json(captured: &[Captured]) -> String {
    let thread = |Captured { thread, cwd, turns, changed }: &Captured| json!({"thread": thread.to_string(), "cwd": cwd, "turns": turns, "changed": changed});
    json!({"schema": "throughline.capture.v1", "threads": captured.iter().map(thread).collect::<Vec<_>>()}).to_string()
}

fn as_table(captured: &[Captured]) -> String {
    let mut table = String::new();
    if !captured.is_empty() {
        table += &format!("{:<36}  {:>5}  {:<9}  directory\n", "thread", "turns", "");
    }
    for Captured { thread, cwd, turns, changed } in captured {
        let what = if *changed { "stored" } else { "as before" };
        table += &format!("{thread}  {turns:>5}  {what:<9}  {cwd}\n");
    }
    let changed = captured.iter().filter(|captured| captured.changed).count();
    let turns: usize = captured.iter().map(|captured| captured.turns).sum();
    table + &format!("{} threads with {turns} turns; {changed} of them stored now.\n", captured.len())
}
