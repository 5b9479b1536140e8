//! Claude transcripts: from blocks of bytes to the turns that a Stop hook stores.
//!
//! ```text
//! blocks ─▶ lines::Scanner<Transcript> ─▶ read_line ─▶ Row ─▶ Turns ─▶ Turn
//!            rows passed over by            damage,            repeats, indexes, times;
//!            their first bytes              wording            the turn under way
//! ```
//!
//! - [`Transcript`] tells the scanner which rows do not matter (`progress` first of all, which can be nearly all of a file)
//!   by their first bytes. It passes over a row up to its LF, looking for nothing but another row's start in it; a line where
//!   one stands is read, and so is one that does not end as a row does.
//! - [`read_line`] gives the rows of a line, whole or damaged, as what each does to the turns. Everything that can be said of
//!   a row alone is decided there: whether it is a text row, a prompt or the host's own words, a reply or an error.
//! - [`Turns`] takes them in file order. It counts text rows, knows repeats by their uuid, and adds rows to the turn that is
//!   under way; a turn that is over does not change any more.
//! - A [`Turn`] says what a hook has to know to store it: the index, time and digests of each reply and of the prompt, and
//!   how the turn went. Its texts are read again where they stand, when they are needed.
//!
//! - [`NameScan`] takes the same rows, and tells whether a session has shown its name where it had to.
//!
//! The state can be saved behind any LF ([`Pack`](crate::pack::Pack)) and taken up again there. It holds no text: places,
//! indexes, times, digests, and sixteen bytes for each id. Two things of what was read before can be needed later, and are
//! fetched by their place: the rows of a message that had begun when the state was saved, and, for a row without a time, the
//! time of rows that were passed over. Every text that is fetched has to have the digest it had. A transcript of which the
//! tail was rewritten is read anew; what was stored of it is told by the digests of its turns.
//!
//! ```
//! use throughline_parsers::claude::{Turns, read_line};
//! let transcript = concat!(
//!     r#"{"parentUuid":null,"type":"user","message":{"role":"user","content":"ask"},"uuid":"1","timestamp":"2026-07-01T00:00:00.000Z"}"#, "\n",
//!     r#"{"parentUuid":"1","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"answer"}]},"type":"assistant","uuid":"2","timestamp":"2026-07-01T00:00:01.000Z"}"#, "\n",
//! );
//! let bytes = |span: std::ops::Range<u64>| transcript.as_bytes().get(span.start as usize..span.end as usize);
//! let mut turns = Turns::default();
//! let mut offset = 0;
//! for line in transcript.split_inclusive('\n') {
//!     for row in read_line(line.as_bytes(), offset, true) {
//!         turns.apply(&row, bytes).expect("the transcript is at hand");
//!     }
//!     offset += line.len() as u64;
//! }
//! let turn = &turns.since(0).expect("nothing was saved")[0];
//! assert!(turn.completed(false));
//! assert_eq!(turn.user_text(None, bytes).as_deref(), Ok("ask"));
//! assert_eq!(turn.answer_text(None, bytes), Ok(Some("answer".to_owned())));
//! assert_eq!(turn.answer(None).map(|answer| answer.index), Some(1));
//! ```

mod every;
mod fence;
mod key;
mod members;
mod name_scan;
mod open;
mod passed;
mod row;
mod seen;
mod sight;
mod turn;
mod turns;
mod wording;

pub use every::Looked;
pub use fence::block;
pub use name_scan::{NameScan, Reason, Verdict};
pub use passed::Transcript;
pub use row::{Row, read_line};
pub use turn::{Aside, Reply, Said, Turn};
pub use turns::Turns;

pub use crate::row::{MissingRow, RowRef};
