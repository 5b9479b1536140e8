//! From the rows of one rollout to what it holds: its identity and its turns.
//!
//! A reading begins at the start of a file, or behind an LF where an earlier one left its [`State`].

use std::io::{self, Read};

use throughline_parsers::codex::{Event, Meta, MissingRow, Row, RowRef, Turns, first_object, said_in};

use super::buffer::Buffer;
use super::rows::{Print, Rows, print_of};

/// How much of a file is read for its first row before more is.
const HEAD: usize = 8 << 10;

/// What a rollout holds up to a place just past an LF. Reading can go on from there.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The file's first object, once one could be read. (Also of a line that had no LF yet: an object stands as it is.)
    pub first: FirstObject,
    /// A later `session_meta` names another thread: the file holds a copied history.
    pub copied: bool,
    /// Its turns.
    pub turns: Turns,
    /// The place, in bytes from the start.
    pub offset: u64,
    /// The rows that mattered.
    pub rows: Rows,
}

impl State {
    /// The start of a file, with this state of the turns.
    pub fn start(turns: Turns) -> Self {
        Self { turns, ..Self::default() }
    }

    /// Where the file's first object ends, once one could be read.
    pub fn first_end(&self) -> u64 {
        self.first.as_ref().map_or(0, |(_, at)| at.span().end)
    }
}

/// What a rollout holds.
#[derive(Clone, Debug)]
pub struct Contents {
    /// What it holds up to its last LF.
    pub state: State,
    /// The line behind that has whole rows at its start. They count, but more bytes may follow, and nothing may be
    /// remembered that depends on it: copied, and the turns.
    tail: Option<Box<(bool, Turns)>>,
}

impl Contents {
    /// What was read from the start of a file or from a state behind an LF, when nothing of use stands behind that.
    pub fn ended(state: State) -> Self {
        Self { state, tail: None }
    }

    /// The file's identity; `None` when its first readable object is no `session_meta`: then it is no thread's file.
    pub fn meta(&self) -> Option<&Meta> {
        self.state.first.as_ref()?.0.as_ref()
    }

    /// Whether turns older than the thread are copies.
    pub fn copied(&self) -> bool {
        self.tail.as_ref().map_or(self.state.copied, |tail| tail.0)
    }

    /// Its turns.
    pub fn turns(&self) -> &Turns {
        self.tail.as_ref().map_or(&self.state.turns, |tail| &tail.1)
    }

    /// Whether something counts that stands behind the last LF.
    pub fn has_tail(&self) -> bool {
        self.tail.is_some()
    }
}

/// A row that matters, with its print.
pub type Printed = (Row, Print);

/// The rows of a line that starts at `offset`, each with its print.
pub fn printed(rows: impl IntoIterator<Item = Row>, line: &[u8], offset: u64) -> impl Iterator<Item = Printed> {
    rows.into_iter().map(move |row| {
        let start = (row.at.offset - offset) as usize;
        let print = print_of(&line[start..start + row.at.len as usize]);
        (row, print)
    })
}

/// A rollout while it is read.
#[derive(Debug)]
pub struct Reading {
    state: State,
    missing: bool,
}

impl Reading {
    /// Goes on from this state.
    pub fn from(state: State) -> Self {
        Self { state, missing: false }
    }

    /// Takes the next row; `bytes_of` gives the bytes of its object, or of one in front of it.
    pub fn apply<B: AsRef<[u8]>>(&mut self, (row, print): &Printed, bytes_of: impl Fn(RowRef) -> Option<B>) {
        let State { first, copied, turns, rows, .. } = &mut self.state;
        rows.push(row.at, *print);
        self.missing |= !advance(first, copied, turns, row, bytes_of);
    }

    /// What the rollout holds, whose last LF stands in front of `offset`; behind it these rows.
    ///
    /// # Errors
    /// [`MissingRow`] when a message that was read earlier is not where it was.
    pub fn finish<B: AsRef<[u8]>>(
        mut self,
        offset: u64,
        tail: impl IntoIterator<Item = Row>,
        bytes_of: impl Fn(RowRef) -> Option<B>,
    ) -> Result<Contents, MissingRow> {
        self.state.offset = offset;
        let mut behind: Option<Box<(bool, Turns)>> = None;
        for row in tail {
            let State { first, copied, turns, .. } = &self.state;
            let (copied, turns) = &mut **behind.get_or_insert_with(|| Box::new((*copied, turns.clone())));
            self.missing |= !advance(first, copied, turns, &row, &bytes_of);
        }
        if self.missing { Err(MissingRow) } else { Ok(Contents { state: self.state, tail: behind }) }
    }
}

/// Applies a row; false when it needs one that is missing.
fn advance<B: AsRef<[u8]>>(
    first: &FirstObject,
    copied: &mut bool,
    turns: &mut Turns,
    row: &Row,
    bytes_of: impl Fn(RowRef) -> Option<B>,
) -> bool {
    if let Event::Meta(later) = &row.event {
        let (meta, at) = first.as_ref().map(|(meta, at)| (meta.as_ref(), *at)).unzip();
        let id = meta.flatten().and_then(|meta| meta.id.as_ref());
        *copied |= later.id.is_some() && later.id.as_ref() != id && Some(row.at) != at;
    }
    turns.apply(row, |at| said_in(bytes_of(at)?.as_ref())).is_ok()
}

/// The first object of a stream, if there is one: whether it is a `session_meta`, and where it stands.
pub type FirstObject = Option<(Option<Meta>, RowRef)>;

/// Finds the first object of a stream.
///
/// # Errors
/// The stream's.
pub fn first_object_of(stream: &mut impl Read, buffer: &mut Buffer) -> io::Result<FirstObject> {
    buffer.clear();
    // Where the buffer's first byte stands in the stream.
    let (mut offset, mut wanted) = (0, HEAD);
    loop {
        let ended = !buffer.fill(stream, wanted)?;
        let bytes = buffer.bytes();
        let mut line_start = 0;
        while let Some(len) = memchr::memchr(b'\n', &bytes[line_start..]) {
            let line = &bytes[line_start..line_start + len];
            if let Some(first) = first_object(line, offset + line_start as u64, true) {
                return Ok(Some(first));
            }
            line_start += len + 1;
        }
        // An object that stands whole at the start of the line is the first one, whatever else the line will hold.
        let first = first_object(&bytes[line_start..], offset + line_start as u64, false);
        if first.is_some() || ended {
            return Ok(first);
        }
        offset += line_start as u64;
        buffer.drop_first(line_start);
        wanted = (buffer.bytes().len() * 4).max(HEAD);
    }
}
