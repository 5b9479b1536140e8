//! The threads of Codex, each made of its rollouts.

use std::convert::Infallible;
use std::path::Path;

use rayon::prelude::*;
use throughline_parsers::codex::Uuid;

use super::gather::{Gathered, Place};
use super::record::Record;
use super::rollouts::Rollout;
use super::threads::Thread;
use crate::chain::Host;
use crate::hosts::codex::threads::{self, File, Line};
use crate::scan::folders::Listed;

/// The rollouts of each thread.
#[derive(Debug)]
pub struct Families(Vec<Family>);

/// The rollouts of one thread.
#[derive(Debug)]
struct Family {
    id: Uuid,
    files: Vec<File>,
    /// Where each of them is among those that were gathered.
    places: Vec<Place>,
}

impl Families {
    /// Puts the rollouts of each thread together.
    pub fn of(rollouts: &Gathered<Rollout>) -> Self {
        let members: Vec<(Place, &Record<Rollout>)> = rollouts.records().collect();
        let file = |(place, record): &(Place, &Record<Rollout>)| {
            let (meta, named) = (record.summary.meta.clone()?, record.path.file_name()?.to_str()?);
            let listed = Listed::named(record.path.parent()?, named)?;
            let file = File { listed, meta, stamps: record.stamps, taken: record.taken };
            Some((file.thread(), file, *place))
        };
        let mut members: Vec<(Uuid, File, Place)> = members.par_iter().filter_map(file).collect();
        members.par_sort_by_key(|(thread, _, place)| (*thread, *place));
        let mut families: Vec<Family> = Vec::with_capacity(members.len());
        for (id, file, place) in members {
            match families.last_mut().filter(|family| family.id == id) {
                Some(family) => {
                    family.files.push(file);
                    family.places.push(place);
                }
                None => families.push(Family { id, files: vec![file], places: vec![place] }),
            }
        }
        Self(families)
    }

    /// The files that have to be known also as they are cut: those that others continue.
    pub fn cuts(&self) -> Vec<(Place, u64)> {
        let several = self.0.iter().filter(|family| family.files.len() > 1);
        let of_one = |family: &'_ Family| -> Vec<_> {
            threads::bases(&family.files).map(|(file, end)| (family.place(file), end)).collect()
        };
        several.flat_map(of_one).collect()
    }

    /// The threads. Those whose current file is below `archive` are archived.
    pub fn threads<'r>(&self, rollouts: &'r Gathered<Rollout>, archive: &Path) -> Vec<Thread<'r>> {
        self.0.par_iter().filter_map(|family| family.thread(rollouts, archive)).collect()
    }
}

impl Family {
    fn place(&self, file: &File) -> Place {
        let index = self.files.iter().position(|other| std::ptr::eq(other, file));
        self.places[index.expect("it is one of these files")]
    }

    fn thread<'r>(&self, rollouts: &'r Gathered<Rollout>, archive: &Path) -> Option<Thread<'r>> {
        let latest = |line: &Line<'_>| {
            let pairs = self.parts(line, rollouts).into_iter().flat_map(|part| &part.pairs);
            Ok::<_, Infallible>(pairs.map(|pair| pair.at).max().unwrap_or(-1))
        };
        let Ok(line) = Line::current_by(self.id, &self.files, latest);
        let line = line?;
        let mut thread = Thread::new(Host::Codex, self.id.to_string(), threads::session(self.id));
        let current = line.file();
        thread.cwd.clone_from(&current.meta.cwd);
        thread.archived = current.listed.path.starts_with(archive);
        for part in self.parts(&line, rollouts).iter().rev() {
            thread.pairs.extend(&part.pairs);
            thread.turns += part.turns;
            thread.text_bytes += part.text_bytes;
        }
        if !current.meta.root {
            let Rollout { tree, parent, .. } = &rollouts.record(self.place(current)).summary;
            let own = |id: &&String| **id != thread.id;
            thread.begun_by = Some([tree, parent].into_iter().flatten().filter(own).cloned().collect());
        }
        self.places.iter().for_each(|place| thread.add_file(rollouts.record(*place)));
        Some(thread)
    }

    /// The current file and its bases, as far as they say what they are.
    fn parts<'r>(&self, line: &Line<'_>, rollouts: &'r Gathered<Rollout>) -> Vec<&'r Rollout> {
        let part = |(file, end): &(&File, Option<u64>)| {
            let record = rollouts.record(self.place(file));
            match end {
                None => Some(&record.summary),
                Some(end) => record.cuts.iter().find(|(known, _)| known == end).map(|(_, cut)| cut),
            }
        };
        line.parts().iter().map_while(part).take_while(|part| part.meta.is_some()).collect()
    }
}
