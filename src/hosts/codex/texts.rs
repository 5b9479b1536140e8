//! The texts of Codex' threads, for those who store them.

use std::collections::HashSet;
use std::path::Path;

use throughline_parsers::codex::{Meta, Role, Turn, Turns, Uuid};

use super::captured::Captured;
use super::threads::{Failure, Line, ReadTexts};
use super::{Learned, TRIES, consistently, files_of, known_tree};
use crate::error::Error;
use crate::paths::Resolved;
use crate::scan::checkpoint::{Checkpoint, Reader};
use crate::scan::file::{Mapping, Rollout};
use crate::scan::folders::Listed;
use crate::scan::stamps::Stamps;
use crate::stores::Stores;

/// What capture stores of a thread.
#[derive(Clone, Debug)]
pub struct Texts {
    /// The thread.
    pub thread: Uuid,
    /// The working directory that its current file names; absolute.
    pub cwd: String,
    /// Its turns: the completed ones in the order of the chain, then the others; none without any text.
    pub turns: Vec<TurnTexts>,
    /// What a later capture of the thread can go on from.
    pub captured: Option<Box<Captured>>,
    /// The files that they were read from: what they were then.
    files: Vec<(Listed, Stamps)>,
}

impl Texts {
    /// Whether the files are what they were when the texts were read.
    pub fn are_of_now(&self) -> bool {
        let is_same = |(listed, stamps): &(Listed, Stamps)| matches!(Rollout::open(listed), Ok(Some(now)) if now.stamps == *stamps);
        self.files.iter().all(is_same)
    }
}

/// The texts of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnTexts {
    /// Its ordinal among the numbered turns of the thread, those of its bases first; from 1.
    pub number: i64,
    /// The user's joined text.
    pub user: Option<String>,
    /// The assistant's joined text.
    pub assistant: Option<String>,
    /// When it completed, in milliseconds since the epoch; `None` while it has not.
    pub completed_at: Option<i64>,
}

/// The threads whose texts can be had.
#[derive(Debug)]
pub struct Threads<'s> {
    stores: &'s Stores,
    mapping: Mapping,
    learned: Learned,
}

impl<'s> Threads<'s> {
    /// Looks which rollouts there are.
    ///
    /// # Errors
    /// A folder cannot be listed or a rollout cannot be read.
    pub fn look(stores: &'s Stores, mapping: Mapping) -> Result<Self, Error> {
        let root = stores.sessions_root();
        let learned = consistently(stores, mapping, |reader| Ok(look(reader, &root)?))?;
        Ok(Self { stores, mapping, learned })
    }

    /// The threads of which a file says that a person began it; in this project, if one is given. In the order of their
    /// ids, which is that of their beginnings.
    pub fn ids(&self, project: Option<&Resolved>) -> Vec<Uuid> {
        let of_project = |cwd: &str| project.is_none_or(|project| self.learned.tree.is_inside(cwd, project));
        let is_wanted = |meta: &Meta| meta.root && meta.cwd.as_deref().is_some_and(of_project);
        let wanted = self.learned.tree.threads().filter(|(_, meta)| is_wanted(meta));
        let mut ids: Vec<Uuid> =
            wanted.map(|(known, meta)| meta.thread().unwrap_or(known.listed.name.thread)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The texts of a thread; `None` when there is no such thread, or when it is a sub-agent's, or names no absolute working
    /// directory.
    ///
    /// # Errors
    /// A rollout cannot be read.
    pub fn texts(&mut self, thread: Uuid) -> Result<Option<Texts>, Error> {
        for _ in 0..TRIES {
            let reader = Reader::new(None, self.mapping);
            let files = files_of(&self.learned.tree, thread);
            let line = Line::current(thread, &files, reader);
            match line
                .and_then(|line| line.map_or(Ok(None), |line| texts_of(&line, thread, self.learned.content, reader)))
            {
                Err(Failure::Changed) => *self = Self::look(self.stores, self.mapping)?,
                Err(Failure::Io(error)) => return Err(Error::internal(error)),
                Ok(texts) => return Ok(texts),
            }
        }
        Err(Error::internal("the rollouts are replaced faster than they can be read"))
    }
}

/// The tree below the root, as much of it as is not remembered looked at.
fn look(reader: Reader<'_>, root: &Path) -> std::io::Result<Learned> {
    let earlier = known_tree(reader, root);
    let learned = Learned::look(reader, root, earlier, &HashSet::new())?;
    learned.store(reader, root);
    Ok(learned)
}

fn texts_of(line: &Line<'_>, thread: Uuid, content: u64, reader: Reader<'_>) -> Result<Option<Texts>, Failure> {
    let Meta { root: true, cwd: Some(cwd), .. } = &line.file().meta else { return Ok(None) };
    if !Path::new(cwd).is_absolute() {
        return Ok(None);
    }
    let ReadTexts { mut parts, files, only } = line.texts(reader)?;
    let (mut completed, mut others, mut first) = (Vec::new(), Vec::new(), 1);
    for (contents, copied) in &parts {
        let (ended, open) = ordered_from(first, contents.turns(), thread, *copied);
        first += (ended.len() + open.len()) as i64;
        completed.extend(ended);
        others.extend(open);
    }
    let turns = completed.into_iter().chain(others).filter_map(|(turn, number)| texts_of_turn(turn, number)).collect();
    let checkpoint = match only.zip(parts.pop()) {
        Some(((listed, rollout), (contents, _))) => Checkpoint::of(&listed, &rollout, contents, reader.now)?,
        None => None,
    };
    let captured = checkpoint.map(|checkpoint| Captured::of(thread, cwd, content, checkpoint, &line.file().meta));
    Ok(Some(Texts { thread, cwd: cwd.clone(), turns, files, captured: captured.map(Box::new) }))
}

/// A thread's turns with their ordinals among the numbered ones: those that completed, in the order of their endings, and
/// the others.
pub fn ordered(turns: &Turns, thread: Uuid, copied: bool) -> (Vec<Numbered<'_>>, Vec<Numbered<'_>>) {
    ordered_from(1, turns, thread, copied)
}

/// A turn and its ordinal.
pub type Numbered<'t> = (&'t Turn, i64);

fn ordered_from(first: i64, turns: &Turns, thread: Uuid, copied: bool) -> (Vec<Numbered<'_>>, Vec<Numbered<'_>>) {
    let numbered = turns.own(thread, copied).filter(|turn| turn.number.is_some()).zip(first..);
    let (mut completed, others): (Vec<_>, Vec<_>) = numbered.partition(|(turn, _)| turn.completed().is_some());
    completed.sort_by_key(|(turn, _)| order_of(turn));
    (completed, others)
}

/// The place of a completed turn's ending among those of its file.
pub fn order_of(turn: &Turn) -> Option<u64> {
    turn.completed().map(|completed| completed.order)
}

/// What is stored of a turn; `None` without any text.
pub fn texts_of_turn(turn: &Turn, number: i64) -> Option<TurnTexts> {
    let [user, assistant] = [Role::User, Role::Assistant].map(|role| turn.text(role));
    let completed_at = turn.completed().map(|completed| completed.at);
    (user.is_some() || assistant.is_some()).then_some(TurnTexts { number, user, assistant, completed_at })
}
