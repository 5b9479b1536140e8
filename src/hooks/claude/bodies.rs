//! The bodies of one Claude session: what is stored of a turn, and what is to be.
//!
//! A turn is stored under the index of its answer's last row. The tail of a transcript can be rewritten, so a number can
//! be taken by another text, and a turn can go on behind an answer that was stored.

use std::collections::BTreeMap;

use rusqlite::params;
use throughline_parsers::claude::{MissingRow, Reply, Turn};
use throughline_parsers::text::Digest;

use crate::db::capture::{Capture, Said};
use crate::error::Error;
use crate::hooks::Failure;
use crate::receipts::SessionId;
use crate::scan::transcript::Transcript;

/// What is stored of one session.
pub struct Session<'c, 'd> {
    capture: &'c Capture<'d>,
    target: SessionId,
    origin: SessionId,
    stored: BTreeMap<i64, Pair>,
}

/// Both texts of a turn as they are stored.
struct Pair {
    user: String,
    assistant: String,
    /// The digest of the answer's canonical body.
    answer: Digest,
}

/// A stored pair that is complete: the digests of its bodies, and the time of its answer's row.
pub type Complete = (Digest, Digest, Option<i64>);

/// A stored answer: its number, and the row of the turn that it is.
#[derive(Clone, Copy)]
struct Stored {
    number: i64,
    row: u64,
}

impl<'c, 'd> Session<'c, 'd> {
    /// Reads what is stored of the turns that were said in `origin`, under `target` and numbers from `from` on: none of the
    /// turns that are to be looked at has a lesser one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn load(capture: &'c Capture<'d>, target: &SessionId, origin: &SessionId, from: i64) -> Result<Self, Failure> {
        let mut session = Self { capture, target: target.clone(), origin: origin.clone(), stored: BTreeMap::new() };
        session.read(from).map_err(crate::db::Error::from)?;
        Ok(session)
    }

    fn read(&mut self, from: i64) -> rusqlite::Result<()> {
        let mut statement = self.capture.transaction().prepare(
            "SELECT turn_number, role, text FROM bodies
             WHERE session_id = ?1 AND origin_session_id = ?2 AND turn_number >= ?3 AND role IN ('user', 'assistant')",
        )?;
        let mut rows = statement.query(params![self.target.as_str(), self.origin.as_str(), from])?;
        let mut halves: BTreeMap<i64, (Option<String>, Option<String>)> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let (number, role, text): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let halves = halves.entry(number).or_default();
            *(if role == "user" { &mut halves.0 } else { &mut halves.1 }) = Some(text);
        }
        for (number, halves) in halves {
            let (user, assistant) = (halves.0.unwrap_or_default(), halves.1.unwrap_or_default());
            self.keep(number, user, assistant);
        }
        Ok(())
    }

    fn keep(&mut self, number: i64, user: String, assistant: String) {
        let answer = Digest::of_body(&assistant);
        self.stored.insert(number, Pair { user, assistant, answer });
    }

    /// Whether an answer of the turn is stored.
    ///
    /// # Errors
    /// The transcript has changed.
    pub fn is_stored(&self, turn: &Turn, transcript: &Transcript) -> Result<bool, Failure> {
        Ok(self.last_stored(turn, transcript)?.is_some())
    }

    /// Stores what is to be stored of a turn that is `completed`, or not, and gives all its pairs that are stored then.
    ///
    /// # Errors
    /// The transcript has changed, or the database cannot be written.
    pub fn capture(&mut self, turn: &Turn, completed: bool, transcript: &Transcript) -> Result<Vec<Complete>, Failure> {
        let found = self.last_stored(turn, transcript)?;
        let mut pairs: Vec<Complete> = Vec::new();
        if let Some(found) = found {
            let earlier = turn.replies.iter().filter(|reply| number_of(reply) < found.number && self.is_answer(reply));
            pairs.extend(earlier.map(|reply| self.pair(number_of(reply), reply.time)));
            let time = turn.replies.iter().find(|reply| reply.index == found.row).and_then(|reply| reply.time);
            pairs.push(self.pair(found.number, time));
        }
        let after = found.map(|found| found.row);
        let Some((answer, at)) = turn.answer(after).and_then(|answer| Some((answer, answer.time?))) else {
            return Ok(pairs);
        };
        if completed {
            let number = self.free_number(number_of(answer));
            let fetch = |span| transcript.bytes(span);
            let user = turn.user_text(after, fetch).map_err(changed)?;
            let assistant = turn.answer_text(after, fetch).map_err(changed)?.unwrap_or_default();
            let asked_at = turn.asked_at.filter(|_| after.is_none()).unwrap_or(at);
            let said = [Said { text: &user, at: asked_at }, Said { text: &assistant, at }].map(Some);
            self.capture.insert_turn(self.target.as_str(), self.origin.as_str(), number, said[0], said[1])?;
            self.keep(number, user, assistant);
            pairs.push(self.pair(number, Some(at)));
        }
        Ok(pairs)
    }

    /// The places of those turns that nothing changes any more, the ones in front of `over`, which are not stored and may
    /// yet be: a later Stop can prove one.
    ///
    /// # Errors
    /// The transcript has changed.
    pub fn left(&self, turns: &[(u64, Turn)], over: u64, transcript: &Transcript) -> Result<Vec<u64>, Failure> {
        let mut left = Vec::new();
        for (place, turn) in turns.iter().filter(|(place, turn)| *place < over && turn.completed(true)) {
            // What follows a stored answer is to be stored, too.
            let stored = self.last_stored(turn, transcript)?;
            if stored.is_none_or(|stored| turn.answer(Some(stored.row)).is_some()) {
                left.push(*place);
            }
        }
        Ok(left)
    }

    /// The last answer of the turn that is stored.
    fn last_stored(&self, turn: &Turn, transcript: &Transcript) -> Result<Option<Stored>, Failure> {
        if let Some(reply) = turn.replies.iter().rev().find(|reply| self.is_answer(reply)) {
            return Ok(Some(Stored { number: number_of(reply), row: reply.index }));
        }
        let Some(answer) = turn.answer(None) else { return Ok(None) };
        // One whose own number was taken stands above it.
        let mut above =
            self.stored.range(number_of(answer) + 1..).filter(|(_, pair)| pair.answer == answer.whole).peekable();
        if above.peek().is_none() {
            return Ok(None);
        }
        let fetch = |span| transcript.bytes(span);
        let user = turn.user_text(None, fetch).map_err(changed)?;
        let assistant = turn.answer_text(None, fetch).map_err(changed)?.unwrap_or_default();
        let found = above.find(|(_, pair)| pair.user == user && pair.assistant == assistant);
        Ok(found.map(|(number, _)| Stored { number: *number, row: answer.index }))
    }

    /// Whether what is stored under the row's index is the answer up to it, or the row.
    fn is_answer(&self, reply: &Reply) -> bool {
        let stored = self.stored.get(&number_of(reply));
        stored.is_some_and(|pair| pair.answer == reply.whole || pair.answer == reply.said.body)
    }

    /// The number of a turn: its own, or the one above all when that is taken.
    fn free_number(&self, own: i64) -> i64 {
        match self.stored.contains_key(&own) {
            true => self.stored.last_key_value().map_or(own, |(last, _)| last + 1),
            false => own,
        }
    }

    fn pair(&self, number: i64, time: Option<i64>) -> Complete {
        let pair = self.stored.get(&number);
        let user = pair.map_or_else(|| Digest::of(""), |pair| Digest::of_body(&pair.user));
        (user, pair.map_or_else(|| Digest::of(""), |pair| pair.answer), time)
    }
}

/// The number of a turn whose answer ends with this row.
pub fn number_of(reply: &Reply) -> i64 {
    i64::try_from(reply.index).unwrap_or(i64::MAX)
}

fn changed(missing: MissingRow) -> Failure {
    Error::internal(missing).into()
}
