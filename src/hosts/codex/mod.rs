//! Codex' threads, from the rollouts below the sessions root.
//!
//! Of every rollout the first row is read; only the files that the chains of the project's threads are made of are read
//! further. What was learned is remembered in the [`cache`](crate::cache): the tree of rollouts, the members of
//! the project in it with where their chains end, and a checkpoint per rollout that was read. A read then looks whether
//! anything can have changed, and reads what has.

pub mod captured;
mod members;
pub mod survey;
pub mod texts;
pub mod threads;
pub mod verify;

use std::collections::HashSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use rayon::prelude::*;
use throughline_parsers::codex::{Meta, Uuid};
use throughline_parsers::text::Digest;

pub use self::members::Members;
use self::members::{Member, Read, Was};
pub use self::threads::session;
use self::threads::{Failure, File, Line, ReadChain};
use super::{Candidate, Need, Needs};
use crate::cache::{About, Name};
use crate::chain::{Chain, Host};
use crate::error::Error;
use crate::paths::Resolved;
use crate::resolving::{Resolving, Then};
use crate::scan::checkpoint::Reader;
use crate::scan::file::{Mapping, Rollout};
use crate::scan::looks::Looks;
use crate::scan::root::Root;
use crate::scan::tree::{Identity, Known, Look, Table, Tree};
use crate::stores::Stores;

/// How often a store is read anew that changes in ways that logs do not: files replaced between two looks at them.
const TRIES: usize = 5;
/// So many members, or folders, are worth a thread that looks at some of them: about as long it takes to start one.
const MANY: usize = 128;
/// So many members are worth all cores where these are at work anyhow.
const MANY_FILES: usize = 1500;

/// The root threads of the project that have completed pairs, those of which something is needed.
///
/// # Errors
/// A folder cannot be listed or a rollout cannot be read.
pub fn candidates(
    stores: &Stores,
    project: &Resolved,
    mapping: Mapping,
    needs: Needs<'_>,
) -> Result<Vec<Candidate>, Error> {
    Ok(look(stores, project, mapping, needs, &|| {})?.into_candidates())
}

/// The project's threads, as one look found them.
#[derive(Debug)]
pub struct Looked {
    root: PathBuf,
    members: Members,
    needed: Vec<(usize, Need)>,
}

impl Looked {
    /// The rollouts in which a change can change a chain of the project: those of its threads, and those that do not say yet
    /// whose they are. Each has the path of the plain file.
    pub fn rollouts(&self) -> HashSet<PathBuf> {
        self.members.rollouts(&self.root)
    }

    /// The root threads that have completed pairs, those of which something is needed.
    pub fn into_candidates(self) -> Vec<Candidate> {
        self.members.into_candidates(&self.root, self.needed)
    }
}

/// What else there is to do.
pub type Meanwhile<'m> = &'m (dyn Fn() + Sync);

/// Looks at the project's threads. Where another core takes part in that, `meanwhile` is done while it begins.
///
/// # Errors
/// As for [`candidates`].
pub fn look(
    stores: &Stores,
    project: &Resolved,
    mapping: Mapping,
    needs: Needs<'_>,
    meanwhile: Meanwhile<'_>,
) -> Result<Looked, Error> {
    let root = stores.sessions_root();
    consistently(stores, mapping, |reader| {
        let mut suspects = HashSet::new();
        // A file that is not what it was makes the tree be looked at once more, and then nothing is left to suspect.
        loop {
            let project = Project { root: &root, resolved: project, reader, meanwhile };
            match project.look_for(&suspects, needs)? {
                Found::Looked(looked) => return Ok(looked),
                Found::Suspects(files) if suspects.is_empty() => suspects = files,
                Found::Suspects(_) => return Err(Failure::Changed),
            }
        }
    })
}

/// Reads until what was read of one file fits what was read of it before.
fn consistently<T>(
    stores: &Stores,
    mapping: Mapping,
    read: impl Fn(Reader<'_>) -> Result<T, Failure>,
) -> Result<T, Error> {
    let cache = stores.cache.as_ref();
    for distrust in (0..TRIES).map(|attempt| attempt > 0) {
        match read(Reader { distrust, ..Reader::new(cache, mapping) }) {
            Err(Failure::Changed) => {}
            Err(Failure::Io(error)) => return Err(Error::internal(error)),
            Ok(found) => return Ok(found),
        }
    }
    Err(Error::internal("the rollouts are replaced faster than they can be read"))
}

enum Found {
    Looked(Looked),
    /// Rollouts that do not say any more what they said.
    Suspects(HashSet<PathBuf>),
}

/// The threads of a project, as far as the tree tells.
struct Gathered {
    members: Members,
    /// They are not as they are remembered.
    changed: bool,
    /// The members that can have changed, if they were looked at.
    suspected: Option<Vec<usize>>,
    /// The tree, if it was looked at.
    learned: Option<Learned>,
}

/// A tree that was looked at.
#[derive(Debug)]
struct Learned {
    tree: Tree,
    /// A digest of what there is; 0 without a cache.
    content: u64,
}

impl Learned {
    /// Looks at the tree below a root.
    fn look(reader: Reader<'_>, root: &Path, earlier: Option<Tree>, suspects: &HashSet<PathBuf>) -> io::Result<Self> {
        let tree = Tree::look(Look { root, now: reader.now, suspects }, earlier)?;
        let content = reader.cache.map_or(0, |_| tree.content());
        Ok(Self { tree, content })
    }

    /// Remembers the tree, if there is something new in it.
    fn store(&self, reader: Reader<'_>, root: &Path) {
        if let Some(cache) = reader.cache.filter(|_| self.tree.has_learned()) {
            cache.store(&root_name(root), &self.tree.save(root, self.content));
        }
    }
}

/// One project below one root, and how it is read.
#[derive(Clone, Copy)]
struct Project<'p> {
    root: &'p Path,
    resolved: &'p Resolved,
    reader: Reader<'p>,
    meanwhile: Meanwhile<'p>,
}

impl Project<'_> {
    fn look_for(self, suspects: &HashSet<PathBuf>, needs: Needs<'_>) -> Result<Found, Failure> {
        let Gathered { mut members, mut changed, suspected, learned } = self.gather(suspects)?;
        let read = || {
            let suspects = self.look(&mut members, suspected)?;
            let read = suspects.is_empty() && self.read_unread(&mut members)?;
            Ok::<_, Failure>((suspects, read))
        };
        let (suspects, read) = match learned {
            Some(learned) => {
                // What is large is let go there, too.
                let store = move || {
                    learned.store(self.reader, self.root);
                    drop(learned);
                };
                rayon::join(read, store).0
            }
            // For that no other core is woken.
            None => read(),
        }?;
        if !suspects.is_empty() {
            return Ok(Found::Suspects(suspects));
        }
        changed |= read;
        let mut needed = members.needed(needs);
        while let Some((n, since)) = members.lacking(&needed) {
            let files = members.files_of(self.root, &members.members[n]).ok_or(Failure::Changed)?;
            let (end, read) = (members.end(&members.members[n]), self.read(files, true, since, &members.cwds)?);
            // Where it is what was remembered, there is nothing to store.
            let read = Member::Read(Box::new(read));
            changed |= members.end(&read) != end;
            members.members[n] = read;
            needed = members.needed(needs);
        }
        if let Some(cache) = self.reader.cache.filter(|_| changed) {
            cache.store(&self.name(), &[members.save(self.root, self.resolved)]);
        }
        Ok(Found::Looked(Looked { root: self.root.to_owned(), members, needed }))
    }

    fn name(self) -> Name {
        Name::of(About::Project, &[self.root.as_os_str().as_bytes(), self.resolved.as_bytes()])
    }

    /// The project's threads, remembered where the tree can only be as it was.
    fn gather(self, suspects: &HashSet<PathBuf>) -> Result<Gathered, Failure> {
        let trusted = self.reader.trusted();
        let saved = trusted.and_then(|cache| cache.load(&self.name())?.next_block());
        let mut remembered = saved.and_then(|bytes| Members::take_up(self.root, self.resolved, bytes));
        let table = trusted.and_then(|cache| cache.load(&root_name(self.root))?.next_block());
        if let (Some(members), Some(table)) = (&mut remembered, table)
            && suspects.is_empty()
            && let Some((table, suspected)) = self.still_holds(members, table)
        {
            members.unknown = table.unknown(self.root);
            let members = remembered.unwrap_or_default();
            return Ok(Gathered { members, changed: false, suspected: Some(suspected), learned: None });
        }
        let mut earlier = known_tree(self.reader, self.root);
        earlier.iter_mut().for_each(|tree| tree.doubt(self.resolved));
        let learned = Learned::look(self.reader, self.root, earlier, suspects)?;
        let Learned { tree, content } = &learned;
        let changed = remembered.as_ref().is_none_or(|members| members.content != *content);
        let members = Members::gather(self.root, tree, *content, self.resolved, remembered);
        Ok(Gathered { members, changed, suspected: None, learned: Some(learned) })
    }

    /// The table of the tree, if the members can only be those that are remembered; and those of them that can have changed.
    fn still_holds(self, members: &Members, table: Vec<u8>) -> Option<(Arc<Table>, Vec<usize>)> {
        let is_right = |table: &Table| table.content == members.content && !table.is_due(self.reader.now);
        let table = Arc::new(Table::unpack(self.root, table).filter(is_right)?);
        let looks = Arc::new(members.looks(Root::open(self.root)?, Some(Arc::clone(&table))));
        // The working directories are resolved at every read, on the other core.
        // (The project itself was followed just now.)
        let is_other = |cwd: &&String| cwd.as_bytes() != self.resolved.as_bytes();
        let others = members.cwds.iter().filter(is_other).cloned().collect();
        // A thread that is left behind with a dead mount keeps nothing open.
        let look = |looks: Weak<Looks>| Box::new(move || looks.upgrade().iter().for_each(|looks| looks.look())) as Then;
        let is_many = table.count() + members.members.len() >= MANY;
        let resolving = Resolving::start_then(others, is_many.then(|| look(Arc::downgrade(&looks))));
        if is_many {
            (self.meanwhile)();
        }
        let changed = looks.changed();
        let places = resolving.wait();
        let is_inside = |cwd: &String| {
            places.get(cwd).is_some_and(|place| place.as_ref().is_some_and(|place| place.is_inside(self.resolved)))
        };
        let all_inside = members.cwds.iter().filter(is_other).all(is_inside);
        let suspected = changed?.into_iter().map(|n| n - table.count()).collect();
        all_inside.then_some((table, suspected))
    }

    /// Looks which of the remembered members can have changed: those are to be read. Gives the files that say something else
    /// than they said.
    fn look(self, members: &mut Members, suspected: Option<Vec<usize>>) -> Result<HashSet<PathBuf>, Failure> {
        let mut suspects = HashSet::new();
        for n in suspected.unwrap_or_else(|| self.changed(members)) {
            let Member::Remembered(range) = &members.members[n] else { continue };
            let mut files = members.files(self.root, range).ok_or(Failure::Changed)?;
            let end = members.end(&members.members[n]).map(|(_, end)| end);
            let was = Box::new(Was { end, files: files.iter().map(|file| (file.stamps, file.taken)).collect() });
            for file in &mut files {
                if !self.look_at(file)? {
                    suspects.insert(file.listed.path.clone());
                }
            }
            members.members[n] = Member::Unread { files, was: Some(was) };
        }
        Ok(suspects)
    }

    /// The remembered members that can have changed.
    fn changed(self, members: &Members) -> Vec<usize> {
        // What cannot be looked at can have changed.
        let Some(root) = Root::open(self.root) else { return (0..members.members.len()).collect() };
        let looks = members.looks(root, None);
        if members.members.len() >= MANY_FILES {
            rayon::broadcast(|_| looks.look());
        }
        looks.changed().unwrap_or_else(|| (0..members.members.len()).collect())
    }

    /// Looks at the first row of a file; false when it says something else than it said.
    fn look_at(self, file: &mut File) -> Result<bool, Failure> {
        let Some(rollout) = Rollout::open(&file.listed)? else { return Ok(false) };
        let known = Known::read(&rollout, file.listed.clone(), self.reader.now)?;
        (file.stamps, file.taken) = (known.stamps, known.taken);
        Ok(known.identity == Identity::Thread(file.meta.clone()) && rollout.packed == file.listed.name.packed)
    }

    /// Reads the members that are to be read, and tells whether there is any news.
    fn read_unread(self, members: &mut Members) -> Result<bool, Failure> {
        let cwds = &members.cwds;
        let read = |member: &mut Member| {
            let Member::Unread { files, was } = member else { return Ok(false) };
            // How much of it is needed is told by where it ends.
            let read = self.read(std::mem::take(files), was.is_some(), usize::MAX, cwds)?;
            let is_news = was.as_ref().is_none_or(|was| read.is_news(was));
            *member = Member::Read(Box::new(read));
            Ok::<_, Failure>(is_news)
        };
        let is_unread = |member: &&mut Member| matches!(member, Member::Unread { .. });
        let mut unread: Vec<&mut Member> = members.members.iter_mut().filter(is_unread).collect();
        match &mut unread[..] {
            [] => Ok(false),
            // For one thread no other core is woken.
            [one] => read(one),
            several => {
                several.par_iter_mut().map(|member| read(member)).try_reduce(|| false, |one, other| Ok(one | other))
            }
        }
    }

    /// Reads one thread: its chain, if its current file is a root thread's in the project. Fewer than `since` pairs of it may
    /// be put aside.
    fn read(self, mut files: Vec<File>, again: bool, since: usize, cwds: &[String]) -> Result<Read, Failure> {
        let thread = files.first().map(File::thread).ok_or(Failure::Changed)?;
        let read = match Line::current(thread, &files, self.reader)? {
            Some(line) if is_root_in(line.file(), cwds) => line.read(self.reader, again, since)?,
            _ => ReadChain { chain: Chain::new(Host::Codex, Digest::of(&thread.to_string())), files: Vec::new() },
        };
        for (listed, stamps, taken) in read.files {
            if let Some(file) = files.iter_mut().find(|file| file.listed == listed) {
                (file.stamps, file.taken) = (stamps, taken);
            }
        }
        Ok(Read { files, chain: read.chain })
    }
}

/// Whether the file is of a root thread in one of the project's working directories, which are in order.
fn is_root_in(file: &File, cwds: &[String]) -> bool {
    let inside = |cwd: &String| cwds.binary_search(cwd).is_ok();
    file.meta.root && file.meta.cwd.as_ref().is_some_and(inside)
}

/// The tree below a root, as far as it is remembered.
fn known_tree(reader: Reader<'_>, root: &Path) -> Option<Tree> {
    let mut saved = reader.trusted()?.load(&root_name(root))?;
    let (table, rest) = (saved.next_block()?, saved.next_block()?);
    Tree::take_up(root, table, &rest)
}

/// Whether the tree below a root can only be the one of this content.
fn root_holds(reader: Reader<'_>, root: &Path, content: u64) -> bool {
    let saved = reader.trusted().and_then(|cache| cache.load(&root_name(root))?.next_block());
    let table = saved.and_then(|saved| Table::unpack(root, saved)).filter(|table| table.content == content);
    table.is_some_and(|table| Root::open(root).is_some_and(|root| table.holds(&root, reader.now)))
}

fn root_name(root: &Path) -> Name {
    Name::of(About::Root, &[root.as_os_str().as_bytes()])
}

/// The files of one thread in a tree.
fn files_of(tree: &Tree, thread: Uuid) -> Vec<File> {
    let file = |(known, meta): (&Known, &Meta)| {
        let (listed, meta) = (known.listed.clone(), meta.clone());
        File { listed, meta, stamps: known.stamps, taken: known.taken }
    };
    let is_of_thread = |known: &Known, meta: &Meta| meta.thread().unwrap_or(known.listed.name.thread) == thread;
    tree.threads().filter(|(known, meta)| is_of_thread(known, meta)).map(file).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cache::Cache;
    use std::fs;
    use std::time::Duration;

    const THREAD: &str = "019c0000-0000-7000-8000-000000000001";

    /// Writes a rollout of `project` with a turn that completes in each of these seconds.
    fn write(folder: &Path, project: &Path, seconds: &[u32]) {
        write_thread(folder, THREAD, project, seconds);
    }

    fn write_thread(folder: &Path, thread: &str, project: &Path, seconds: &[u32]) {
        let row = |kind: &str, payload: String, second: u32| {
            let time = format!("2026-07-01T00:00:{second:02}.000Z");
            format!("{{\"timestamp\":\"{time}\",\"type\":\"{kind}\",\"payload\":{payload}}}\n")
        };
        let mut text = row("session_meta", format!("{{\"id\":\"{thread}\",\"cwd\":{:?}}}", project), 0);
        for second in seconds {
            for event in [
                "task_started\"",
                "user_message\",\"message\":\"a\"",
                "agent_message\",\"message\":\"b\"",
                "task_complete\"",
            ] {
                text += &row("event_msg", format!("{{\"type\":\"{event}}}"), *second);
            }
        }
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(format!("rollout-2026-07-01T00-00-00-{thread}.jsonl")), text).unwrap();
    }

    #[test]
    fn of_copies_the_one_with_the_latest_completion_is_current() {
        let home = tempfile::tempdir().unwrap();
        let stores = Stores::below(home.path());
        let sessions = stores.sessions_root();
        write(&sessions.join("a"), home.path(), &[10, 5]);
        write(&sessions.join("b"), home.path(), &[7]);
        let project = Resolved::new(home.path()).unwrap();
        let found = candidates(&stores, &project, Mapping::Never, &|_, _, _| Need::Chain { since: 0 }).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].end.length, 2);
    }

    /// Of so many members others are looked at by another thread.
    #[test]
    fn of_many_members_the_one_that_has_changed_is_found() {
        let home = tempfile::tempdir().unwrap();
        // A while after the files were written, when their stamps tell.
        let plain = Stores::below(home.path());
        let cache = Cache::below(home.path().join("cache")).ahead_by(Duration::from_secs(10));
        let stores = Stores { cache: Some(cache), ..plain };
        let (sessions, inside) = (stores.sessions_root(), home.path().join("inside"));
        fs::create_dir(&inside).unwrap();
        let thread = |n: usize| format!("019c0000-0000-7000-8000-{n:012}");
        let write_nth = |n: usize, seconds: &[u32]| {
            write_thread(&sessions.join(format!("2026/07/{}", n % 9)), &thread(n), &inside, seconds);
        };
        let members = MANY + 40;
        (0..members).for_each(|n| write_nth(n, &[5]));
        let project = Resolved::new(home.path()).unwrap();
        let completed = || {
            let found = candidates(&stores, &project, Mapping::Never, &|_, _, _| Need::Chain { since: 0 }).unwrap();
            stores.finish();
            let mut ends: Vec<_> = found.iter().map(|found| (found.session.clone(), found.end.length)).collect();
            ends.sort();
            ends
        };
        let mut expected: Vec<_> = (0..members).map(|n| (session(thread(n).parse().unwrap()), 1)).collect();
        expected.sort();
        assert_eq!(completed(), expected);
        for n in [0, 17, members - 1] {
            write_nth(n, &[5, 6, 7]);
            let of_thread = session(thread(n).parse().unwrap());
            expected.iter_mut().find(|(session, _)| *session == of_thread).unwrap().1 = 3;
            assert_eq!((completed(), completed()), (expected.clone(), expected.clone()));
        }
        // The working directory leads elsewhere now: none is the project's.
        fs::remove_dir(&inside).unwrap();
        std::os::unix::fs::symlink("/", &inside).unwrap();
        assert_eq!(completed(), []);
    }
}
