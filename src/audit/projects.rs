//! Threads put into their projects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use throughline_parsers::count::Count;
use throughline_parsers::text::Digest;

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
pub type Family<'r> = (Thread<'r>, Vec<Thread<'r>>);

/// Puts sub-agents' threads below the threads at their roots, and all into their projects.
pub fn group<'r>(threads: Vec<Thread<'r>>, sites: &Sites) -> BTreeMap<Key, Vec<Family<'r>>> {
    // Most threads have a root that others have, too.
    let mut by_root: HashMap<&[u8], Vec<Family<'r>>> = HashMap::new();
    let mut groups: BTreeMap<Key, Vec<Family<'r>>> = BTreeMap::new();
    for family in families(threads) {
        let (thread, _) = &family;
        let group = match thread.cwd.as_deref().and_then(|cwd| sites.of(cwd)) {
            Some(site) => by_root.entry(site.root.as_bytes()).or_default(),
            None => groups.entry(thread.store.map_or(Key::Nowhere, Key::Digest)).or_default(),
        };
        group.push(family);
    }
    groups.extend(by_root.into_iter().map(|(root, families)| (Key::Root(root.to_vec()), families)));
    groups
}

/// The threads that stand by themselves, each with those of its sub-agents. One whose root is not there stands by itself.
fn families(threads: Vec<Thread<'_>>) -> Vec<Family<'_>> {
    let mut children: HashMap<usize, usize> = HashMap::new();
    {
        let at: HashMap<(Host, &str), usize> =
            threads.iter().enumerate().map(|(n, thread)| ((thread.host, thread.id.as_str()), n)).collect();
        let above = |n: usize| {
            let begun_by = threads[n].begun_by.iter().flatten();
            let found = begun_by.filter_map(|id| at.get(&(threads[n].host, id.as_str())));
            found.copied().find(|above| *above != n)
        };
        for n in (0..threads.len()).filter(|n| threads[*n].begun_by.is_some()) {
            // A circle ends somewhere.
            let root = std::iter::successors(Some(n), |n| above(*n)).take(64).last().unwrap_or(n);
            if root != n && threads[root].begun_by.is_none() {
                children.insert(n, root);
            }
        }
    }
    let mut families: Vec<Option<Family<'_>>> = Vec::with_capacity(threads.len());
    let mut moved = Vec::new();
    for (n, thread) in threads.into_iter().enumerate() {
        match children.get(&n) {
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

/// A project as it is reported. `present` tells of how many pairs of a thread the bodies are in the database.
pub fn project(key: &Key, threads: Vec<Family<'_>>, present: &HashMap<String, Option<u64>>) -> Project {
    let (root, project_sha256) = match key {
        Key::Root(path) => {
            let root = Resolved::from_saved(path);
            (Some(root.path().to_string_lossy().into_owned()), Some(root.digest()))
        }
        Key::Digest(digest) => (None, Some(*digest)),
        Key::Nowhere => (None, None),
    };
    let (mut rows, mut types) = (Rows::default(), Types::default());
    let mut completions: BTreeMap<&'static str, BTreeMap<i64, u64>> = BTreeMap::new();
    let mut candidates = Vec::new();
    let mut writers = BTreeSet::new();
    let (mut sums, mut reported) = (Sums { bodies_present: Some(0), ..Sums::default() }, Vec::new());
    for (thread, children) in threads {
        for one in std::iter::once(&thread).chain(&children) {
            add_rows(&mut rows, one);
            one.rows.iter().for_each(|(table, counts)| types.add(table, counts));
            writers.extend(one.writers.iter().cloned());
        }
        let is_sub_agent = thread.begun_by.is_some();
        if !is_sub_agent {
            for pair in &thread.pairs {
                let days = completions.entry(thread.host.name()).or_default();
                *days.entry(pair.at.div_euclid(DAY)).or_default() += 1;
            }
            candidates.extend((!thread.archived).then(|| candidate(&thread)).flatten());
        }
        let mut own = as_reported(thread, present);
        own.children = children.into_iter().map(|child| as_reported(child, present)).collect();
        own.children.sort_by(|one, other| one.thread.cmp(&other.thread));
        if !is_sub_agent {
            add(&mut sums, &own.sums);
        }
        reported.push(own);
    }
    reported.sort_by(|one, other| {
        let key = |thread: &Reported| (std::cmp::Reverse(thread.sums.last_completed_at), thread.host);
        key(one).cmp(&key(other)).then_with(|| one.thread.cmp(&other.thread))
    });
    let current = Current::of(&candidates);
    rows.writers = writers.into_iter().collect();
    let row_type = |(name, count): (String, Count)| (name, RowType { rows: count.rows, bytes: count.bytes });
    let by_name = |days: BTreeMap<i64, u64>| days.into_iter().map(|(at, count)| (day(at), count)).collect();
    Project {
        root,
        project_sha256,
        ambiguous: matches!(current, Current::Ambiguous),
        current: match current {
            Current::Thread(thread) => {
                let id = thread.session.strip_prefix("codex:").filter(|_| thread.host == Host::Codex);
                Some(ThreadName { host: thread.host, thread: id.unwrap_or(&thread.session).to_owned() })
            }
            Current::None | Current::Ambiguous => None,
        },
        sums,
        rows,
        completions: completions.into_iter().map(|(host, days)| (host, by_name(days))).collect(),
        row_types: types.by_name().into_iter().map(row_type).collect(),
        threads: reported,
    }
}

/// The thread as the choice of the current one sees it.
fn candidate(thread: &Thread<'_>) -> Option<Candidate> {
    let completed_at = thread.pairs.last()?.at;
    // Only where its chain ends in time, and its name, decide.
    let end = End { length: thread.pairs.len(), digest: Digest([0; 32]), completed_at };
    Some(Candidate::ending(thread.host, Digest::of(&thread.id), end, thread.session.clone()))
}

fn as_reported(mut thread: Thread<'_>, present: &HashMap<String, Option<u64>>) -> Reported {
    thread.files.sort_by(|one, other| one.path.cmp(&other.path));
    let Thread { host, id, cwd, begun_by, archived, pairs, receipts, turns, text_bytes, .. } = thread;
    let at = |pair: &super::record::Pair| pair.at;
    let sums = Sums {
        pairs: pairs.len() as u64,
        turns,
        first_completed_at: pairs.first().map(at),
        last_completed_at: pairs.last().map(at),
        text_bytes,
        bodies_present: present.get(&thread.session).copied().unwrap_or(Some(0)),
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

fn add_rows(rows: &mut Rows, thread: &Thread<'_>) {
    for file in &thread.files {
        rows.bytes += file.bytes;
        rows.rows += file.rows;
        rows.unreadable_rows += file.unreadable_rows;
        rows.unreadable.add(file.unreadable);
        for (name, count) in &file.unknown_types {
            *rows.unknown_types.entry(name.clone()).or_default() += count;
        }
    }
}

/// A day in milliseconds.
const DAY: i64 = 86_400_000;

/// The day of UTC of this number since the epoch, as it is written.
fn day(number: i64) -> String {
    let moment = jiff::Timestamp::from_millisecond(number.saturating_mul(DAY)).unwrap_or_default();
    jiff::tz::TimeZone::UTC.to_datetime(moment).date().to_string()
}
