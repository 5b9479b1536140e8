//! Threads put into their projects.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use throughline_parsers::count::Count;
use throughline_parsers::text::Digest;

use super::record::Pair;
use super::report::{Project, RowType, Rows, Sums, Thread as Reported, ThreadName};
use super::sessions::Receipts;
use super::threads::{Thread, Types};
use crate::chain::{End, Host};
use crate::db::sessions::Sessions;
use crate::hosts::{Candidate, Current};
use crate::paths::{Resolved, collapsed};
use crate::resolving::{Places, Resolving};

/// Where a working directory leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The directory itself.
    pub resolved: Resolved,
    /// The root of its project.
    pub root: Resolved,
}

/// How the root of a project is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rooted {
    /// The nearest folder above that has a `.git`.
    ByGit,
    /// The working directory itself.
    AtCwd,
}

/// Where working directories lead.
#[derive(Debug)]
pub struct Sites(Places<Site>);

impl Sites {
    /// Looks where these paths lead. One that does not answer soon is taken as it is written.
    pub fn look(mut paths: Vec<String>, rooted: Rooted) -> Self {
        let site = match rooted {
            Rooted::ByGit => |path: &str| Some(Site::by_git(Resolved::new(Path::new(path))?)),
            Rooted::AtCwd => |path: &str| Resolved::new(Path::new(path)).map(Site::at),
        };
        paths.sort_unstable();
        let mut sites = Resolving::start_with(paths.clone(), site).wait();
        for path in paths {
            sites.entry(path).or_insert_with_key(|path| as_written(path).map(Site::at));
        }
        Self(sites)
    }

    /// Where a path leads; `None` for a relative one, which is no project's.
    pub fn of(&self, path: &str) -> Option<&Site> {
        self.0.get(path)?.as_ref()
    }
}

fn as_written(path: &str) -> Option<Resolved> {
    let usable = Path::new(path).is_absolute() && !path.contains('\0');
    usable.then(|| Resolved::from_saved(collapsed(Path::new(path)).to_string_lossy().trim_end_matches('/').as_bytes()))
}

impl Site {
    fn at(resolved: Resolved) -> Self {
        Self { root: resolved.clone(), resolved }
    }

    fn by_git(resolved: Resolved) -> Self {
        let path: PathBuf = resolved.path();
        let root = path.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok());
        match root.and_then(Resolved::new) {
            Some(root) => Self { resolved, root },
            None => Self::at(resolved),
        }
    }
}

/// Where a project is, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// At this root.
    Root(Vec<u8>),
    /// At the path of this digest.
    Digest(Digest),
    /// Nowhere: its threads name no absolute working directory.
    Nowhere,
}

/// The paths that the stores of receipts are of: those with the right digest that the database names, that a transcript of
/// one of their sessions names, or that were asked for. Where there is none, what the database names for one of the sessions.
pub fn paths_of_stores(
    receipts: &[Receipts],
    sessions: &Sessions,
    threads: &[Thread<'_>],
    asked_for: &[String],
    sites: &Sites,
) -> HashMap<Digest, String> {
    let of_threads = threads.iter().filter(|thread| thread.store.is_some()).filter_map(|thread| thread.cwd.as_deref());
    let named = asked_for.iter().map(String::as_str).chain(of_threads).chain(sessions.paths());
    // Of several spellings the least, so that it is always the same one.
    let mut by_digest: HashMap<Digest, &str> = HashMap::new();
    for path in named {
        if let Some(site) = sites.of(path) {
            let known = by_digest.entry(site.resolved.digest()).or_insert(path);
            *known = path.min(known);
        }
    }
    let path = |Receipts { project, store }: &Receipts| {
        let of_sessions =
            || store.receipts().iter().find_map(|receipt| sessions.project_path(receipt.target().as_str()));
        Some((*project, by_digest.get(project).copied().or_else(of_sessions)?.to_owned()))
    };
    receipts.iter().filter_map(path).collect()
}

/// A thread with those of its sub-agents.
pub type Family<'r> = (Box<Thread<'r>>, Vec<Box<Thread<'r>>>);

/// Puts sub-agents' threads below the threads at their roots, and all into their projects.
pub fn group<'r>(threads: Vec<Box<Thread<'r>>>, sites: &Sites) -> BTreeMap<Key, Vec<Family<'r>>> {
    // Most threads have a root that others have, too.
    let mut by_root: HashMap<&[u8], Vec<Family<'r>>> = HashMap::new();
    let mut groups: BTreeMap<Key, Vec<Family<'r>>> = BTreeMap::new();
    let families = families(threads);
    let root = |(thread, _): &Family<'r>| Some(sites.of(thread.cwd.as_deref()?)?.root.as_bytes());
    let roots: Vec<Option<&[u8]>> = families.par_iter().map(root).collect();
    for (family, root) in families.into_iter().zip(roots) {
        let group = match root {
            Some(root) => by_root.entry(root).or_default(),
            None => groups.entry(family.0.store.map_or(Key::Nowhere, Key::Digest)).or_default(),
        };
        group.push(family);
    }
    groups.extend(by_root.into_iter().map(|(root, families)| (Key::Root(root.to_vec()), families)));
    groups
}

/// The threads that stand by themselves, each with those of its sub-agents. One whose root is not there stands by itself.
fn families(threads: Vec<Box<Thread<'_>>>) -> Vec<Family<'_>> {
    let roots = roots(&threads);
    let mut families: Vec<Option<Family<'_>>> = Vec::with_capacity(threads.len());
    let mut moved = Vec::new();
    for (n, thread) in threads.into_iter().enumerate() {
        match roots.get(&n) {
            Some(root) => {
                families.push(None);
                moved.push((*root, thread));
            }
            None => families.push(Some((thread, Vec::new()))),
        }
    }
    for (root, child) in moved {
        if let Some((_, children)) = &mut families[root] {
            children.push(child);
        }
    }
    families.into_iter().flatten().collect()
}

/// The threads at the roots of those of sub-agents, as far as they are there.
fn roots(threads: &[Box<Thread<'_>>]) -> HashMap<usize, usize> {
    // Of many threads few have begun others.
    let named: HashSet<&str> =
        threads.iter().flat_map(|thread| thread.begun_by.iter().flatten()).map(String::as_str).collect();
    if named.is_empty() {
        return HashMap::new();
    }
    let named = threads.iter().enumerate().filter(|(_, thread)| named.contains(thread.id.as_str()));
    let at: HashMap<(Host, &str), usize> = named.map(|(n, thread)| ((thread.host, thread.id.as_str()), n)).collect();
    let above = |n: usize| {
        let begun_by = threads[n].begun_by.iter().flatten();
        let found = begun_by.filter_map(|id| at.get(&(threads[n].host, id.as_str())));
        found.copied().find(|above| *above != n)
    };
    let of_sub_agents = (0..threads.len()).filter(|n| threads[*n].begun_by.is_some());
    let root = |n: usize| {
        // A circle ends somewhere.
        let root = std::iter::successors(Some(n), |n| above(*n)).take(64).last().unwrap_or(n);
        (root != n && threads[root].begun_by.is_none()).then_some((n, root))
    };
    of_sub_agents.filter_map(root).collect()
}

/// A project as it is reported.
pub fn project(key: &Key, mut families: Vec<Family<'_>>) -> Project {
    let (root, project_sha256) = match key {
        Key::Root(path) => {
            let root = Resolved::from_saved(path);
            (Some(root.path().to_string_lossy().into_owned()), Some(root.digest()))
        }
        Key::Digest(digest) => (None, Some(*digest)),
        Key::Nowhere => (None, None),
    };
    families.par_sort_by(|(one, _), (other, _)| {
        let key = |thread: &Thread<'_>| (Reverse(thread.pairs.last().map(|pair| pair.at)), thread.host);
        key(one).cmp(&key(other)).then_with(|| one.id.cmp(&other.id))
    });
    let (current, ambiguous) = current(&families);
    let members = families.par_iter().flat_map_iter(|(thread, children)| std::iter::once(thread).chain(children));
    let tally = members.fold(Tally::default, |tally, thread| tally.with(thread)).reduce(Tally::default, Tally::and);
    let (rows, types) = tally.rows();
    let completions = completions(&families);
    let threads: Vec<Reported> = families.into_par_iter().map(with_children).collect();
    let mut sums = Sums { bodies_present: Some(0), ..Sums::default() };
    threads.iter().filter(|thread| !thread.sub_agent).for_each(|thread| add(&mut sums, &thread.sums));
    let row_type = |(name, count): (String, Count)| (name, RowType { rows: count.rows, bytes: count.bytes });
    Project {
        root,
        project_sha256,
        ambiguous,
        current,
        sums,
        rows,
        completions,
        row_types: types.by_name().into_iter().map(row_type).collect(),
        threads,
    }
}

/// What the files of threads come to.
#[derive(Default)]
struct Tally<'t> {
    rows: Rows,
    types: Types,
    writers: BTreeSet<&'t str>,
}

impl<'t> Tally<'t> {
    fn with(mut self, thread: &'t Thread<'_>) -> Self {
        thread.files.iter().for_each(|file| self.rows += Rows::from(file));
        thread.rows.iter().for_each(|(table, counts)| self.types.add(table, counts));
        self.writers.extend(thread.writers.iter().map(String::as_str));
        self
    }

    fn and(mut self, other: Self) -> Self {
        self.rows += other.rows;
        self.types += other.types;
        self.writers.extend(other.writers);
        self
    }

    fn rows(self) -> (Rows, Types) {
        let writers = self.writers.into_iter().map(ToOwned::to_owned).collect();
        (Rows { writers, ..self.rows }, self.types)
    }
}

/// The current thread among these, if there is one; and whether it is ambiguous.
fn current(families: &[Family<'_>]) -> (Option<ThreadName>, bool) {
    let can_be = |(thread, _): &&Family<'_>| thread.begun_by.is_none() && !thread.archived;
    let last = |(thread, _): &Family<'_>| Some(thread.pairs.last()?.at);
    let latest = families.iter().filter(can_be).filter_map(last).max();
    // Of the others it need not be known what else decides.
    let latest = families.iter().filter(|family| latest.is_some() && last(family) == latest).filter(can_be);
    match Current::of(&latest.filter_map(|(thread, _)| candidate(thread)).collect::<Vec<_>>()) {
        Current::None => (None, false),
        Current::Ambiguous => (None, true),
        Current::Thread(thread) => {
            let id = thread.session.strip_prefix("codex:").filter(|_| thread.host == Host::Codex);
            (Some(ThreadName { host: thread.host, thread: id.unwrap_or(&thread.session).to_owned() }), false)
        }
    }
}

/// The thread as the choice of the current one sees it.
fn candidate(thread: &Thread<'_>) -> Option<Candidate> {
    let completed_at = thread.pairs.last()?.at;
    // Only where its chain ends in time, and its name, decide.
    let end = End { length: thread.pairs.len(), digest: Digest([0; 32]), completed_at };
    Some(Candidate::ending(thread.host, Digest::of(&thread.id), end, thread.session.clone()))
}

/// How many pairs completed on each day, by host; without those of sub-agents.
fn completions(families: &[Family<'_>]) -> BTreeMap<&'static str, BTreeMap<String, u64>> {
    let mut completions: BTreeMap<&'static str, BTreeMap<i64, u64>> = BTreeMap::new();
    for (thread, _) in families.iter().filter(|(thread, _)| thread.begun_by.is_none() && !thread.pairs.is_empty()) {
        let days = completions.entry(thread.host.name()).or_default();
        for same in thread.pairs.chunk_by(|one, other| one.day() == other.day()) {
            *days.entry(same[0].day()).or_default() += same.len() as u64;
        }
    }
    let by_name = |days: BTreeMap<i64, u64>| days.into_iter().map(|(at, count)| (day(at), count)).collect();
    completions.into_iter().map(|(host, days)| (host, by_name(days))).collect()
}

fn with_children((thread, children): Family<'_>) -> Reported {
    let mut reported = as_reported(*thread);
    reported.children = children.into_iter().map(|child| as_reported(*child)).collect();
    reported.children.sort_by(|one, other| one.thread.cmp(&other.thread));
    reported
}

fn as_reported(mut thread: Thread<'_>) -> Reported {
    thread.files.sort_by(|one, other| one.path.cmp(&other.path));
    let Thread { host, id, cwd, begun_by, archived, pairs, receipts, turns, text_bytes, bodies_present, .. } = thread;
    let at = |pair: &Pair| pair.at;
    let sums = Sums {
        pairs: pairs.len() as u64,
        turns,
        first_completed_at: pairs.first().map(at),
        last_completed_at: pairs.last().map(at),
        text_bytes,
        bodies_present,
        receipts,
    };
    Reported {
        host,
        thread: id,
        cwd,
        sub_agent: begun_by.is_some(),
        archived,
        sums,
        last_row_at: thread.last_row_at,
        children: Vec::new(),
        writers: thread.writers,
        files: thread.files,
    }
}

fn add(sums: &mut Sums, other: &Sums) {
    sums.pairs += other.pairs;
    sums.turns += other.turns;
    let earlier = sums.first_completed_at.into_iter().chain(other.first_completed_at).min();
    sums.first_completed_at = earlier;
    sums.last_completed_at = sums.last_completed_at.max(other.last_completed_at);
    sums.text_bytes += other.text_bytes;
    sums.bodies_present = sums.bodies_present.zip(other.bodies_present).map(|(one, other)| one + other);
    sums.receipts += other.receipts;
}

/// The day of UTC of this number since the epoch, as it is written.
fn day(number: i64) -> String {
    let moment = jiff::Timestamp::from_millisecond(number.saturating_mul(Pair::DAY)).unwrap_or_default();
    jiff::tz::TimeZone::UTC.to_datetime(moment).date().to_string()
}
