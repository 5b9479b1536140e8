//! The threads of Codex, each made of its rollouts.

use std::convert::Infallible;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rayon::prelude::*;
use smallvec::{SmallVec, smallvec};
use throughline_parsers::codex::{Meta, RolloutName, Uuid};

use super::gather::{Gathered, Place};
use super::record::Record;
use super::rollouts::Rollout;
use super::threads::Thread;
use crate::chain::Host;
use crate::hosts::codex::threads::{self, File, Line};
use crate::scan::folders::Listed;

/// The rollouts of each thread.
#[derive(Debug)]
pub struct Families {
    /// All that are a thread's, in the order of the threads.
    members: Vec<(Uuid, Place)>,
    families: Vec<Family>,
}

/// The rollouts of one thread.
#[derive(Debug)]
struct Family {
    /// Where they are among the members.
    members: Range<usize>,
    /// What decides which of several is current; of one that is clear.
    files: Vec<File>,
}

/// What is made of a thread's current file.
struct Current<'r> {
    record: &'r Record<Rollout>,
    /// What it and its bases come to, as far as they say what they are.
    parts: SmallVec<[&'r Rollout; 1]>,
}

impl Families {
    /// Puts the rollouts of each thread together.
    pub fn of(rollouts: &Gathered<Rollout>) -> Self {
        let thread = |(place, record): (Place, &Record<Rollout>)| {
            let (_, meta, name) = said(record)?;
            Some((meta.thread().unwrap_or(name.thread), place))
        };
        let mut members: Vec<(Uuid, Place)> = rollouts.par_records().filter_map(thread).collect();
        members.par_sort_unstable();
        let mut families = Vec::with_capacity(members.len());
        let mut start = 0;
        for same in members.chunk_by(|one, other| one.0 == other.0) {
            let of_family = start..start + same.len();
            start = of_family.end;
            let files = match same {
                [_] => Vec::new(),
                several => several.iter().filter_map(|(_, place)| file(rollouts.record(*place))).collect(),
            };
            families.push(Family { members: of_family, files });
        }
        Self { members, families }
    }

    /// The files that have to be known also as they are cut: those that others continue.
    pub fn cuts(&self) -> Vec<(Place, u64)> {
        let of_one = |family: &Family| -> Vec<_> {
            threads::bases(&family.files).map(|(file, end)| (self.place(family, file), end)).collect()
        };
        self.families.iter().filter(|family| !family.files.is_empty()).flat_map(of_one).collect()
    }

    /// The threads. Those whose current file is below `archive` are archived.
    pub fn threads<'r>(&self, rollouts: &'r Gathered<Rollout>, archive: &Path) -> Vec<Box<Thread<'r>>> {
        self.families.par_iter().filter_map(|family| self.thread(family, rollouts, archive)).map(Box::new).collect()
    }

    fn place(&self, family: &Family, file: &File) -> Place {
        let index = family.files.iter().position(|other| std::ptr::eq(other, file));
        self.members[family.members.start + index.expect("it is one of these files")].1
    }

    fn thread<'r>(&self, family: &Family, rollouts: &'r Gathered<Rollout>, archive: &Path) -> Option<Thread<'r>> {
        let members = &self.members[family.members.clone()];
        let id = members.first()?.0;
        let Current { record, parts } = match members {
            [(_, only)] => {
                let record = rollouts.record(*only);
                Current { record, parts: smallvec![&record.summary] }
            }
            _ => self.current(id, family, rollouts)?,
        };
        let Rollout { meta, tree, parent, .. } = &record.summary;
        let meta = meta.as_ref()?;
        let mut thread = Thread::new(Host::Codex, id.to_string(), threads::session(id));
        thread.cwd.clone_from(&meta.cwd);
        thread.archived = is_below(&record.path, archive);
        for part in parts.iter().rev() {
            thread.pairs.extend(&part.pairs);
            thread.turns += part.turns;
            thread.text_bytes += part.text_bytes;
        }
        if !meta.root {
            let own = |id: &&String| **id != thread.id;
            thread.begun_by = Some([tree, parent].into_iter().flatten().filter(own).cloned().collect());
        }
        members.iter().for_each(|(_, place)| thread.add_file(rollouts.record(*place)));
        Some(thread)
    }

    /// The current one of several files.
    fn current<'r>(&self, id: Uuid, family: &Family, rollouts: &'r Gathered<Rollout>) -> Option<Current<'r>> {
        let latest = |line: &Line<'_>| {
            let pairs = self.parts(family, line, rollouts).into_iter().flat_map(|part| &part.pairs);
            Ok::<_, Infallible>(pairs.map(|pair| pair.at).max().unwrap_or(-1))
        };
        let Ok(line) = Line::current_by(id, &family.files, latest);
        let line = line?;
        let record = rollouts.record(self.place(family, line.file()));
        Some(Current { record, parts: self.parts(family, &line, rollouts) })
    }

    /// The current file and its bases, as far as they say what they are.
    fn parts<'r>(
        &self,
        family: &Family,
        line: &Line<'_>,
        rollouts: &'r Gathered<Rollout>,
    ) -> SmallVec<[&'r Rollout; 1]> {
        let part = |(file, end): &(&File, Option<u64>)| {
            let record = rollouts.record(self.place(family, file));
            match end {
                None => Some(&record.summary),
                Some(end) => record.cuts.iter().find(|(known, _)| known == end).map(|(_, cut)| cut),
            }
        };
        line.parts().iter().map_while(part).take_while(|part| part.meta.is_some()).collect()
    }
}

/// What a rollout says that is a thread's: its name, what is in its first row, and what the name says.
fn said(record: &Record<Rollout>) -> Option<(&str, &Meta, RolloutName)> {
    let (named, meta) = (record.path.file_name()?.to_str()?, record.summary.meta.as_ref()?);
    Some((named, meta, RolloutName::parse(named)?))
}

fn file(record: &Record<Rollout>) -> Option<File> {
    let (named, meta, _) = said(record)?;
    let listed = Listed::named(record.path.parent()?, named)?;
    Some(File { listed, meta: meta.clone(), stamps: record.stamps, taken: record.taken })
}

fn is_below(path: &Path, folder: &Path) -> bool {
    // Of most paths the bytes tell, without a look at each of their components.
    path.as_os_str().as_bytes().starts_with(folder.as_os_str().as_bytes()) && path.starts_with(folder)
}
