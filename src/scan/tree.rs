//! Which rollouts there are below a sessions root, and what each says it is: known from an earlier look as far as nothing
//! can have changed.
//!
//! A folder of the same stamps has the same names. A rollout that was identified is not looked at again until its folder
//! changes or some minutes have passed; one whose first row was not complete yet is, whenever it has changed. Each
//! working directory is resolved when a row that names it is read.
//!
//! Links below the root are not followed. No root is no rollouts.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rayon::prelude::*;
use rustix::fs::CWD;
use throughline_parsers::codex::Meta;

use super::file::{Opener, Rollout};
use super::folders::{self, Listed};
use super::stamps::{Moment, Stamps};
use crate::paths::Resolved;
use crate::resolving::Resolving;

mod saved;

pub use saved::{Table, pack_meta, unpack_meta};

/// After so long everything that was passed over is looked at once more.
pub const LOOK_AGAIN: Duration = Duration::from_secs(300);

/// So many rollouts of one folder are looked at by one core.
const FEW: usize = 64;

/// All rollouts below a root.
#[derive(Debug, Default)]
pub struct Tree {
    folders: Vec<Folder>,
    /// Where each working directory leads. One that did not answer is not in here.
    places: HashMap<String, Place>,
    /// Something was learned that a later look can use.
    learned: bool,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    stamps: Stamps,
    taken: Moment,
    /// When all its rollouts were looked at.
    looked: Moment,
    rollouts: Vec<Known>,
    /// The folders in it.
    below: Vec<PathBuf>,
}

/// A rollout and what it says it is.
#[derive(Clone, Debug)]
pub struct Known {
    /// The file.
    pub listed: Listed,
    /// What it was when it was looked at.
    pub stamps: Stamps,
    /// When that was.
    pub taken: Moment,
    /// What it says.
    pub identity: Identity,
    /// Its first row was read in this look.
    read_now: bool,
}

/// What a rollout says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Its first row is not complete yet.
    Unknown,
    /// It is no thread's.
    None,
    /// The identity of a thread's file.
    Thread(Meta),
}

#[derive(Clone, Debug)]
struct Place {
    resolved: Option<Resolved>,
    at: Moment,
    /// It is to be resolved at the next look.
    doubted: bool,
}

/// What is asked of a look at a tree.
#[derive(Clone, Copy, Debug)]
pub struct Look<'l> {
    /// The sessions root.
    pub root: &'l Path,
    /// The present moment.
    pub now: Moment,
    /// Rollouts that are not what an earlier look said.
    pub suspects: &'l HashSet<PathBuf>,
}

impl Tree {
    /// Looks at the tree, using what is known from an `earlier` look.
    ///
    /// # Errors
    /// The root cannot be looked at, a folder cannot be listed, or a rollout cannot be read: leaving it out could hide the
    /// one that matters.
    pub fn look(look: Look<'_>, earlier: Option<Self>) -> io::Result<Self> {
        let mut tree = Self::default();
        if Stamps::of_linked(look.root)?.is_none() {
            return Ok(tree);
        }
        let earlier = earlier.unwrap_or_default();
        let mut known: HashMap<PathBuf, Folder> =
            earlier.folders.into_iter().map(|folder| (folder.path.clone(), folder)).collect();
        // Level by level: the folders of one level are looked at at once.
        let mut level = vec![look.root.to_path_buf()];
        while !level.is_empty() {
            let with_known: Vec<_> = level.drain(..).map(|path| (known.remove(&path), path)).collect();
            let looked = with_known.into_par_iter().map(|(known, path)| Folder::look(look, path, known));
            for (folder, learned) in looked.collect::<io::Result<Vec<_>>>()?.into_iter().flatten() {
                tree.learned |= learned;
                level.extend(folder.below.iter().cloned());
                tree.folders.push(folder);
            }
        }
        tree.learned |= !known.is_empty();
        tree.resolve(look.now, earlier.places);
        Ok(tree)
    }

    /// The rollouts of threads, folder by folder.
    pub fn threads(&self) -> impl Iterator<Item = (&Known, &Meta)> {
        self.folders.iter().flat_map(Folder::threads)
    }

    /// The same on all cores, in no order.
    pub fn par_threads(&self) -> impl ParallelIterator<Item = (&Known, &Meta)> {
        self.folders.par_iter().flat_map_iter(Folder::threads)
    }

    /// All rollouts.
    pub fn rollouts(&self) -> impl Iterator<Item = &Known> {
        self.folders.iter().flat_map(|folder| &folder.rollouts)
    }

    /// Whether this working directory is the project or inside it. One that did not answer is not.
    pub fn is_inside(&self, cwd: &str, project: &Resolved) -> bool {
        let place = self.places.get(cwd).and_then(|place| place.resolved.as_ref());
        place.is_some_and(|place| place.is_inside(project))
    }

    /// The working directories and where they lead.
    pub fn places(&self) -> impl Iterator<Item = (&str, Option<&Resolved>)> {
        self.places.iter().map(|(cwd, place)| (cwd.as_str(), place.resolved.as_ref()))
    }

    /// Has the working directories of a project resolved at the next look, however lately they were: a link on the way to
    /// one may lead elsewhere now.
    pub fn doubt(&mut self, project: &Resolved) {
        for place in self.places.values_mut() {
            place.doubted = place.resolved.as_ref().is_some_and(|place| place.is_inside(project));
        }
    }

    /// Whether something was learned that a later look can use.
    pub fn has_learned(&self) -> bool {
        self.learned
    }

    /// Resolves the working directories that were not resolved lately, or that a row names that was read now.
    fn resolve(&mut self, now: Moment, mut earlier: HashMap<String, Place>) {
        let mut named: HashMap<&str, bool> = HashMap::new();
        for (known, meta) in self.threads() {
            if let Some(cwd) = meta.cwd.as_deref().filter(|_| meta.root) {
                *named.entry(cwd).or_default() |= known.read_now;
            }
        }
        let (mut places, mut doubted, mut to_resolve) = (HashMap::new(), HashMap::new(), Vec::new());
        for (cwd, read_now) in named {
            match earlier.remove(cwd).filter(|place| !read_now && !is_due(place.at, now)) {
                Some(place) if place.doubted => drop(doubted.insert(cwd.to_owned(), place)),
                Some(place) => drop(places.insert(cwd.to_owned(), place)),
                None => to_resolve.push(cwd.to_owned()),
            }
        }
        self.learned |= !to_resolve.is_empty();
        to_resolve.extend(doubted.keys().cloned());
        let resolved = Resolving::start(to_resolve).wait();
        // That one still leads where it led is nothing new.
        self.learned |= doubted.iter().any(|(cwd, place)| resolved.get(cwd) != Some(&place.resolved));
        let place = |(cwd, resolved)| (cwd, Place { resolved, at: now, doubted: false });
        places.extend(resolved.into_iter().map(place));
        self.places = places;
    }
}

/// Whether what was done then is to be done again.
fn is_due(then: Moment, now: Moment) -> bool {
    now.since(then).is_none_or(|age| age >= LOOK_AGAIN)
}

impl Folder {
    fn threads(&self) -> impl Iterator<Item = (&Known, &Meta)> {
        self.rollouts.iter().filter_map(|known| match &known.identity {
            Identity::Thread(meta) => Some((known, meta)),
            _ => None,
        })
    }

    /// Looks at one folder, and tells whether something was learned; `None` when it is not there.
    fn look(look: Look<'_>, path: PathBuf, known: Option<Self>) -> io::Result<Option<(Self, bool)>> {
        let found = if path == look.root { Stamps::of_linked(&path)? } else { Stamps::of_path(CWD, &path)? };
        let Some(found) = found else { return Ok(None) };
        let same =
            known.as_ref().is_some_and(|known| found.stamps == known.stamps && known.stamps.settled(known.taken));
        let due = known.as_ref().is_none_or(|known| is_due(known.looked, look.now));
        let looked = known.as_ref().filter(|_| same && !due).map_or(look.now, |known| known.looked);
        let (below, to_look_at, kept) = match known {
            Some(known) if same => {
                let is_kept = |known: &Known| {
                    !due && known.identity != Identity::Unknown && !look.suspects.contains(&known.listed.path)
                };
                let (kept, others): (Vec<_>, Vec<_>) = known.rollouts.into_iter().partition(is_kept);
                (known.below, others.into_iter().map(|known| (known.listed.clone(), Some(known))).collect(), kept)
            }
            known => {
                let inside = folders::list(&path)?;
                let known = known.into_iter().flat_map(|known| known.rollouts);
                let mut known: HashMap<_, _> = known.map(|known| (known.listed.path.clone(), known)).collect();
                let with_known = |listed: Listed| {
                    let known = known.remove(&listed.path).filter(|known| known.listed == listed);
                    (listed, known)
                };
                (inside.folders, inside.rollouts.into_iter().map(with_known).collect::<Vec<_>>(), Vec::new())
            }
        };
        let all_new = to_look_at.iter().any(|(_, known)| known.is_none());
        let opener = Opener::of(&path);
        // Of few files no part is given to another core: that has folders of its own.
        let looked_at = to_look_at.into_par_iter().with_min_len(FEW).map(|(listed, known)| {
            let known = known.filter(|known| !look.suspects.contains(&known.listed.path));
            Known::look(&opener, listed, known, look.now)
        });
        let mut rollouts: Vec<Known> = looked_at.filter_map(Result::transpose).collect::<io::Result<_>>()?;
        let read_any = rollouts.iter().any(|known| known.read_now);
        rollouts.extend(kept);
        // Names that were learned in the moment of a change have to be learned once more.
        let learned = all_new || read_any || due || (!same && found.stamps.settled(look.now));
        let taken = look.now;
        Ok(Some((Self { path, stamps: found.stamps, taken, looked, rollouts, below }, learned)))
    }
}

impl Known {
    /// Looks at one rollout: at its first row, unless nothing can have changed since that was `known`. `None` when it is
    /// gone.
    fn look(opener: &Opener, listed: Listed, known: Option<Self>, now: Moment) -> io::Result<Option<Self>> {
        if let Some(known) = known.filter(|known| known.stamps.settled(known.taken))
            && opener.stamps(&listed)? == Some(known.stamps)
        {
            return Ok(Some(Self { read_now: false, ..known }));
        }
        match opener.open(&listed)? {
            Some(rollout) => Ok(Some(Self::read(&rollout, listed, now)?)),
            None => Ok(None),
        }
    }

    /// Reads the first row of an open rollout.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(rollout: &Rollout, listed: Listed, now: Moment) -> io::Result<Self> {
        let identity = match rollout.first_object()? {
            None => Identity::Unknown,
            Some((None, _)) => Identity::None,
            Some((Some(meta), _)) => Identity::Thread(meta),
        };
        Ok(Self { listed, stamps: rollout.stamps, taken: now, identity, read_now: true })
    }
}
