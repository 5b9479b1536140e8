//! Turns from their first row to their last.

use std::io::{self, Write};

use super::{Layout, Mix, Open, Place, State, Turn};
use crate::random::Random;
use crate::text::Pool;

/// What all rows of a rollout have in common.
pub struct Shape {
    /// The thread's working directory.
    pub cwd: String,
    /// What most of the bytes are.
    pub mix: Mix,
    /// How rows are laid out.
    pub layout: Layout,
}

/// Writes rows behind those that are there.
pub struct Writer<'a, W> {
    pub(super) shape: &'a Shape,
    pub(super) pool: &'a Pool,
    pub(super) random: &'a mut Random,
    pub(super) out: Counted<W>,
    pub(super) state: State,
    /// How far the rollout may go, where the turn's size would not stop a big row.
    pub(super) limit: u64,
}

/// The mean size of what stands in a turn behind its steps.
pub(super) const TURN_END_BYTES: u64 = 4000;

impl<'a, W: Write> Writer<'a, W> {
    /// Goes on where the state says.
    pub fn resume(shape: &'a Shape, pool: &'a Pool, random: &'a mut Random, out: W, state: State) -> Self {
        Self { shape, pool, random, out: Counted { out, bytes: state.end.bytes }, state, limit: 0 }
    }

    /// Writes everything out and tells how far the rollout is.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<State> {
        self.out.flush()?;
        self.state.end = self.end();
        Ok(self.state)
    }

    /// Where the rollout ends.
    pub fn end(&self) -> Place {
        Place { bytes: self.out.bytes, ordinal: self.state.end.ordinal }
    }

    /// A whole turn of about this size.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn turn(&mut self, bytes: u64, first: bool) -> io::Result<Turn> {
        self.begin_turn(bytes, first)?;
        self.go_on(bytes)?;
        self.complete_turn()
    }

    /// A whole turn of this mean size, not the first one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn turn_of_about(&mut self, bytes: u64) -> io::Result<Turn> {
        let bytes = self.random.between(bytes / 4, bytes * 7 / 4);
        self.turn(bytes, false)
    }

    /// A turn of about this size that was interrupted.
    pub(super) fn aborted_turn(&mut self, bytes: u64) -> io::Result<Turn> {
        self.begin_turn(bytes, false)?;
        self.go_on(bytes)?;
        let open = self.take_open();
        self.event("turn_aborted", format_args!(r#","turn_id":"{}","reason":"interrupted""#, open.id))?;
        Ok(open.over(None))
    }

    /// The start of a turn that is to have about this size, up to the question.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin_turn(&mut self, bytes: u64, first: bool) -> io::Result<()> {
        let (id, started_at) = (self.random.uuid(self.state.now), self.state.now / 1000);
        let open = Open { id, start: self.end(), started_at, user: String::new(), assistant: Vec::new() };
        self.event(
            "task_started",
            format_args!(
                r#","turn_id":"{}","started_at":{started_at},"model_context_window":258400,"collaboration_mode_kind":"default""#,
                open.id
            ),
        )?;
        self.state.open = Some(open);
        if first {
            self.preamble(bytes)?;
        }
        self.turn_context(bytes)?;
        let user = self.ask()?;
        self.open().user = user;
        Ok(())
    }

    /// More of the open turn, until it has about this size.
    pub(super) fn go_on(&mut self, bytes: u64) -> io::Result<()> {
        let start = self.open().start;
        self.go_on_to(start.bytes + bytes)
    }

    /// More of the open turn, until the rollout has about this size.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn go_on_to(&mut self, end: u64) -> io::Result<()> {
        while self.out.bytes < end {
            self.step(end)?;
        }
        Ok(())
    }

    /// The answer, and the end of the open turn.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn complete_turn(&mut self) -> io::Result<Turn> {
        let bytes = self.random.magnitude(60, 3000);
        let answer = self.say(bytes, "final_answer")?;
        self.token_count()?;
        let mut open = self.take_open();
        self.complete(&open.id, open.started_at, &answer)?;
        open.assistant.push(answer);
        Ok(open.over(Some(self.state.now)))
    }

    /// One request to the model: what it thought, said and had done.
    fn step(&mut self, end: u64) -> io::Result<()> {
        let reasoning = match self.shape.mix {
            Mix::Reasoning => self.random.magnitude(4_000, 60_000),
            _ => self.random.magnitude(700, 7_000),
        };
        self.reasoning(self.within(reasoning, end))?;
        if self.random.percent(25) {
            let bytes = self.random.magnitude(30, 400);
            let said = self.say(bytes, "commentary")?;
            self.open().assistant.push(said);
        }
        self.token_count()?;
        for _ in 0..self.random.between(1, 2) {
            self.command(end)?;
        }
        let left = self.limit.max(end).saturating_sub(self.out.bytes + TURN_END_BYTES);
        if self.shape.mix == Mix::Compacted && self.random.percent(40) && left > 1 << 20 {
            self.compacted()?;
        }
        Ok(())
    }

    /// This size, or what is left of the turn.
    pub(super) fn within(&self, bytes: u64, end: u64) -> u64 {
        bytes.min(end.saturating_sub(self.out.bytes))
    }

    /// The turn that is under way.
    pub(super) fn open(&mut self) -> &mut Open {
        self.state.open.as_mut().expect("steps stand between the start and the end of a turn")
    }

    fn take_open(&mut self) -> Open {
        self.state.open.take().expect("a turn that ends has begun")
    }

    /// The id of the turn that is under way.
    pub(super) fn turn_id(&self) -> String {
        self.state.open.as_ref().map(|open| open.id.clone()).unwrap_or_default()
    }

    pub(super) fn paginated(&self) -> bool {
        self.shape.layout == Layout::Paginated
    }
}

impl Open {
    fn over(self, completed_at: Option<i64>) -> Turn {
        Turn { start: self.start, user: self.user, assistant: self.assistant, completed_at }
    }
}

pub(super) struct Counted<W> {
    out: W,
    pub(super) bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
