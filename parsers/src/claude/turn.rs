//! One turn: what was asked, what the agent replied, how it went. Without texts: those are read again where they stand.

use std::ops::Range;

use super::row::said_in;
use crate::pack::{Pack, Packer, Unpacker};
use crate::row::{MissingRow, RowRef};
use crate::text::Digest;

/// One turn of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The prompt that opened it.
    pub prompt: Said,
    /// When that was, in milliseconds since the epoch; of a row without a time, the time of the rows in front of it.
    pub asked_at: Option<i64>,
    /// What the agent was asked besides, in order.
    pub asides: Vec<Aside>,
    /// The agent's rows with text, in order.
    pub replies: Vec<Reply>,
    /// The agent's last message is an answer, and no step towards one.
    pub ended: bool,
    /// The user stopped it.
    pub aborted: bool,
    /// The host could not go on, and no text followed.
    pub failed: bool,
}

/// A text that stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// Where its row stands.
    pub at: RowRef,
    /// Digest of the text's canonical body.
    pub body: Digest,
}

/// What the agent was asked while it worked, or by a Stop hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aside {
    /// Index of the text row in front of it, if there is one.
    pub behind: Option<u64>,
    /// The text.
    pub said: Said,
}

/// A row of the agent with text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its index among the text rows of the file.
    pub index: u64,
    /// When, in milliseconds since the epoch; of a row without a time, the time of the rows in front of it.
    pub time: Option<i64>,
    /// The text of the row.
    pub said: Said,
    /// Digest of the canonical body of its message's text up to here.
    pub whole: Digest,
    /// Its message, counted within the turn.
    pub(super) message: u64,
}

impl Turn {
    /// Whether it is over and has an answer: has ended by itself, or is `proven` to have by the host.
    pub fn completed(&self, proven: bool) -> bool {
        !self.replies.is_empty() && !self.aborted && !self.failed && (proven || self.ended)
    }

    /// Whether this is the canonical body of its answer, or of its last row with text.
    pub fn says(&self, body: Digest) -> bool {
        self.replies.last().is_some_and(|last| last.whole == body || last.said.body == body)
    }

    /// The last row of the answer among the replies behind text row `after`, or among all. Its index and time are the
    /// answer's.
    pub fn answer(&self, after: Option<u64>) -> Option<&Reply> {
        self.behind(after).last()
    }

    /// The text of that answer: the rows of its message, one behind the other. `fetch` gives bytes of the file.
    ///
    /// # Errors
    /// [`MissingRow`] when a row does not stand there any more.
    pub fn answer_text<B: AsRef<[u8]>>(
        &self,
        after: Option<u64>,
        mut fetch: impl FnMut(Range<u64>) -> Option<B>,
    ) -> Result<Option<String>, MissingRow> {
        let Some(last) = self.answer(after) else { return Ok(None) };
        let rows = self.behind(after).iter().filter(|reply| reply.message == last.message);
        rows.map(|reply| reply.said.text(&mut fetch)).collect::<Result<_, _>>().map(Some)
    }

    /// What the agent was asked: the prompt and all asides, a blank line between them. Behind the answer that ends with
    /// text row `after`: the asides since then, or the prompt where there is none.
    ///
    /// # Errors
    /// [`MissingRow`] when a row does not stand there any more.
    pub fn user_text<B: AsRef<[u8]>>(
        &self,
        after: Option<u64>,
        mut fetch: impl FnMut(Range<u64>) -> Option<B>,
    ) -> Result<String, MissingRow> {
        let asides = self.asides.iter().filter(|aside| after.is_none() || aside.behind >= after);
        let mut said: Vec<_> = asides.map(|aside| aside.said).collect();
        if after.is_none() || said.is_empty() {
            said.insert(0, self.prompt);
        }
        Ok(said.iter().map(|said| said.text(&mut fetch)).collect::<Result<Vec<_>, _>>()?.join("\n\n"))
    }

    /// The texts that it was asked by, and those of its answer.
    pub fn said(&self) -> (Vec<Said>, Vec<Said>) {
        let asked = std::iter::once(self.prompt).chain(self.asides.iter().map(|aside| aside.said)).collect();
        let last = self.replies.last().map(|reply| reply.message);
        let answered =
            self.replies.iter().filter(|reply| Some(reply.message) == last).map(|reply| reply.said).collect();
        (asked, answered)
    }

    fn behind(&self, after: Option<u64>) -> &[Reply] {
        let from = after.map_or(0, |after| self.replies.partition_point(|reply| reply.index <= after));
        &self.replies[from..]
    }
}

impl Said {
    pub(super) fn new(at: RowRef, text: &str) -> Self {
        Self { at, body: Digest::of_body(text) }
    }

    /// The text as it stands in the file.
    ///
    /// # Errors
    /// [`MissingRow`] when it does not any more.
    pub fn text<B: AsRef<[u8]>>(&self, fetch: impl FnOnce(Range<u64>) -> Option<B>) -> Result<String, MissingRow> {
        let object = fetch(self.at.span()).ok_or(MissingRow)?;
        said_in(object.as_ref()).filter(|text| Digest::of_body(text) == self.body).ok_or(MissingRow)
    }
}

impl Pack for Said {
    fn pack(&self, packer: &mut Packer) {
        self.at.pack(packer);
        self.body.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self { at: RowRef::unpack(unpacker)?, body: Digest::unpack(unpacker)? })
    }
}

impl Pack for Aside {
    fn pack(&self, packer: &mut Packer) {
        self.behind.pack(packer);
        self.said.pack(packer);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self { behind: Option::unpack(unpacker)?, said: Said::unpack(unpacker)? })
    }
}

impl Pack for Reply {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.index);
        self.time.pack(packer);
        self.said.pack(packer);
        // Most messages have one row with text.
        Some(self.whole).filter(|whole| *whole != self.said.body).pack(packer);
        packer.number(self.message);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let (index, time, said) = (unpacker.number()?, Option::unpack(unpacker)?, Said::unpack(unpacker)?);
        let whole = Option::unpack(unpacker)?.unwrap_or(said.body);
        Some(Self { index, time, said, whole, message: unpacker.number()? })
    }
}

impl Pack for Turn {
    fn pack(&self, packer: &mut Packer) {
        self.prompt.pack(packer);
        self.asked_at.pack(packer);
        packer.all(&self.asides);
        packer.all(&self.replies);
        [self.ended, self.aborted, self.failed].iter().for_each(|flag| flag.pack(packer));
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let turn = Self {
            prompt: Said::unpack(unpacker)?,
            asked_at: Option::unpack(unpacker)?,
            asides: unpacker.all()?,
            replies: unpacker.all()?,
            ended: bool::unpack(unpacker)?,
            aborted: bool::unpack(unpacker)?,
            failed: bool::unpack(unpacker)?,
        };
        turn.replies.is_sorted_by(|one, next| one.index < next.index).then_some(turn)
    }
}
