//! What an audit makes of one transcript.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io;
use std::path::Path;

use throughline_parsers::claude::{Looked, MissingRow, Said, Transcript as Spelling, Turn, Turns as Read};
use throughline_parsers::codex::RowRef;
use throughline_parsers::pack::{Pack, Packer, Unpacker};

use super::record::{Log, Opened, TextBytes, Turns};
use crate::scan::counted::{Counted, Fetch, Ledger, Resumable};
use crate::scan::file::open_listed;
use crate::scan::followed::Follow;

/// What a transcript came to.
#[derive(Debug)]
pub struct Transcript {
    /// The session that its first row says it is of: of a sub-agent's, the one that began it.
    pub session: Option<String>,
    /// The first working directory that a row names.
    pub cwd: Option<String>,
    /// Its turns.
    pub turns: Turns,
    /// Their texts.
    pub text_bytes: TextBytes,
}

/// A transcript while it is read.
#[derive(Debug, Default)]
pub struct TranscriptLedger {
    turns: Read,
    /// The sizes of texts, by where their rows stand: of many rows few are a turn's.
    sizes: HashMap<u64, u64>,
    session: Option<String>,
    cwd: Option<String>,
    writers: BTreeSet<String>,
    last_time: Option<i64>,
}

impl Ledger for TranscriptLedger {
    type Host = Spelling;

    fn matters(looked: &Looked) -> bool {
        looked.row.tells()
    }

    fn apply(&mut self, looked: Looked, at: RowRef, fetch: Fetch<'_>) -> Result<(), MissingRow> {
        if let Some(writer) = looked.writer.as_ref().filter(|writer| !self.writers.contains(*writer)) {
            self.writers.insert(writer.clone());
        }
        if self.session.is_none() {
            self.session.clone_from(&looked.session);
        }
        if self.cwd.is_none() {
            self.cwd.clone_from(&looked.cwd);
        }
        self.last_time = looked.row.time().or(self.last_time);
        let bytes = looked.row.said_bytes();
        if bytes > 0 {
            self.sizes.insert(at.offset, bytes);
        }
        // It looks back only for the time of a row without one, and where the reading went on within a message.
        self.turns.apply(&looked.row, fetch)
    }
}

impl Resumable for TranscriptLedger {
    fn first_end(&self) -> u64 {
        0
    }

    fn recent(&self) -> u64 {
        Follow::recent(&self.turns)
    }
}

impl Pack for TranscriptLedger {
    fn pack(&self, packer: &mut Packer) {
        let Self { turns, sizes, session, cwd, writers, last_time } = self;
        turns.pack(packer);
        let mut sizes: Vec<(u64, u64)> = sizes.iter().map(|(offset, bytes)| (*offset, *bytes)).collect();
        sizes.sort_unstable();
        packer.number(sizes.len() as u64);
        let mut last = 0;
        for (offset, bytes) in sizes {
            packer.number(offset - last);
            packer.number(bytes);
            last = offset;
        }
        session.pack(packer);
        cwd.pack(packer);
        packer.number(writers.len() as u64);
        writers.iter().for_each(|writer| writer.pack(packer));
        last_time.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let turns = Read::unpack(unpacker)?;
        let count = unpacker.index()?;
        let (mut sizes, mut last) = (HashMap::with_capacity(count.min(unpacker.left())), 0_u64);
        for _ in 0..count {
            last = last.checked_add(unpacker.number()?)?;
            sizes.insert(last, unpacker.number()?);
        }
        let (session, cwd, writers) = (Option::unpack(unpacker)?, Option::unpack(unpacker)?, unpacker.all()?);
        let writers = writers.into_iter().collect();
        Some(Self { turns, sizes, session, cwd, writers, last_time: Option::unpack(unpacker)? })
    }
}

impl Log for Transcript {
    type Ledger = TranscriptLedger;
    const WORD: &'static str = "claude";

    fn ledger() -> TranscriptLedger {
        TranscriptLedger::default()
    }

    fn open(path: &Path) -> io::Result<Option<Opened>> {
        Ok(open_listed(path)?.map(|(file, stamps)| Opened::Plain(file, stamps)))
    }

    fn summary(counted: &Counted<TranscriptLedger>, _file_name: &OsStr) -> (Self, Vec<String>) {
        let TranscriptLedger { turns, sizes, session, cwd, writers, .. } = &counted.ledger;
        let (mut counts, mut text_bytes) = (Turns::default(), TextBytes::default());
        for turn in turns.since(0).unwrap_or_default() {
            count(&turn, &mut counts);
            let (asked, answered) = turn.said();
            let size = |said: &Said| sizes.get(&said.at.offset).copied().unwrap_or(0);
            let asked: Vec<u64> = asked.iter().map(size).collect();
            // What was asked is joined by blank lines, an answer by nothing.
            let between = 2 * (asked.len() as u64).saturating_sub(1);
            text_bytes +=
                TextBytes { user: asked.iter().sum::<u64>() + between, assistant: answered.iter().map(size).sum() };
        }
        let (session, cwd) = (session.clone(), cwd.clone());
        (Self { session, cwd, turns: counts, text_bytes }, writers.iter().cloned().collect())
    }

    fn last_row_at(counted: &Counted<TranscriptLedger>) -> Option<i64> {
        counted.ledger.last_time
    }
}

fn count(turn: &Turn, counts: &mut Turns) {
    let kind = match turn {
        turn if turn.completed(false) => &mut counts.completed,
        Turn { aborted: true, .. } => &mut counts.aborted,
        Turn { failed: true, .. } => &mut counts.failed,
        _ => &mut counts.open,
    };
    *kind += 1;
}

impl Pack for Transcript {
    fn pack(&self, packer: &mut Packer) {
        self.session.pack(packer);
        self.cwd.pack(packer);
        self.turns.pack(packer);
        self.text_bytes.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self {
            session: Option::unpack(unpacker)?,
            cwd: Option::unpack(unpacker)?,
            turns: Turns::unpack(unpacker)?,
            text_bytes: TextBytes::unpack(unpacker)?,
        })
    }
}
