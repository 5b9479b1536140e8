//! What an audit found, as it is written: `throughline.audit.v1`. Times are milliseconds since the epoch, or null.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;
use throughline_parsers::count::Count;
use throughline_parsers::text::Digest;

use super::record::{TextBytes, Turns};
use crate::chain::Host;
use crate::observer::token;

/// The name of the format.
pub const SCHEMA: &str = "throughline.audit.v1";

/// All that an audit found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// `throughline.audit.v1`
    pub schema: &'static str,
    /// False when it was ended early: then this is what was read until then.
    pub complete: bool,
    /// The projects that have threads.
    pub projects: Vec<Project>,
    /// Rollouts that do not say which thread they are of.
    pub files_of_no_thread: Vec<File>,
    /// What could not be read.
    pub unreadable: Vec<Unreadable>,
    /// What all of it comes to.
    pub totals: Totals,
}

impl Report {
    /// It as one line of JSON, without a line feed. All cores write it.
    pub fn to_json(&self) -> String {
        let Self { schema, complete, projects, files_of_no_thread, unreadable, totals } = self;
        let [schema, files, unreadable, totals] =
            [json(schema), json(files_of_no_thread), json(unreadable), json(totals)];
        let mut parts = vec![format!("{{\"schema\":{schema},\"complete\":{complete},\"projects\":[")];
        for (n, project) in projects.par_iter().map(Project::json).collect::<Vec<_>>().into_iter().enumerate() {
            parts.extend((n > 0).then(|| ",".to_owned()));
            parts.extend(project);
        }
        parts.push(format!("],\"files_of_no_thread\":{files},\"unreadable\":{unreadable},\"totals\":{totals}}}"));
        parts.concat()
    }
}

impl Project {
    /// So many threads are written by one core at a time.
    const TOGETHER: usize = 128;

    /// It as JSON, in parts.
    fn json(&self) -> Vec<String> {
        let Self { root, current, rows, completions, row_types, .. } = self;
        let (root, current, rows) = (root.clone(), current.clone(), rows.clone());
        let (completions, row_types) = (completions.clone(), row_types.clone());
        let without = json(&Self { root, current, rows, completions, row_types, threads: Vec::new(), ..*self });
        let begin = without.strip_suffix("]}").expect("the threads come last");
        let several = self.threads.par_chunks(Self::TOGETHER).enumerate();
        let mut parts = vec![begin.to_owned()];
        parts.par_extend(several.map(|(n, threads)| {
            // Without the bracket at the end, and but for the first ones, with a comma for the one at the start.
            let mut list = json_in(&threads, threads.len() * 1024);
            list.truncate(list.len() - 1);
            list.replace_range(..1, if n > 0 { "," } else { "" });
            list
        }));
        parts.push("]}".to_owned());
        parts
    }
}

fn json(value: &impl Serialize) -> String {
    json_in(value, 128)
}

/// The JSON of a value that takes about so many bytes.
fn json_in(value: &impl Serialize, room: usize) -> String {
    let mut json = Vec::with_capacity(room);
    serde_json::to_writer(&mut json, value).expect("numbers and strings can be written");
    String::from_utf8(json).expect("JSON is text")
}

/// The threads below one root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Project {
    /// The nearest folder with a `.git` above the threads' working directories, else the working directory; null where that
    /// is not known.
    pub root: Option<String>,
    /// SHA-256 of the root; where that is not known, of the path that Claude's receipts are of; else null.
    #[serde(serialize_with = "hex_or_null")]
    pub project_sha256: Option<Digest>,
    /// Threads of both hosts completed last at the same millisecond.
    pub ambiguous: bool,
    /// The thread with the latest completion, if there is one and it is not ambiguous.
    pub current: Option<ThreadName>,
    /// What the threads come to.
    #[serde(flatten)]
    pub sums: Sums,
    /// Bytes, rows and what else there is of all files, also those of sub-agents.
    #[serde(flatten)]
    pub rows: Rows,
    /// How many pairs completed on each day (of UTC), by host.
    pub completions: BTreeMap<&'static str, BTreeMap<String, u64>>,
    /// All rows by type.
    pub row_types: BTreeMap<String, RowType>,
    /// The threads, without those of sub-agents whose root is there.
    pub threads: Vec<Thread>,
}

/// One thread, by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadName {
    /// The program that wrote it.
    pub host: Host,
    /// Its id.
    pub thread: String,
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// The program that wrote it.
    pub host: Host,
    /// Its id.
    pub thread: String,
    /// Its working directory, as it is written.
    pub cwd: Option<String>,
    /// It is a sub-agent's: such a thread is never current.
    pub sub_agent: bool,
    /// Its current file is among the archived ones: such a thread is not current either.
    pub archived: bool,
    /// What it comes to.
    #[serde(flatten)]
    pub sums: Sums,
    /// When its last row was written.
    pub last_row_at: Option<i64>,
    /// The threads of its sub-agents, of any depth.
    pub children: Vec<Thread>,
    /// The versions of the programs that wrote it.
    pub writers: Vec<String>,
    /// Its files.
    pub files: Vec<File>,
}

/// What a thread comes to, or the threads of a project (those of sub-agents not included).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sums {
    /// Completed turns with texts on both sides: the length of the chain. Claude's are receipts.
    pub pairs: u64,
    /// The turns.
    pub turns: Turns,
    /// When the first pair of the chain completed.
    pub first_completed_at: Option<i64>,
    /// When the last one did.
    pub last_completed_at: Option<i64>,
    /// The sizes of the texts of these turns.
    pub text_bytes: TextBytes,
    /// Of how many pairs the bodies are in the database; null where that cannot be read.
    pub bodies_present: Option<u64>,
    /// How many of the pairs are receipts.
    pub receipts: u64,
}

/// Rows of many files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rows {
    /// The sizes of the files.
    pub bytes: u64,
    /// Rows that could be read.
    pub rows: u64,
    /// Those that could not.
    pub unreadable_rows: u64,
    /// The same by what is wrong.
    pub unreadable: Unreadables,
    /// Types of rows that this version does not know.
    pub unknown_types: BTreeMap<String, u64>,
    /// The versions of the programs that wrote them.
    pub writers: Vec<String>,
}

impl From<&File> for Rows {
    fn from(file: &File) -> Self {
        let File { bytes, rows, unreadable_rows, unreadable, ref unknown_types, .. } = *file;
        Self { bytes, rows, unreadable_rows, unreadable, unknown_types: unknown_types.clone(), writers: Vec::new() }
    }
}

/// Without the versions of programs.
impl AddAssign for Rows {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.rows += other.rows;
        self.unreadable_rows += other.unreadable_rows;
        self.unreadable += other.unreadable;
        for (name, count) in other.unknown_types {
            *self.unknown_types.entry(name).or_default() += count;
        }
    }
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct File {
    /// Where it is.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Rows that could be read.
    pub rows: u64,
    /// Those that could not.
    pub unreadable_rows: u64,
    /// The same by what is wrong.
    pub unreadable: Unreadables,
    /// Types of rows that this version does not know.
    pub unknown_types: BTreeMap<String, u64>,
}

/// Rows that could not be read, by what is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unreadables {
    /// No JSON.
    pub broken: u64,
    /// Cut, with another row behind it on the line.
    pub spliced: u64,
    /// Holes of NUL bytes in a transcript. (Between the rows of a rollout they are blank.)
    pub holes: u64,
}

impl Unreadables {
    /// From counts in this order.
    pub fn of([broken, spliced, holes]: &[Count; 3]) -> Self {
        Self { broken: broken.rows, spliced: spliced.rows, holes: holes.rows }
    }
}

impl AddAssign for Unreadables {
    fn add_assign(&mut self, other: Self) {
        self.broken += other.broken;
        self.spliced += other.spliced;
        self.holes += other.holes;
    }
}

/// Rows of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RowType {
    /// How many.
    pub rows: u64,
    /// How many bytes they take.
    pub bytes: u64,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unreadable {
    /// Where it is.
    pub path: String,
    /// Why.
    pub reason: String,
}

impl Unreadable {
    /// This path, for this reason.
    pub fn new(path: &Path, reason: impl ToString) -> Self {
        Self { path: path.to_string_lossy().into_owned(), reason: reason.to_string() }
    }
}

/// What everything comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// How many projects.
    pub projects: u64,
    /// How many threads, without those of sub-agents.
    pub threads: u64,
    /// How many pairs these have.
    pub pairs: u64,
    /// The sizes of all files.
    pub bytes: u64,
    /// Rows that could be read.
    pub rows: u64,
    /// How many files, folders and stores could not be read.
    pub unreadable_files: u64,
    /// Rows that could not be read.
    pub unreadable_rows: u64,
}

fn hex_or_null<S: serde::Serializer>(digest: &Option<Digest>, serializer: S) -> Result<S::Ok, S::Error> {
    match digest {
        Some(digest) => token::hex(digest, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_json_of_all_cores_is_that_of_one() {
        let thread = |n: usize| Thread {
            host: Host::Codex,
            thread: n.to_string(),
            cwd: None,
            sub_agent: false,
            archived: false,
            sums: Sums::default(),
            last_row_at: None,
            children: Vec::new(),
            writers: Vec::new(),
            files: Vec::new(),
        };
        let project = |root: &str, threads: usize| Project {
            root: Some(root.to_owned()),
            project_sha256: None,
            ambiguous: false,
            current: None,
            sums: Sums::default(),
            rows: Rows::default(),
            completions: BTreeMap::new(),
            row_types: BTreeMap::new(),
            threads: (0..threads).map(thread).collect(),
        };
        let several = [("/a", 0), ("/b \"", Project::TOGETHER), ("/c\n", 2 * Project::TOGETHER + 1)];
        for count in 0..4 {
            let projects = several[..count.min(3)].iter().map(|(root, threads)| project(root, *threads)).collect();
            let report = Report {
                schema: SCHEMA,
                complete: count == 3,
                projects,
                files_of_no_thread: Vec::new(),
                unreadable: vec![Unreadable::new(Path::new("/x"), "why"); count],
                totals: Totals::default(),
            };
            assert_eq!(report.to_json(), serde_json::to_string(&report).unwrap());
        }
    }
}
