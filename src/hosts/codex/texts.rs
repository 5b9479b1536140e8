//! The texts of Codex' threads, for those who store them.

use std::collections::HashSet;
use std::path::Path;

use throughline_parsers::codex::{Meta, Role, Turn, Uuid};

use super::threads::{Failure, Line, ReadTexts};
use super::{Learned, TRIES, consistently, files_of, known_tree};
use crate::error::Error;
use crate::paths::Resolved;
use crate::scan::checkpoint::Reader;
use crate::scan::file::{Mapping, Rollout};
use crate::scan::folders::Listed;
use crate::scan::stamps::Stamps;
use crate::scan::tree::Tree;
use crate::stores::Stores;

/// What capture stores of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    /// The thread.
    pub thread: Uuid,
    /// The working directory that its current file names; absolute.
    pub cwd: String,
    /// Its turns: the completed ones in the order of the chain, then the others; none without any text.
    pub turns: Vec<TurnTexts>,
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
    tree: Tree,
}

impl<'s> Threads<'s> {
    /// Looks which rollouts there are.
    ///
    /// # Errors
    /// A folder cannot be listed or a rollout cannot be read.
    pub fn look(stores: &'s Stores, mapping: Mapping) -> Result<Self, Error> {
        let root = stores.sessions_root();
        let tree = consistently(stores, mapping, |reader| Ok(tree(reader, &root)?))?;
        Ok(Self { stores, mapping, tree })
    }

    /// The threads of which a file says that a person began it; in this project, if one is given. In the order of their
    /// ids, which is that of their beginnings.
    pub fn ids(&self, project: Option<&Resolved>) -> Vec<Uuid> {
        let of_project = |cwd: &str| project.is_none_or(|project| self.tree.is_inside(cwd, project));
        let is_wanted = |meta: &Meta| meta.root && meta.cwd.as_deref().is_some_and(of_project);
        let wanted = self.tree.threads().filter(|(_, meta)| is_wanted(meta));
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
            let files = files_of(&self.tree, thread);
            let line = Line::current(thread, &files, reader);
            match line.and_then(|line| line.map_or(Ok(None), |line| texts_of(&line, thread, reader))) {
                Err(Failure::Changed) => *self = Self::look(self.stores, self.mapping)?,
                Err(Failure::Io(error)) => return Err(Error::internal(error)),
                Ok(texts) => return Ok(texts),
            }
        }
        Err(Error::internal("the rollouts are replaced faster than they can be read"))
    }
}

/// The tree below the root, as much of it as is not remembered looked at.
fn tree(reader: Reader<'_>, root: &Path) -> std::io::Result<Tree> {
    let earlier = known_tree(reader, root);
    let learned = Learned::look(reader, root, earlier, &HashSet::new())?;
    learned.store(reader, root);
    Ok(learned.tree)
}

fn texts_of(line: &Line<'_>, thread: Uuid, reader: Reader<'_>) -> Result<Option<Texts>, Failure> {
    let Meta { root: true, cwd: Some(cwd), .. } = &line.file().meta else { return Ok(None) };
    if !Path::new(cwd).is_absolute() {
        return Ok(None);
    }
    let (mut completed, mut others, mut numbered) = (Vec::new(), Vec::new(), 1..);
    let ReadTexts { parts, files } = line.texts(reader)?;
    for (contents, copied) in &parts {
        let (mut ended, open): (Vec<_>, Vec<_>) = contents
            .turns()
            .own(thread, *copied)
            .filter(|turn| turn.number.is_some())
            .zip(numbered.by_ref())
            .partition(|(turn, _)| turn.completed().is_some());
        ended.sort_by_key(|(turn, _)| turn.completed().map(|completed| completed.order));
        completed.extend(ended);
        others.extend(open);
    }
    let with_text = |(turn, number): (&Turn, i64)| {
        let [user, assistant] = [Role::User, Role::Assistant].map(|role| turn.text(role));
        let completed_at = turn.completed().map(|completed| completed.at);
        (user.is_some() || assistant.is_some()).then_some(TurnTexts { number, user, assistant, completed_at })
    };
    let turns = completed.into_iter().chain(others).filter_map(with_text).collect();
    Ok(Some(Texts { thread, cwd: cwd.clone(), turns, files }))
}
