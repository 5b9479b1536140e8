//! `throughline doctor`: whether everything is in place, for a person or for a program.

use std::process::ExitCode;

use clap::Args;
use throughline::doctor::{self, Finding, Report, Severity, Surroundings};

/// Look whether turns are recorded and can be read, and say what to do where not
///
/// It looks at the places and who may read them, the database, the hooks of both agents and what they would run, other
/// programs of this name, what was recorded last, names that sessions have yet to show, and Codex' rollouts: those that
/// cannot be read, and completed turns whose bodies are missing. Nothing is written.
///
/// Exit code 0 when nothing is wrong, 1 when something needs to be done.
///
/// JSON (throughline.doctor.v1): problems (how many); findings: check, severity (fine, note, problem), host, path, at
/// (milliseconds since the epoch), count, what, advice.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Looks, and prints what was found.
pub fn run(arguments: &Arguments) -> ExitCode {
    let Some(surroundings) = Surroundings::from_env() else {
        super::complain("throughline: there is no home directory, no current directory or no path of this program");
        return ExitCode::FAILURE;
    };
    let report = doctor::examine(&surroundings);
    let printed = super::print(&if arguments.json { super::line(&report) } else { text(&report) });
    if report.problems == 0 { printed } else { ExitCode::FAILURE }
}

fn text(report: &Report) -> String {
    let mut out: String = report.findings.iter().map(of_finding).collect();
    out += &match report.problems {
        0 => "Nothing is wrong.\n".to_owned(),
        1 => "1 problem.\n".to_owned(),
        problems => format!("{problems} problems.\n"),
    };
    out
}

fn of_finding(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Fine => "ok",
        Severity::Note => "note",
        Severity::Problem => "PROBLEM",
    };
    let Finding { check, what, at, advice, .. } = finding;
    let when = at.map(|at| format!(", {}", super::age(at.unsigned_abs()))).unwrap_or_default();
    let mut out = format!("{severity:<7}  {:<8}  {what}{when}\n", check.word());
    if let Some(advice) = advice {
        out += &format!("{:<19}to do: {advice}\n", "");
    }
    out
}
