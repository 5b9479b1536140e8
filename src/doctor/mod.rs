//! Whether everything is in place for turns to be recorded and read, and what to do where it is not.
//!
//! Each check looks at one side of the [`Surroundings`] and tells its [`Finding`]s. Nothing is written or made, not even in
//! the cache, and nothing that a check cannot read keeps the others from looking.
//!
//! ```no_run
//! use throughline::doctor::{self, Severity, Surroundings};
//!
//! let surroundings = Surroundings::from_env().ok_or("there is no home directory")?;
//! let report = doctor::examine(&surroundings);
//! for finding in report.findings.iter().filter(|finding| finding.severity == Severity::Problem) {
//!     println!("{} ({})", finding.what, finding.advice.as_deref().unwrap_or_default());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod database;
mod hooks;
mod names;
mod places;
mod privacy;
mod program;
mod records;
mod rollouts;

use std::env;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::chain::Host;
use crate::hooks::install::Places;
use crate::stores::Stores;

/// The checks, in the order in which they are told: one file each.
const CHECKS: [fn(&Surroundings) -> Vec<Finding>; 8] = [
    places::check,
    privacy::check,
    database::check,
    hooks::check,
    program::check,
    records::check,
    names::check,
    rollouts::check,
];

/// What is looked at.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Where the stores are.
    pub stores: Stores,
    /// Where the agents' settings are.
    pub places: Places,
    /// This program.
    pub program: PathBuf,
    /// The current directory: its project can have settings of its own.
    pub directory: PathBuf,
    /// Where a shell looks for programs.
    pub search_path: Vec<PathBuf>,
}

impl Surroundings {
    /// Those that the environment names; `None` when the user has no home, or the system does not tell where this program
    /// or the current directory is.
    pub fn from_env() -> Option<Self> {
        let search_path = env::var_os("PATH").unwrap_or_default();
        Some(Self {
            stores: Stores::from_env()?,
            places: Places::from_env()?,
            program: env::current_exe().ok()?,
            directory: env::current_dir().ok()?,
            search_path: env::split_paths(&search_path).filter(|folder| folder.is_absolute()).collect(),
        })
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// `throughline.doctor.v1`
    pub schema: &'static str,
    /// How many of the findings are problems.
    pub problems: usize,
    /// The findings, check by check.
    pub findings: Vec<Finding>,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which check found it.
    pub check: Check,
    /// How bad it is.
    pub severity: Severity,
    /// Whose it is, where it is one agent's.
    pub host: Option<Host>,
    /// The file or directory that it is about.
    #[serde(serialize_with = "as_text")]
    pub path: Option<PathBuf>,
    /// When it was, in milliseconds since the epoch.
    pub at: Option<i64>,
    /// How many there are of what it is about.
    pub count: Option<u64>,
    /// What it is, in a line for people. (The time is not in it.)
    pub what: String,
    /// What to do about it: every problem has some.
    pub advice: Option<String>,
}

/// The side that a check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Where everything is.
    Places,
    /// That nobody else can read or write what is the user's.
    Privacy,
    /// The database of bodies.
    Database,
    /// The hooks in the agents' settings.
    Hooks,
    /// This program among others of its name.
    Program,
    /// What was recorded last.
    Records,
    /// The names that sessions have to show.
    Names,
    /// Codex' rollouts.
    Rollouts,
}

impl Check {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Places => "places",
            Self::Privacy => "privacy",
            Self::Database => "database",
            Self::Hooks => "hooks",
            Self::Program => "program",
            Self::Records => "records",
            Self::Names => "names",
            Self::Rollouts => "rollouts",
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It is as it should be.
    Fine,
    /// It is good to know.
    Note,
    /// Something needs to be done.
    Problem,
}

/// Looks at everything.
pub fn examine(surroundings: &Surroundings) -> Report {
    let findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(surroundings)).collect();
    let problems = findings.iter().filter(|finding| finding.severity == Severity::Problem).count();
    Report { schema: "throughline.doctor.v1", problems, findings }
}

impl Finding {
    fn new(check: Check, severity: Severity, what: impl Into<String>, advice: Option<String>) -> Self {
        Self { check, severity, host: None, path: None, at: None, count: None, what: what.into(), advice }
    }

    fn fine(check: Check, what: impl Into<String>) -> Self {
        Self::new(check, Severity::Fine, what, None)
    }

    fn note(check: Check, what: impl Into<String>) -> Self {
        Self::new(check, Severity::Note, what, None)
    }

    fn problem(check: Check, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(check, Severity::Problem, what, Some(advice.into()))
    }

    fn of(self, host: Host) -> Self {
        Self { host: Some(host), ..self }
    }

    fn about(self, path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..self }
    }

    fn at(self, at: Option<i64>) -> Self {
        Self { at, ..self }
    }

    fn counting(self, count: usize) -> Self {
        Self { count: Some(count as u64), ..self }
    }
}

/// So many findings of one kind are told one by one.
const TOLD: usize = 20;

/// Cuts findings of one kind down to what a person reads; `rest` makes one of how many are left.
fn some_of(mut findings: Vec<Finding>, rest: impl FnOnce(usize) -> Finding) -> Vec<Finding> {
    if findings.len() > TOLD {
        let left = findings.split_off(TOLD).len();
        findings.push(rest(left).counting(left));
    }
    findings
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    shlex::try_quote(&text).map_or_else(|_| text.to_string(), |quoted| quoted.into_owned())
}

/// `1 file`, `2 files`.
fn number(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A path as text; bytes that are no UTF-8 read as U+FFFD.
fn as_text<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}
