//! The files of one thread: which of them is current, and the chain that it and its bases make.
//!
//! A thread can have several files (reverts, copies), so what a file's own first row says is not the last word: the
//! thread's current file decides.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use throughline_parsers::codex::{self, Meta, Turn, Turns, Uuid};
use throughline_parsers::text::Digest;

use crate::chain::{Chain, Host, Pair};
use crate::scan::checkpoint::{Chained, Of, ReadRollout, Reader, packed};
use crate::scan::file::Rollout;
use crate::scan::folders::Listed;
use crate::scan::reading::{Contents, State};
use crate::scan::stamps::{Moment, Stamps};

/// Why the threads could not be read this time.
#[derive(Debug)]
pub enum Failure {
    /// A file is not what it was at the first look.
    Changed,
    /// A file or folder cannot be read.
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A rollout that says what it is.
#[derive(Clone, Debug)]
pub struct File {
    /// The file.
    pub listed: Listed,
    /// What it says.
    pub meta: Meta,
    /// What the file was when it was looked at last.
    pub stamps: Stamps,
    /// When that was.
    pub taken: Moment,
}

impl File {
    /// The thread that it is of.
    pub fn thread(&self) -> Uuid {
        self.meta.thread().unwrap_or(self.listed.name.thread)
    }

    fn rollout(&self) -> Uuid {
        self.listed.name.rollout
    }

    fn path(&self) -> &Path {
        &self.listed.path
    }

    /// What is read of the file has to be of the identity that it was chosen by, unless `end` cuts that off.
    fn check(&self, contents: &Contents, end: Option<u64>) -> Result<(), Failure> {
        match contents.meta() {
            Some(meta) if *meta != self.meta => Err(Failure::Changed),
            None if end.is_none() => Err(Failure::Changed),
            _ => Ok(()),
        }
    }
}

/// One file of a chain, and where it is cut.
pub type Cut<'f> = (&'f File, Option<u64>);

/// The current file of a thread and behind it its bases.
#[derive(Debug)]
pub struct Line<'f> {
    thread: Uuid,
    files: Vec<Cut<'f>>,
}

/// Pairs are needed that are put aside.
struct PutAside;

/// A thread's chain as it was read, and what its files were.
#[derive(Debug)]
pub struct ReadChain {
    /// The chain.
    pub chain: Chain,
    /// The files that were read for it: what they were, and when.
    pub files: Vec<(Listed, Stamps, Moment)>,
}

/// The turns of a thread's files with their texts, and what the files were.
#[derive(Debug)]
pub struct ReadTexts {
    /// The turns, those of the first base first; each with whether those older than the thread are copies.
    pub parts: Vec<(Contents, bool)>,
    /// The files: what they were when they were opened.
    pub files: Vec<(Listed, Stamps)>,
    /// The file, if there is but one.
    pub only: Option<(Listed, Rollout)>,
}

impl<'f> Line<'f> {
    /// Chooses the current file of a thread: one that no other names as its base; of these the greatest rollout id, then
    /// the latest completion, then the path.
    ///
    /// # Errors
    /// Where only the latest completion tells, the files have to be read.
    pub fn current(thread: Uuid, files: &'f [File], reader: Reader<'_>) -> Result<Option<Self>, Failure> {
        Self::current_by(thread, files, |line| line.latest(reader))
    }

    /// The same for those who know the `latest` completion of a file with its bases.
    ///
    /// # Errors
    /// That of `latest`, which is asked only where nothing else tells.
    pub fn current_by<E>(
        thread: Uuid,
        files: &'f [File],
        latest: impl Fn(&Self) -> Result<i64, E>,
    ) -> Result<Option<Self>, E> {
        let bases: Vec<&Path> = files.iter().filter_map(|file| base_of(files, file, &[])).map(File::path).collect();
        let mut rest: Vec<&File> = files.iter().filter(|file| !bases.contains(&file.path())).collect();
        if rest.is_empty() {
            rest.extend(files);
        }
        let Some(greatest) = rest.iter().map(|file| file.rollout()).max() else { return Ok(None) };
        rest.retain(|file| file.rollout() == greatest);
        let mut best: Option<(i64, Self)> = None;
        for file in &rest {
            let line = Self { thread, files: line_of(files, file) };
            // One file needs no reading to be the latest.
            let latest = if rest.len() == 1 { 0 } else { latest(&line)? };
            if best.as_ref().is_none_or(|(other, than)| (latest, file.path()) > (*other, than.file().path())) {
                best = Some((latest, line));
            }
        }
        Ok(best.map(|(_, line)| line))
    }

    /// The current file and behind it its bases, each with where it is cut.
    pub fn parts(&self) -> &[Cut<'f>] {
        &self.files
    }

    /// The current file.
    pub fn file(&self) -> &'f File {
        self.files[0].0
    }

    /// The latest of all completions; where a clock went back it is not the last one.
    fn latest(&self, reader: Reader<'_>) -> Result<i64, Failure> {
        let read = self.read(reader, false, 0)?;
        Ok(read.chain.pairs().iter().map(|pair| pair.completed_at).max().unwrap_or(-1))
    }

    /// Reads the thread's chain: that of its bases, then that of its current file. `again` says that it was read before;
    /// fewer than `since` pairs may be put aside.
    ///
    /// # Errors
    /// A file cannot be read, or is not what it was.
    pub fn read(&self, reader: Reader<'_>, again: bool, since: usize) -> Result<ReadChain, Failure> {
        // Of several files the pairs are numbered by all of them.
        let since = if self.files.len() > 1 { 0 } else { since };
        match self.read_since(reader, again, since)? {
            Some(read) => Ok(read),
            None => self.read_since(reader, again, 0)?.ok_or(Failure::Changed),
        }
    }

    /// The same; `None` when what is put aside is needed.
    fn read_since(&self, reader: Reader<'_>, again: bool, since: usize) -> Result<Option<ReadChain>, Failure> {
        let mut parts = Vec::new();
        for (file, end) in &self.files {
            let read = reader.read(&file.listed, *end, again, since)?.ok_or(Failure::Changed)?;
            file.check(&read.contents, *end)?;
            // Cut off in its first row it says neither what it is nor what it continues.
            if read.contents.meta().is_none() {
                break;
            }
            parts.push((*file, *end, read));
        }
        let settled = parts.iter().map(|(.., read)| read.contents.turns().settled().pairs).sum();
        let mut chain = Chain::behind(Host::Codex, Digest::of(&self.thread.to_string()), settled);
        let origin = Digest::of_body(&session(self.thread));
        let mut files = Vec::new();
        while let Some((file, end, mut read)) = parts.pop() {
            let Ok(chained) = self.extend(&mut chain, origin, file, &mut read) else { return Ok(None) };
            files.push((file.listed.clone(), read.stamps, read.taken));
            reader.store(Of { path: file.listed.path.clone(), end }, read, chained);
        }
        Ok(Some(ReadChain { chain, files }))
    }

    /// Adds the pairs of one file to the chain, and tells what they came to.
    fn extend<'c>(
        &self,
        chain: &'c mut Chain,
        origin: Digest,
        file: &File,
        read: &mut ReadRollout,
    ) -> Result<Option<Chained<'c>>, PutAside> {
        let settled = read.contents.turns().settled();
        let copied = read.contents.copied() || file.meta.forked;
        let pairs = read.contents.turns().pairs_in(self.thread, copied);
        let place = chain.place(origin, &format!("{}\0", file.path().to_string_lossy()));
        let pair = |turn: &&Turn| {
            let (codex::Pair { number, at, user, assistant }, _) = turn.pair()?;
            Some(Pair { user, assistant, completed_at: at, place, number })
        };
        let order = |turn: &&Turn| turn.pair().map(|(_, order)| order);
        let length = if settled.turns > 0 { 0 } else { chain.len() };
        let onto = (length as u64, chain.prefix(length).unwrap_or_else(|| Digest::of("")));
        // The pairs that were there before are still the first ones, unless one of them was undone: then each behind it
        // has moved up.
        let known = read.chained.take().filter(|chained| {
            let last = chained.prefixes.len().checked_sub(1).and_then(|last| pairs.get(last));
            chained.onto == onto && last.and_then(order) == Some(chained.last_order)
        });
        if settled.turns > 0 && known.is_none() {
            return Err(PutAside);
        }
        let mut new = &pairs[..];
        if let Some(Chained { prefixes, rolling, .. }) = known {
            let (known, rest) = pairs.split_at(prefixes.len());
            chain.push_known(known.iter().filter_map(pair), prefixes.into_owned(), rolling);
            new = rest;
        }
        new.iter().filter_map(pair).for_each(|pair| chain.push(pair));
        // What stands behind the last LF is not to be remembered.
        let last_order = pairs.last().filter(|_| !read.contents.has_tail()).and_then(order);
        let (prefixes, rolling) = (Cow::Borrowed(&chain.prefixes()[length..]), chain.rolling().clone());
        Ok(last_order.map(|last_order| Chained { onto, last_order, prefixes, rolling }))
    }

    /// That of one of the thread's files, whether or not it is the current one; `None` when it is not among them.
    pub fn behind(thread: Uuid, files: &'f [File], path: &Path) -> Option<Self> {
        let file = files.iter().find(|file| file.path() == path)?;
        Some(Self { thread, files: line_of(files, file) })
    }

    /// Whether what was read of its first file comes to that in the chain. It does not matter where the chain in front of
    /// it is another one.
    ///
    /// # Errors
    /// A base cannot be read, or is not what it was.
    pub fn chains(&self, mut read: ReadRollout, to: &Chained<'_>, reader: Reader<'_>) -> Result<bool, Failure> {
        let bases = Self { thread: self.thread, files: self.files[1..].to_vec() };
        let mut chain = bases.read(reader, false, 0)?.chain;
        let origin = Digest::of_body(&session(self.thread));
        let extended = self.extend(&mut chain, origin, self.file(), &mut read).map_err(|PutAside| Failure::Changed)?;
        Ok(match extended {
            Some(found) if found.onto == to.onto => {
                found.last_order == to.last_order
                    && found.prefixes == to.prefixes
                    && packed(&found.rolling) == packed(&to.rolling)
            }
            _ => true,
        })
    }

    /// The turns of the files with their texts.
    ///
    /// # Errors
    /// A file cannot be read, or is not what it was.
    pub fn texts(&self, reader: Reader<'_>) -> Result<ReadTexts, Failure> {
        let (mut parts, mut files, mut only) = (Vec::new(), Vec::new(), None);
        for (file, end) in &self.files {
            let rollout = Rollout::open(&file.listed)?.ok_or(Failure::Changed)?;
            let read = rollout.read(State::start(Turns::keeping_texts()), *end, reader.mapping)?;
            let contents = read.map_err(io::Error::other)?;
            file.check(&contents, *end)?;
            if contents.meta().is_none() {
                break;
            }
            let copied = contents.copied() || file.meta.forked;
            parts.push((contents, copied));
            files.push((file.listed.clone(), rollout.stamps));
            only = (self.files.len() == 1).then(|| (file.listed.clone(), rollout));
        }
        parts.reverse();
        Ok(ReadTexts { parts, files, only })
    }
}

/// The files of a thread that others of it continue, each with where it is cut then.
pub fn bases(files: &[File]) -> impl Iterator<Item = (&File, u64)> {
    files.iter().filter_map(|file| Some((base_of(files, file, &[])?, file.meta.base.as_ref()?.end)))
}

/// The session under which a thread's bodies are stored.
pub fn session(thread: Uuid) -> String {
    format!("codex:{thread}")
}

/// The file of the thread that `file` continues, if it is none of `seen`.
fn base_of<'f>(files: &'f [File], file: &File, seen: &[&Path]) -> Option<&'f File> {
    let base = file.meta.base.as_ref()?;
    let fits =
        |other: &&File| other.rollout() == base.rollout && other.path() != file.path() && !seen.contains(&other.path());
    files.iter().filter(fits).max_by_key(|other| other.path())
}

/// The files that a chain with this current file is made of, the current one first, each with where it is cut.
fn line_of<'f>(files: &'f [File], current: &'f File) -> Vec<Cut<'f>> {
    let mut line = vec![(current, None)];
    let (mut file, mut seen) = (current, vec![current.path()]);
    while let (Some(base), Some(cut)) = (base_of(files, file, &seen), file.meta.base.as_ref()) {
        line.push((base, Some(cut.end)));
        seen.push(base.path());
        file = base;
    }
    line
}
