//! All logs of a machine at once: what completed, where and when; what is stuck, and what cannot be read.
//!
//! ```
//! use throughline::Stores;
//! use throughline::audit::{Progress, Request, audit};
//! # let home = tempfile::tempdir()?;
//! let stores = Stores::below(home.path());
//! let report = audit(&stores, &Request::default(), &Progress::default())?;
//! assert!(report.complete && report.projects.is_empty());
//! # Ok::<_, std::io::Error>(())
//! ```
//!
//! [`listing`] finds the logs of both hosts, [`mod@gather`] reads them (or remembers what it read; a large one it reads on
//! from its [`checkpoint`]), with what [`rollouts`] and [`transcripts`] make of one; [`families`] and [`sessions`] put together what is one thread's, [`projects`] what is one
//! project's, and [`report`] is what comes of it. A log that cannot be read is named, and the rest is reported all the same.

mod bodies;
pub mod checkpoint;
pub mod families;
pub mod gather;
pub mod html;
pub mod listing;
mod progress;
pub mod projects;
pub mod record;
pub mod report;
pub mod rollouts;
pub mod sessions;
pub mod threads;
pub mod transcripts;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::ops::Deref;
use std::path::PathBuf;

use rayon::prelude::*;

use self::families::Families;
use self::gather::{Gathered, Reader, gather};
pub use self::progress::Progress;
use self::projects::{Family, Key, Rooted, Sites};
pub use self::report::{Report, Unreadable};
use self::report::{SCHEMA, Totals};
use self::rollouts::Rollout;
use self::sessions::Receipts;
use self::threads::Thread;
use self::transcripts::Transcript;
use crate::cache::Cache;
use crate::db::sessions::{self as stored, Sessions};
use crate::paths::{Resolved, collapsed};
use crate::receipts::Place;
use crate::scan::stamps::Moment;
use crate::stores::Stores;

/// What is asked of an audit.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Only the projects at or below these directories; all where none is named.
    pub projects: Vec<PathBuf>,
    /// Only threads of which a row, or a completion, is not older than this, in milliseconds since the epoch.
    pub since: Option<i64>,
    /// Also the threads that Codex has archived.
    pub archived: bool,
    /// A project is where a thread works, whether or not a folder above it has a `.git`.
    pub no_git: bool,
    /// How many files are read at once; as many as there are cores where that is not said.
    pub jobs: Option<usize>,
    /// The order of the projects.
    pub sort: Sort,
}

/// The order of projects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The latest completion first.
    #[default]
    Last,
    /// By root.
    Root,
    /// The most pairs first.
    Pairs,
    /// The most open turns first.
    Open,
    /// The most bytes first.
    Bytes,
    /// The most unreadable rows first.
    Unreadable,
}

/// A report, and what it was made of. To let go of that takes a while: a program that ends behind it need not.
#[derive(Debug)]
pub struct Audited {
    report: Report,
    _made_of: (Gathered<Rollout>, Families, Gathered<Transcript>),
}

impl Deref for Audited {
    type Target = Report;

    fn deref(&self) -> &Report {
        &self.report
    }
}

/// Looks at all logs.
///
/// # Errors
/// There are no threads to be had to read with. All else is part of the report.
pub fn audit(stores: &Stores, request: &Request, progress: &Progress) -> io::Result<Audited> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(request.jobs.unwrap_or(0)).build();
    let pool = pool.map_err(io::Error::other)?;
    Ok(pool.install(|| Audit::new(stores, request, progress).report()))
}

/// Threads by project.
type Groups<'r> = BTreeMap<Key, Vec<Family<'r>>>;

/// One audit.
struct Audit<'a> {
    stores: &'a Stores,
    request: &'a Request,
    progress: &'a Progress,
    cache: Option<Cache>,
    unreadable: Vec<Unreadable>,
}

impl<'a> Audit<'a> {
    fn new(stores: &'a Stores, request: &'a Request, progress: &'a Progress) -> Self {
        let cache = stores.cache.as_ref().map(|cache| cache.of_audits(&stores.cache_home));
        Self { stores, request, progress, cache, unreadable: Vec::new() }
    }

    fn report(mut self) -> Audited {
        let ((rollouts, families), transcripts) = (self.rollouts(), self.transcripts());
        let groups = {
            let threads = families.threads(&rollouts, &self.archive());
            self.groups(threads, &transcripts)
        };
        let mut projects = self.projects(groups);
        self.sort(&mut projects);
        let everything = self.request.projects.is_empty() && self.request.since.is_none();
        let files_of_no_thread = if everything { of_no_thread(&rollouts) } else { Vec::new() };
        self.named_damaged(&rollouts);
        self.unreadable.sort();
        let totals = totals(&projects, &files_of_no_thread, self.unreadable.len());
        let complete = !self.progress.left_out();
        let unreadable = self.unreadable;
        let report = Report { schema: SCHEMA, complete, projects, files_of_no_thread, unreadable, totals };
        Audited { report, _made_of: (rollouts, families, transcripts) }
    }

    /// The threads of both hosts, by project; those that were asked for.
    fn groups<'r>(&mut self, mut threads: Vec<Box<Thread<'r>>>, transcripts: &'r Gathered<Transcript>) -> Groups<'r> {
        let receipts = self.receipts();
        let has_claude = !receipts.is_empty() || transcripts.records().next().is_some();
        let stored = if has_claude { self.sessions() } else { Sessions::default() };
        let of_claude = sessions::threads(transcripts, &self.stores.transcripts_root(), &receipts, &stored);
        let asked_for: Vec<String> =
            self.request.projects.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let sites = self.sites(&threads, &of_claude, &stored, &asked_for);
        threads.extend(placed(of_claude, &receipts, &stored, &asked_for, &sites).into_iter().map(Box::new));
        let mut groups = projects::group(threads, &sites);
        if let Some(since) = self.request.since {
            leave_out(&mut groups, since);
        }
        if !asked_for.is_empty() {
            let roots: Vec<&Resolved> = asked_for.iter().filter_map(|path| Some(&sites.of(path)?.root)).collect();
            let is_asked_for = |root: Resolved| roots.iter().any(|asked| root.is_inside(asked));
            groups.retain(|key, _| matches!(key, Key::Root(root) if is_asked_for(Resolved::from_saved(root))));
        }
        groups
    }

    fn projects(&mut self, mut groups: Groups<'_>) -> Vec<report::Project> {
        self.tell_of_bodies(&mut groups);
        groups.into_par_iter().map(|(key, threads)| projects::project(&key, threads)).collect()
    }

    fn rollouts(&mut self) -> (Gathered<Rollout>, Families) {
        let (mut folders, unreadable) = listing::rollouts(&self.stores.sessions_root());
        self.unreadable.extend(unreadable);
        if self.request.archived {
            let (archived, unreadable) = listing::rollouts(&self.archive());
            folders.extend(archived);
            self.unreadable.extend(unreadable);
        }
        let reader = self.progress_reader();
        let mut rollouts: Gathered<Rollout> = gather(folders, reader);
        let families = Families::of(&rollouts);
        rollouts.cut(&families.cuts(), reader);
        self.cache.iter().for_each(|cache| rollouts.store(cache));
        self.unreadable.append(&mut rollouts.unreadable);
        (rollouts, families)
    }

    fn transcripts(&mut self) -> Gathered<Transcript> {
        let (folders, unreadable) = listing::transcripts(&self.stores.transcripts_root());
        self.unreadable.extend(unreadable);
        let mut transcripts: Gathered<Transcript> = gather(folders, self.progress_reader());
        self.cache.iter().for_each(|cache| transcripts.store(cache));
        self.unreadable.append(&mut transcripts.unreadable);
        transcripts
    }

    fn progress_reader(&self) -> Reader<'_> {
        let now = self.cache.as_ref().map_or_else(|| Moment::now(std::time::Duration::ZERO), Cache::now);
        Reader { cache: self.cache.as_ref(), now, progress: self.progress }
    }

    fn archive(&self) -> PathBuf {
        collapsed(&self.stores.codex_home.join("archived_sessions"))
    }

    /// The stores of receipts.
    fn receipts(&mut self) -> Vec<Receipts> {
        let places = Place::all(&self.stores.state_home).unwrap_or_else(|error| {
            self.unreadable.push(Unreadable::new(&Place::directory(&self.stores.state_home), error));
            Vec::new()
        });
        let mut found = Vec::new();
        for place in places {
            match place.load() {
                Ok(Some(store)) => found.push(Receipts { project: place.project(), store }),
                Ok(None) => {}
                Err(error) => self.unreadable.push(Unreadable::new(&place.path(), error)),
            }
        }
        found
    }

    fn sessions(&mut self) -> Sessions {
        let path = self.stores.database();
        stored::sessions(&path).unwrap_or_else(|error| {
            self.unreadable.push(Unreadable::new(&path, error));
            Sessions::default()
        })
    }

    /// Where all working directories lead that could matter.
    fn sites(
        &self,
        codex: &[Box<Thread<'_>>],
        claude: &[Thread<'_>],
        stored: &Sessions,
        asked_for: &[String],
    ) -> Sites {
        let of_codex: HashSet<&str> = codex.par_iter().filter_map(|thread| thread.cwd.as_deref()).collect();
        let of_claude = claude.iter().filter_map(|thread| thread.cwd.as_deref());
        let asked_for = asked_for.iter().map(String::as_str);
        let paths: HashSet<&str> =
            of_codex.into_iter().chain(of_claude).chain(stored.paths()).chain(asked_for).collect();
        let paths = paths.into_iter().map(ToOwned::to_owned).collect();
        Sites::look(paths, if self.request.no_git { Rooted::AtCwd } else { Rooted::ByGit })
    }

    /// Tells the threads of how many of their pairs the bodies are in the database; nothing where it cannot be read.
    fn tell_of_bodies(&mut self, groups: &mut Groups<'_>) {
        let path = self.stores.database();
        if let Err(error) = bodies::present(&path, self.cache.as_ref(), all(groups)) {
            let unreadable = Unreadable::new(&path, error);
            if !self.unreadable.contains(&unreadable) {
                self.unreadable.push(unreadable);
            }
            all(groups).into_iter().for_each(|thread| thread.bodies_present = None);
        }
    }

    fn sort(&self, projects: &mut [report::Project]) {
        projects.sort_by(|one, other| one.root.cmp(&other.root).then(one.project_sha256.cmp(&other.project_sha256)));
        match self.request.sort {
            Sort::Root => {}
            Sort::Last => projects.sort_by_key(|project| Reverse(project.sums.last_completed_at)),
            Sort::Pairs => projects.sort_by_key(|project| Reverse(project.sums.pairs)),
            Sort::Open => projects.sort_by_key(|project| Reverse(project.sums.turns.open)),
            Sort::Bytes => projects.sort_by_key(|project| Reverse(project.rows.bytes)),
            Sort::Unreadable => projects.sort_by_key(|project| Reverse(project.rows.unreadable_rows)),
        }
    }

    /// Names the packed rollouts of which not all can be decoded.
    fn named_damaged(&mut self, rollouts: &Gathered<Rollout>) {
        let damaged = rollouts.records().filter(|(_, record)| record.counts.damaged);
        let reason = "a damaged zstd stream: what can be decoded counts";
        self.unreadable.extend(damaged.map(|(_, record)| Unreadable::new(&record.path, reason)));
    }
}

/// All threads, those of sub-agents too.
fn all<'g, 'r>(groups: &'g mut Groups<'r>) -> Vec<&'g mut Thread<'r>> {
    let families = groups.values_mut().flatten();
    families.flat_map(|(thread, children)| std::iter::once(thread).chain(children)).map(AsMut::as_mut).collect()
}

/// Claude's threads, each with the path of its project as far as that is known.
fn placed<'r>(
    mut threads: Vec<Thread<'r>>,
    receipts: &[Receipts],
    stored: &Sessions,
    asked_for: &[String],
    sites: &Sites,
) -> Vec<Thread<'r>> {
    let paths = projects::paths_of_stores(receipts, stored, &threads, asked_for, sites);
    for thread in &mut threads {
        let known = match thread.store {
            Some(store) => paths.get(&store).cloned(),
            None => stored.project_path(&thread.id).map(ToOwned::to_owned).or(thread.cwd.take()),
        };
        thread.cwd = known;
    }
    threads
}

/// Leaves out the threads in which, and in whose sub-agents', nothing has happened since.
fn leave_out(groups: &mut Groups<'_>, since: i64) {
    let is_late = |thread: &Thread<'_>| {
        thread.last_row_at.into_iter().chain(thread.pairs.last().map(|pair| pair.at)).any(|at| at >= since)
    };
    for families in groups.values_mut() {
        families.retain(|(thread, children)| is_late(thread) || children.iter().any(|child| is_late(child)));
    }
    groups.retain(|_, families| !families.is_empty());
}

fn of_no_thread(rollouts: &Gathered<Rollout>) -> Vec<report::File> {
    let lone = rollouts.records().filter(|(_, record)| record.summary.meta.is_none());
    let mut files: Vec<_> = lone.map(|(_, record)| threads::file(record)).collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

fn totals(projects: &[report::Project], of_no_thread: &[report::File], unreadable: usize) -> Totals {
    let mut totals =
        Totals { projects: projects.len() as u64, unreadable_files: unreadable as u64, ..Totals::default() };
    for project in projects {
        totals.threads += project.threads.iter().filter(|thread| !thread.sub_agent).count() as u64;
        totals.pairs += project.sums.pairs;
        totals.bytes += project.rows.bytes;
        totals.rows += project.rows.rows;
        totals.unreadable_rows += project.rows.unreadable_rows;
    }
    for file in of_no_thread {
        totals.bytes += file.bytes;
        totals.rows += file.rows;
        totals.unreadable_rows += file.unreadable_rows;
    }
    totals
}
