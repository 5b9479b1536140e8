//! What is remembered of Codex' rollouts, compared with a read from nothing.
//!
//! Compared is what a read would rely on now. The rest it would read anew: that is outdated, and no difference.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use throughline_parsers::codex::Uuid;

use super::members::{Member, Members};
use super::threads::{Failure, File, Line};
use super::{Project, files_of, root_name};
use crate::cache::Cache;
use crate::paths::Resolved;
use crate::scan::checkpoint::{Checkpoint, Reader};
use crate::scan::file::{Mapping, Rollout};
use crate::scan::root::Root;
use crate::scan::tree::{Identity, Look, Tree};

/// What a comparison came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything is as it is remembered.
    Equal,
    /// So is what a read would rely on. The rest it would read anew.
    Outdated,
    /// These files and working directories are not as they are remembered.
    Different(BTreeSet<PathBuf>),
}

impl Verdict {
    fn of(differing: BTreeSet<PathBuf>, outdated: bool) -> Self {
        match (differing.is_empty(), outdated) {
            (false, _) => Self::Different(differing),
            (true, true) => Self::Outdated,
            (true, false) => Self::Equal,
        }
    }
}

/// What a read from nothing finds.
#[derive(Debug)]
pub struct Anew<'c> {
    cache: &'c Cache,
    roots: Vec<PathBuf>,
    /// The trees of roots that were looked at: that takes a while, and is done once for all that is remembered below.
    trees: HashMap<PathBuf, Tree>,
}

impl<'c> Anew<'c> {
    /// For what this cache remembers of rollouts below these roots.
    pub fn new(cache: &'c Cache, roots: Vec<PathBuf>) -> Self {
        Self { cache, roots, trees: HashMap::new() }
    }

    /// The same as the stores are now, and not when they were looked at first.
    pub fn again(&self) -> Self {
        Self::new(self.cache, self.roots.clone())
    }

    /// Compares a saved tree.
    ///
    /// # Errors
    /// The root, a folder or a rollout cannot be read.
    pub fn root(&mut self, root: &Path, saved: Tree) -> io::Result<Verdict> {
        let nothing = HashSet::new();
        let look = Look { root, now: self.cache.now(), suspects: &nothing };
        let anew = self.tree(root)?;
        let relied_on = Tree::look(look, Some(saved))?;
        let mut differing = differences(&relied_on, anew);
        if !differing.is_empty() {
            // What was written between the two looks shows when the first one is taken again.
            let meanwhile = differences(anew, &Tree::look(look, None)?);
            differing.retain(|path| !meanwhile.contains(path));
        }
        Ok(Verdict::of(differing, relied_on.has_learned()))
    }

    /// Compares the saved members of a project.
    ///
    /// # Errors
    /// The root, a folder or a rollout cannot be read.
    pub fn project(&mut self, root: &Path, resolved: &Resolved, saved: &[u8]) -> io::Result<Option<Verdict>> {
        let take_up = || Members::take_up(root, resolved, saved.to_vec());
        let (Some(remembered), Some(mut looked_at)) = (take_up(), take_up()) else {
            return Ok(None);
        };
        // The tree first: what holds after that has not changed since.
        let anew = Members::gather(root, self.tree(root)?, remembered.content, resolved, None);
        let project = Project { root, resolved, reader: self.reader(), meanwhile: &|| {} };
        let table = Cache::open(&self.cache.path(&root_name(root))).and_then(|(_, blocks)| blocks?.next_block());
        let all_hold = table.is_some_and(|table| project.still_holds(&remembered, table).is_some());
        let compared = Compared { project, remembered: &remembered, anew: &anew };
        compared.verdict(&mut looked_at, all_hold).or_else(outdated).map(Some)
    }

    /// Compares the checkpoint of a rollout.
    ///
    /// # Errors
    /// The rollout cannot be read.
    pub fn rollout(&mut self, checkpoint: &Checkpoint) -> io::Result<Verdict> {
        self.rollout_of(checkpoint).or_else(outdated)
    }

    fn rollout_of(&mut self, checkpoint: &Checkpoint) -> Result<Verdict, Failure> {
        let Some(listed) = checkpoint.listed() else { return Ok(Verdict::Outdated) };
        let Some(rollout) = Rollout::open(&listed)? else { return Ok(Verdict::Outdated) };
        if !checkpoint.is_relied_on(&listed, &rollout)? {
            return Ok(Verdict::Outdated);
        }
        let read = checkpoint.read_anew(&rollout)?;
        let mut equal = checkpoint.says(&read);
        if let (true, Some(chained), Some(meta)) = (equal, &checkpoint.chained, read.contents.meta()) {
            let thread = meta.thread().unwrap_or(listed.name.thread);
            let root = self
                .roots
                .iter()
                .filter(|root| listed.path.starts_with(root))
                .max_by_key(|root| root.as_os_str().len());
            let files =
                root.cloned().map(|root| Ok::<_, io::Error>(files_of(self.tree(&root)?, thread))).transpose()?;
            if let Some(line) = Line::behind(thread, files.as_deref().unwrap_or_default(), &listed.path) {
                equal = line.chains(read, chained, self.reader())?;
            }
        }
        // It may have been written to while it was read.
        if !equal && !checkpoint.is_relied_on(&listed, &rollout)? {
            return Ok(Verdict::Outdated);
        }
        let differing = if equal { None } else { Some(listed.file()) };
        Ok(Verdict::of(differing.into_iter().collect(), false))
    }

    fn tree(&mut self, root: &Path) -> io::Result<&Tree> {
        if !self.trees.contains_key(root) {
            let tree = Tree::look(Look { root, now: self.cache.now(), suspects: &HashSet::new() }, None)?;
            self.trees.insert(root.to_path_buf(), tree);
        }
        Ok(&self.trees[root])
    }

    /// Reads everything. Nobody waits for it, and agents may cut a file meanwhile: what is not mapped raises no signal.
    fn reader(&self) -> Reader<'static> {
        Reader { now: self.cache.now(), ..Reader::new(None, Mapping::Never) }
    }
}

/// A file that changes while it is read would be read anew.
fn outdated(failure: Failure) -> io::Result<Verdict> {
    match failure {
        Failure::Changed => Ok(Verdict::Outdated),
        Failure::Io(error) => Err(error),
    }
}

/// The rollouts that two trees do not both have or know as the same, and the working directories that lead elsewhere.
fn differences(one: &Tree, other: &Tree) -> BTreeSet<PathBuf> {
    let [known, found] = [one, other].map(identities);
    let differs = |path: &&&Path| known.get(**path) != found.get(**path);
    let mut differing: BTreeSet<PathBuf> =
        known.keys().chain(found.keys()).filter(differs).map(|path| path.to_path_buf()).collect();
    // One that does not answer is in one of the two only, and says nothing.
    let places: HashMap<&str, Option<&Resolved>> = other.places().collect();
    let led = one.places().filter(|(cwd, place)| places.get(cwd).is_some_and(|other| other != place));
    differing.extend(led.map(|(cwd, _)| PathBuf::from(cwd)));
    differing
}

/// What each rollout of a tree is.
fn identities(tree: &Tree) -> HashMap<&Path, (bool, &Identity)> {
    tree.rollouts().map(|known| (known.listed.path.as_path(), (known.listed.name.packed, &known.identity))).collect()
}

/// The members of one project as they are remembered, and as they are gathered anew.
struct Compared<'p> {
    project: Project<'p>,
    remembered: &'p Members,
    anew: &'p Members,
}

impl Compared<'_> {
    /// Compares. `all_hold` says that a read would not look for other members.
    fn verdict(&self, looked_at: &mut Members, all_hold: bool) -> Result<Verdict, Failure> {
        let Self { project, remembered, anew } = *self;
        let members = remembered.members.len();
        // A file that says something else now makes a read look at all of them.
        let all_hold = project.look(looked_at, None)?.is_empty() && all_hold;
        let (known, found) = (self.files(remembered), self.files(anew));
        let mut differing = BTreeSet::new();
        if all_hold {
            let said = |threads: &HashMap<Uuid, Vec<File>>| -> BTreeSet<(PathBuf, Said)> {
                threads.values().flatten().map(said).collect()
            };
            let (known, found) = (said(&known), said(&found));
            differing.extend(known.symmetric_difference(&found).map(|(path, _)| path.clone()));
        }
        let mut unchanged = 0;
        for member in looked_at.members.iter().filter(|member| matches!(member, Member::Remembered(_))) {
            unchanged += 1;
            let files = self.files_of(member);
            let same = files
                .first()
                .and_then(|file| found.get(&file.thread()))
                .is_some_and(|found| found.len() == files.len() && found.iter().map(said).eq(files.iter().map(said)));
            let differs = same && project.read(files.clone(), false, 0, &anew.cwds)?.end() != remembered.end(member);
            // They may have been written to while they were read.
            if differs && self.is_unchanged(member) {
                differing.extend(files.iter().map(|file| file.listed.file()));
            }
        }
        Ok(Verdict::of(differing, !all_hold || unchanged < members))
    }

    fn is_unchanged(&self, member: &Member) -> bool {
        match (Root::open(self.project.root), member) {
            (Some(root), Member::Remembered(range)) => self.remembered.is_unchanged(&root, range),
            _ => false,
        }
    }

    /// The files of all threads.
    fn files(&self, members: &Members) -> HashMap<Uuid, Vec<File>> {
        let files = members.members.iter().map(|member| self.files_of(member));
        files.filter_map(|files| Some((files.first()?.thread(), files))).collect()
    }

    fn files_of(&self, member: &Member) -> Vec<File> {
        self.remembered.files_of(self.project.root, member).unwrap_or_default()
    }
}

/// What a file says, in an order.
type Said = String;

fn said(file: &File) -> (PathBuf, Said) {
    (file.listed.file(), format!("{:?}", file.meta))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;
    use std::time::Duration;

    use crate::cache::About;
    use crate::hosts::Need;
    use crate::hosts::codex::candidates;
    use crate::stores::Stores;

    fn id(n: u64) -> String {
        format!("019c0000-0000-7000-8000-{n:012}")
    }

    fn row(kind: &str, payload: &str) -> String {
        format!("{{\"timestamp\":\"2026-07-01T00:00:00.000Z\",\"type\":\"{kind}\",\"payload\":{payload}}}\n")
    }

    fn turn(n: u64) -> String {
        let started = format!("{{\"type\":\"task_started\",\"turn_id\":\"{}\"}}", id(n));
        let asked = format!("{{\"type\":\"user_message\",\"message\":\"ask {n}\"}}");
        let events =
            [&started, &asked, "{\"type\":\"agent_message\",\"message\":\"a\"}", "{\"type\":\"task_complete\"}"];
        events.map(|payload| row("event_msg", payload)).concat()
    }

    /// A thread of two files, of which the second one continues the first; read until all is remembered.
    fn remembered(home: &Path) -> (Stores, Cache) {
        let stores = Stores::below(home);
        let cache = Cache::below(&stores.cache_home).ahead_by(Duration::from_secs(3));
        let stores = Stores { cache: Some(cache.clone()), ..stores };
        let sessions = stores.sessions_root();
        fs::create_dir_all(&sessions).unwrap();
        let says = |more: &str| row("session_meta", &format!("{{\"id\":\"{}\",\"cwd\":{home:?}{more}}}", id(1)));
        let base = says("") + &turn(11) + &turn(12);
        let end = base.len();
        let cut = format!(",\"history_base\":{{\"thread_id\":\"{}\",\"end_byte_offset\":{end}}}", id(1));
        let name = |rollout: &str| sessions.join(format!("rollout-2026-07-01T00-00-00-{}{rollout}.jsonl", id(1)));
        fs::write(name(""), base + &turn(13)).unwrap();
        fs::write(name(&format!("_{}", id(2))), says(&cut) + &turn(14)).unwrap();
        let project = Resolved::new(home).unwrap();
        for _ in 0..2 {
            let found = candidates(&stores, &project, Mapping::Never, &|_, _, _| Need::Chain { since: 0 }).unwrap();
            assert_eq!(found[0].end.length, 3);
        }
        (stores, cache)
    }

    #[test]
    fn every_part_of_a_checkpoint_is_compared() {
        let home = tempfile::tempdir().unwrap();
        let (stores, cache) = remembered(home.path());
        let mut anew = Anew::new(&cache, vec![stores.sessions_root()]);
        let checkpoints = || {
            let opened = cache.files().into_iter().filter_map(|file| Cache::open(&file.0));
            let of_rollouts = opened.filter(|(about, _)| *about == About::Rollout);
            of_rollouts.map(|(_, blocks)| Checkpoint::unpack(&mut blocks.unwrap()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(checkpoints().len(), 2);
        type Change = fn(&mut Checkpoint);
        let changes: [(Change, bool); 7] = [
            (|_| {}, true),
            // That the chain in front was another one does not matter: then this is not used.
            (|checkpoint| checkpoint.chained.as_mut().unwrap().onto.0 += 1, true),
            (|checkpoint| checkpoint.chained.as_mut().unwrap().last_order += 1, false),
            (|checkpoint| checkpoint.chained.as_mut().unwrap().rolling = Default::default(), false),
            (|checkpoint| checkpoint.state.copied ^= true, false),
            (|checkpoint| checkpoint.state.turns = Default::default(), false),
            (|checkpoint| checkpoint.state.rows = Default::default(), false),
        ];
        for (n, (change, equal)) in changes.into_iter().enumerate() {
            for mut checkpoint in checkpoints() {
                change(&mut checkpoint);
                let path = checkpoint.of.path.clone();
                let wanted = if equal { Verdict::Equal } else { Verdict::Different(BTreeSet::from([path])) };
                assert_eq!(anew.rollout(&checkpoint).unwrap(), wanted, "change {n} of {:?}", checkpoint.of);
            }
        }
        // Of a file that was cut nothing is relied on.
        for checkpoint in checkpoints() {
            let file = fs::OpenOptions::new().write(true).open(&checkpoint.of.path).unwrap();
            file.set_len(checkpoint.state.offset - 1).unwrap();
            assert_eq!(anew.rollout(&checkpoint).unwrap(), Verdict::Outdated);
            fs::remove_file(&checkpoint.of.path).unwrap();
            assert_eq!(anew.rollout(&checkpoint).unwrap(), Verdict::Outdated);
        }
    }
}
