//! The turns of one transcript: rows in file order in, turns out.

use std::ops::Range;

use memchr::memchr;

use super::open::{Open, TextRow};
use super::row::{Act, Row, read_line};
use super::seen::Seen;
use super::turn::{Aside, Said, Turn};
use crate::pack::{Pack, Packer, Unpacker};
use crate::row::MissingRow;

/// The turns of one transcript so far.
///
/// Turns that are over stay packed, in memory as in a saved state: a Stop hook looks at few of them.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    over: Over,
    open: Option<Open>,
    /// How many text rows there were.
    texts: u64,
    seen: Seen,
    clock: Clock,
}

/// Turns that nothing changes any more: each packed, with its length in front.
#[derive(Clone, Debug, Default)]
struct Over {
    count: u64,
    bytes: Vec<u8>,
}

/// The last time that a row had.
#[derive(Clone, Debug, Default)]
struct Clock {
    time: Option<i64>,
    /// From here on no row that was read has one; those that were passed over may.
    behind: u64,
}

impl Turns {
    /// Takes the next row. `fetch` gives bytes of the file; it is asked for little, and seldom: for the rows of a message
    /// that was under way when the state was saved, and where a row that needs a time has none.
    ///
    /// # Errors
    /// [`MissingRow`] when `fetch` cannot, or gives something else than was read before: the file is not the same any more.
    /// What has been made of the row then is undefined.
    pub fn apply<B: AsRef<[u8]>>(
        &mut self,
        row: &Row,
        mut fetch: impl FnMut(Range<u64>) -> Option<B>,
    ) -> Result<(), MissingRow> {
        self.clock.see(row);
        let is_repeat = row.uuid.is_some_and(|uuid| !self.seen.insert(uuid));
        let behind = self.texts.checked_sub(1);
        self.texts += u64::from(row.is_text);
        if is_repeat {
            return Ok(());
        }
        match &row.act {
            Act::None => {}
            Act::Prompt(text) => {
                let asked_at = self.clock.time_of(row, fetch)?;
                self.close();
                self.open = Some(Open::new(Said::new(row.at, text), asked_at, row.session));
            }
            Act::Interrupt => {
                self.open.iter_mut().for_each(Open::interrupt);
                self.close();
            }
            Act::Aside(text) => {
                let aside = Aside { behind, said: Said::new(row.at, text) };
                self.open.iter_mut().filter(|open| open.session == row.session).for_each(|open| open.aside(aside));
            }
            Act::Failure => {
                self.open.iter_mut().filter(|open| open.session == row.session).for_each(Open::fail);
            }
            Act::Reply(reply) => {
                let Some(open) = self.open.as_mut().filter(|open| open.session == row.session) else { return Ok(()) };
                let time = if reply.text.is_empty() { None } else { self.clock.time_of(row, &mut fetch)? };
                open.reply(reply, TextRow { index: behind.map_or(0, |behind| behind + 1), at: row.at, time }, fetch)?;
            }
        }
        Ok(())
    }

    /// How many turns there are, the one under way included.
    pub fn count(&self) -> u64 {
        self.over.count + u64::from(self.open.is_some())
    }

    /// The turns from this one on, counted from 0; the last one as it would be if nothing followed. `None` when what was
    /// saved of them is damaged.
    pub fn since(&self, first: u64) -> Option<Vec<Turn>> {
        let mut turns = self.over.since(first)?;
        turns.extend(self.open.iter().filter(|_| first <= self.over.count).map(|open| open.turn.clone()));
        Some(turns)
    }

    /// Those of the turns that nothing changes any more, the first `count` of them, as they are saved; `None` when there are
    /// not so many.
    pub fn saved(&self, count: u64) -> Option<&[u8]> {
        self.over.first(count)
    }

    /// How many turns nothing changes any more.
    pub fn over(&self) -> u64 {
        self.over.count
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.over.push(&open.turn);
        }
    }
}

impl Over {
    fn push(&mut self, turn: &Turn) {
        let (mut one, mut framed) = (Packer::default(), Packer::default());
        turn.pack(&mut one);
        framed.counted(&one.finish());
        self.bytes.extend(framed.finish());
        self.count += 1;
    }

    fn since(&self, first: u64) -> Option<Vec<Turn>> {
        let mut unpacker = Unpacker::new(&self.bytes[self.first(first.min(self.count))?.len()..]);
        let mut turns = Vec::new();
        for _ in first..self.count {
            let mut one = Unpacker::new(unpacker.counted()?);
            turns.push(Turn::unpack(&mut one).filter(|_| one.is_at_end())?);
        }
        unpacker.is_at_end().then_some(turns)
    }

    /// The bytes of the first turns.
    fn first(&self, count: u64) -> Option<&[u8]> {
        let mut unpacker = Unpacker::new(&self.bytes);
        for _ in 0..(count <= self.count).then_some(count)? {
            unpacker.counted()?;
        }
        Some(&self.bytes[..self.bytes.len() - unpacker.left()])
    }
}

impl Clock {
    fn see(&mut self, row: &Row) {
        if row.time.is_some() {
            *self = Self { time: row.time, behind: row.at.span().end };
        }
    }

    /// The row's time, else the last one in front of it: rows that were passed over are looked at now.
    fn time_of<B: AsRef<[u8]>>(
        &mut self,
        row: &Row,
        fetch: impl FnMut(Range<u64>) -> Option<B>,
    ) -> Result<Option<i64>, MissingRow> {
        if row.time.is_none() && self.behind < row.at.offset {
            let passed = last_time(self.behind..row.at.offset, fetch)?;
            *self = Self { time: passed.or(self.time), behind: row.at.offset };
        }
        Ok(self.time)
    }
}

/// So many bytes are looked at first.
const LOOK_BACK: u64 = 64 << 10;

/// The last time that a row has in the whole lines of these bytes.
fn last_time<B: AsRef<[u8]>>(
    span: Range<u64>,
    mut fetch: impl FnMut(Range<u64>) -> Option<B>,
) -> Result<Option<i64>, MissingRow> {
    let mut size = LOOK_BACK;
    loop {
        let start = span.end.saturating_sub(size).max(span.start);
        let fetched = fetch(start..span.end).ok_or(MissingRow)?;
        let time = last_time_in(fetched.as_ref(), start);
        if time.is_some() || start == span.start {
            return Ok(time);
        }
        size = size.saturating_mul(4);
    }
}

fn last_time_in(bytes: &[u8], offset: u64) -> Option<i64> {
    // Where the bytes begin within a line, that line was read, or will be looked at with more bytes.
    let first = if offset == 0 { 0 } else { memchr(b'\n', bytes)? + 1 };
    let mut lines = bytes[first..].rsplit(|byte| *byte == b'\n');
    // What stands in front of the row in its own line was read.
    let mut end = bytes.len() - lines.next()?.len();
    lines.find_map(|line| {
        end -= line.len() + 1;
        read_line(line, offset + end as u64, true).iter().rev().find_map(|row| row.time)
    })
}

impl Pack for Turns {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.over.count);
        packer.counted(&self.over.bytes);
        self.open.pack(packer);
        packer.number(self.texts);
        self.seen.pack(packer);
        self.clock.time.pack(packer);
        packer.number(self.clock.behind);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self {
            over: Over { count: unpacker.number()?, bytes: unpacker.counted()?.to_vec() },
            open: Option::unpack(unpacker)?,
            texts: unpacker.number()?,
            seen: Seen::unpack(unpacker)?,
            clock: Clock { time: Option::unpack(unpacker)?, behind: unpacker.number()? },
        })
    }
}

#[cfg(test)]
mod tests;
