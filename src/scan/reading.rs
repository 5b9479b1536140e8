//! From the rows of one rollout to what it holds: its identity and its turns.

use std::io::{self, Read};

use throughline_parsers::codex::{Event, Meta, Row, RowRef, Turns, first_object, said_in};

use super::buffer::Buffer;

/// How much of a file is read for its first row before more is.
const HEAD: usize = 8 << 10;

/// What a rollout holds.
#[derive(Debug)]
pub struct Contents {
    /// Its identity; `None` when its first readable object is no `session_meta`: then it is no thread's file.
    pub meta: Option<Meta>,
    /// A later `session_meta` names another thread: the file holds a copied history.
    pub copied: bool,
    /// Its turns.
    pub turns: Turns,
}

/// A rollout while it is read.
#[derive(Debug)]
pub struct Reading {
    contents: Contents,
    /// Where the row stands that gives the identity.
    identity: Option<RowRef>,
}

impl Reading {
    /// Begins with the first object of the file, and with the state of the turns there.
    pub fn begin(first: FirstObject, turns: &Turns) -> Self {
        let (meta, identity) = match first {
            Some((meta, at)) => (meta, Some(at)),
            None => (None, None),
        };
        Self { contents: Contents { meta, copied: false, turns: turns.clone() }, identity }
    }

    /// Takes the next row; `bytes_of` gives the bytes of its object.
    pub fn apply<'b>(&mut self, row: &Row, bytes_of: impl Fn(RowRef) -> &'b [u8]) {
        if let Event::Meta(later) = &row.event {
            let first = self.contents.meta.as_ref().and_then(|meta| meta.id.as_ref());
            let other = later.id.is_some() && later.id.as_ref() != first && Some(row.at) != self.identity;
            self.contents.copied |= other;
        }
        // Everything is read in one go here, so that no row but this one is ever asked for.
        let applied = self.contents.turns.apply(row, |at| said_in(bytes_of(at)));
        debug_assert_eq!(applied, Ok(()), "all messages were read in this process");
    }

    /// What the rollout holds.
    pub fn finish(self) -> Contents {
        self.contents
    }
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
