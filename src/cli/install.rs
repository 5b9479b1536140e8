//! `throughline install` and `throughline uninstall`: the hooks in the agents' settings.

use std::env;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use throughline::hooks::install::{self, Error, FileReport, Places, Report, Request, Which};

/// Register the hooks that record what the agents do
///
/// Claude Code gets a Stop hook in $CLAUDE_CONFIG_DIR/settings.json (~/.claude), Codex hooks for Stop, UserPromptSubmit
/// and PostToolUse in $CODEX_HOME/hooks.json (~/.codex), with the path of this program. For versions of Codex that need it
/// the hooks are switched on in config.toml. Everything else in these files stays as it is, a file that was there before
/// is kept beside it with .throughline-backup in its name, and what is registered already is not registered again.
///
/// It is an error when the older Node tool has hooks for the same events; they are never touched.
///
/// With --session-name Claude Code gets a PreToolUse hook too, and both of its hooks may refuse what a session does that has
/// a name and did not show it (see throughline session-name). Without it neither, also where it was there before.
#[derive(Debug, Args)]
pub struct InstallArguments {
    #[command(flatten)]
    which: WhichArguments,
    /// Let Claude Code's hooks see to it that sessions show their names
    #[arg(long)]
    session_name: bool,
    /// Install beside hooks of the older tool
    #[arg(long)]
    force: bool,
}

/// Remove the hooks from the agents' settings
///
/// Exactly what install registers is removed, wherever its program lay, with the lists that held nothing else. What the
/// hooks have recorded stays, and so does config.toml.
#[derive(Debug, Args)]
pub struct UninstallArguments {
    #[command(flatten)]
    which: WhichArguments,
    /// Taken as by install; there is nothing that it would override
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
struct WhichArguments {
    /// Claude Code's hooks [without --claude and --codex: those of each of the two whose home exists]
    #[arg(long)]
    claude: bool,
    /// Codex' hooks
    #[arg(long)]
    codex: bool,
    /// Claude Code's hooks in .claude/settings.json of the project around the current directory
    #[arg(long, conflicts_with = "codex")]
    project: bool,
    /// Print what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Registers the hooks.
pub fn install(arguments: &InstallArguments) -> ExitCode {
    let InstallArguments { which, force, session_name } = arguments;
    run(which, *force, *session_name, install::install, "installed")
}

/// Removes them.
pub fn uninstall(arguments: &UninstallArguments) -> ExitCode {
    run(&arguments.which, arguments.force, false, install::uninstall, "removed")
}

type Action = fn(&Places, &Request<'_>) -> Result<Report, Error>;

fn run(arguments: &WhichArguments, force: bool, session_name: bool, action: Action, done: &str) -> ExitCode {
    let (Some(places), Ok(program), Ok(directory)) = (Places::from_env(), env::current_exe(), env::current_dir())
    else {
        super::complain("throughline: there is no home directory, no current directory or no path of this program");
        return ExitCode::FAILURE;
    };
    let WhichArguments { claude, codex, project, dry_run } = *arguments;
    let which = which(claude, codex, project, directory);
    let request = Request { program: &program, which, dry_run, force, session_name };
    match action(&places, &request) {
        Ok(report) => {
            for warning in &report.warnings {
                super::complain(&format!("throughline: warning: {warning}"));
            }
            super::print(&text(&report, dry_run, done))
        }
        Err(error) => {
            super::complain(&format!("throughline: the hooks were not {done}: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn which(claude: bool, codex: bool, project: bool, directory: PathBuf) -> Which {
    match (claude, codex, project) {
        (_, _, true) => Which::Project(directory),
        (false, false, false) => Which::Existing,
        (claude, codex, false) => Which::Named { claude, codex },
    }
}

fn text(report: &Report, dry_run: bool, done: &str) -> String {
    let mut out = String::new();
    for FileReport { host, path, changes, backup } in &report.files {
        let (host, path) = (host.title(), path.display());
        if changes.is_empty() {
            let state = if done == "removed" { "has no hooks of throughline" } else { "is as it should be" };
            let _written = writeln!(out, "{host}: {path} {state}.");
            continue;
        }
        let verb = if dry_run { "would be changed" } else { "was changed" };
        // Writing into a string does not fail.
        let _written = writeln!(out, "{host}: {path} {verb}:");
        for change in changes {
            let _written = writeln!(out, "  {change}");
        }
        if let Some(backup) = backup {
            let _written = writeln!(out, "  as it was before: {}", backup.display());
        }
    }
    for note in &report.notes {
        let _written = writeln!(out, "{note}");
    }
    out
}
