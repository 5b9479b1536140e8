//! What an audit makes of one rollout.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::Path;

use throughline_parsers::codex::{
    Event, EveryRow, Looked, Meta, MissingRow, Origin, RolloutName, RowRef, Turns as Read, Uuid, said_in,
};
use throughline_parsers::pack::{Pack, Packer, Unpacker};
use throughline_parsers::text::Digest;

use super::record::{Log, Opened, Pair, TextBytes, Turns};
use crate::hosts::codex::session;
use crate::scan::checkpoint::recent;
use crate::scan::counted::{Counted, Fetch, Ledger, Resumable};
use crate::scan::file;
use crate::scan::folders::Listed;

/// What a rollout came to.
#[derive(Debug)]
pub struct Rollout {
    /// What its first row says, if that is a `session_meta`: else it is no thread's file.
    pub meta: Option<Meta>,
    /// The thread at the root of its tree of agents, if it says that.
    pub tree: Option<String>,
    /// The thread that began it as its sub-agent, if it says that.
    pub parent: Option<String>,
    /// The thread's own turns.
    pub turns: Turns,
    /// Their texts.
    pub text_bytes: TextBytes,
    /// Its part of the chain.
    pub pairs: Vec<Pair>,
}

/// A rollout while it is read.
#[derive(Debug)]
pub struct RolloutLedger {
    turns: Read,
    /// The first row that was read, and what it says if it is a `session_meta`.
    first: Option<(RowRef, Option<(Meta, Origin)>)>,
    /// A later one names another thread: the file holds a copied history.
    copied: bool,
    writers: BTreeSet<String>,
}

impl Ledger for RolloutLedger {
    type Host = EveryRow;

    fn matters(row: &Looked) -> bool {
        row.event.is_some()
    }

    fn apply(&mut self, row: Looked, at: RowRef, fetch: Fetch<'_>) -> Result<(), MissingRow> {
        if let Some(writer) = row.origin.as_ref().and_then(|origin| origin.writer.as_ref()) {
            self.writers.insert(writer.clone());
        }
        if let (Some(Event::Meta(meta)), Some((_, first))) = (&row.event, &self.first) {
            let id = first.as_ref().and_then(|(first, _)| first.id.as_ref());
            self.copied |= meta.id.is_some() && meta.id.as_ref() != id;
        }
        if self.first.is_none() {
            let meta = match (&row.event, &row.origin) {
                (Some(Event::Meta(meta)), Some(origin)) => Some(((**meta).clone(), (**origin).clone())),
                _ => None,
            };
            self.first = Some((at, meta));
        }
        let Some(event) = row.event else { return Ok(()) };
        let row = throughline_parsers::codex::Row { event, at };
        // The texts of messages run along; fetched is only what stands in for one, and was read just now, and what was said
        // in a turn that was open where the reading went on.
        self.turns.apply(&row, |at| said_in(&fetch(at.span())?))
    }
}

impl Resumable for RolloutLedger {
    fn first_end(&self) -> u64 {
        self.first.as_ref().map_or(0, |(at, _)| at.span().end)
    }

    fn recent(&self) -> u64 {
        recent(&self.turns)
    }
}

impl Pack for RolloutLedger {
    fn pack(&self, packer: &mut Packer) {
        let Self { turns, first, copied, writers } = self;
        turns.pack(packer);
        turns.pack_accounts(packer);
        let (at, meta) = first.clone().unzip();
        let (meta, origin) = meta.flatten().unzip();
        at.pack(packer);
        meta.pack(packer);
        origin.pack(packer);
        copied.pack(packer);
        packer.number(writers.len() as u64);
        writers.iter().for_each(|writer| writer.pack(packer));
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let mut turns = Read::unpack(unpacker)?;
        turns.unpack_accounts(unpacker)?;
        let at: Option<RowRef> = Option::unpack(unpacker)?;
        let meta: Option<(Meta, Origin)> = Option::unpack(unpacker)?.zip(Option::unpack(unpacker)?);
        let first = at.map(|at| (at, meta));
        let (copied, writers) = (bool::unpack(unpacker)?, unpacker.all()?);
        Some(Self { turns, first, copied, writers: writers.into_iter().collect() })
    }
}

impl Log for Rollout {
    type Ledger = RolloutLedger;
    const WORD: &'static str = "codex";

    fn ledger() -> RolloutLedger {
        RolloutLedger { turns: Read::keeping_accounts(), first: None, copied: false, writers: BTreeSet::new() }
    }

    fn open(path: &Path) -> io::Result<Option<Opened>> {
        let named = path.parent().zip(path.file_name().and_then(OsStr::to_str));
        let Some(listed) = named.and_then(|(folder, name)| Listed::named(folder, name)) else { return Ok(None) };
        Ok(file::Rollout::open(&listed)?.map(|rollout| match rollout.packed {
            true => Opened::Packed(rollout),
            false => {
                let stamps = rollout.stamps;
                Opened::Plain(rollout.into_file(), stamps)
            }
        }))
    }

    fn summary(counted: &Counted<RolloutLedger>, file_name: &OsStr) -> (Self, Vec<String>) {
        let RolloutLedger { turns, first, copied, writers } = &counted.ledger;
        let writers = writers.iter().cloned().collect();
        // A row that was passed over in front of it would be the first one.
        let is_first = |at: RowRef| counted.first_passed.is_none_or(|passed| at.offset < passed);
        let first = first.as_ref().filter(|(at, _)| is_first(*at)).and_then(|(_, meta)| meta.clone());
        let named = file_name.to_str().and_then(RolloutName::parse).map(|name| name.thread);
        let Some(((meta, origin), thread)) =
            first.and_then(|first| Some((first.0.thread().or(named)?, first))).map(|(thread, first)| (first, thread))
        else {
            return (Self::of_no_thread(), writers);
        };
        let copied = *copied || meta.forked;
        let (counts, text_bytes) = counts(turns, thread, copied);
        let session = Digest::of_body(&session(thread));
        let pair = |turn: &throughline_parsers::codex::Turn| {
            let (pair, _) = turn.pair()?;
            Some(Pair::new(pair.at, session, pair.user, pair.assistant))
        };
        let pairs = turns.pairs_in(thread, copied).into_iter().filter_map(pair).collect();
        let Origin { tree, parent, .. } = origin;
        (Self { meta: Some(meta), tree, parent, turns: counts, text_bytes, pairs }, writers)
    }

    fn last_row_at(counted: &Counted<RolloutLedger>) -> Option<i64> {
        counted.last_time
    }
}

fn counts(turns: &Read, thread: Uuid, copied: bool) -> (Turns, TextBytes) {
    let (mut counts, mut text_bytes) = (Turns::default(), TextBytes::default());
    counts.rolled_back = turns.undone_in(thread, copied) as u64;
    let numbered = |turn: &&throughline_parsers::codex::Turn| turn.number.is_some();
    counts.inherited = turns.turns().iter().filter(numbered).count() as u64;
    for turn in turns.own(thread, copied).filter(numbered) {
        counts.inherited -= 1;
        let account = turn.account().unwrap_or_default();
        text_bytes += TextBytes { user: account.user_bytes, assistant: account.assistant_bytes };
        match turn.completed() {
            Some(_) => {
                counts.completed += 1;
                counts.unpaired += u64::from(turn.pair().is_none());
            }
            None if turn.is_open() => counts.open += 1,
            None if account.failed => counts.failed += 1,
            None => counts.aborted += 1,
        }
    }
    (counts, text_bytes)
}

impl Rollout {
    fn of_no_thread() -> Self {
        let (turns, text_bytes) = (Turns::default(), TextBytes::default());
        Self { meta: None, tree: None, parent: None, turns, text_bytes, pairs: Vec::new() }
    }
}

impl Pack for Rollout {
    fn pack(&self, packer: &mut Packer) {
        self.meta.pack(packer);
        self.tree.pack(packer);
        self.parent.pack(packer);
        self.turns.pack(packer);
        self.text_bytes.pack(packer);
        packer.all(&self.pairs);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self {
            meta: Option::unpack(unpacker)?,
            tree: Option::unpack(unpacker)?,
            parent: Option::unpack(unpacker)?,
            turns: Turns::unpack(unpacker)?,
            text_bytes: TextBytes::unpack(unpacker)?,
            pairs: unpacker.all()?,
        })
    }
}
