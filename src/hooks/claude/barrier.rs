//! The barrier: the hook may be called before the last row is on disk, so it waits until the transcript shows the answer.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use throughline_parsers::claude::Turn;
use throughline_parsers::text::{Digest, body};

use crate::error::Error;
use crate::hooks::Failure;
use crate::scan::transcript::Transcript;

/// How long the answer is waited for.
const ANSWER: Duration = Duration::from_secs(2);
/// How long a turn is waited for, where the host does not tell the answer.
const ANY_TURN: Duration = Duration::from_millis(500);
/// How often the file is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(25);

/// What the agent said last, as the host tells it. It is only compared with, never stored.
#[derive(Clone, Copy, Debug)]
pub struct Marker(Option<Digest>);

impl Marker {
    /// That of a payload's text, if it has one.
    ///
    /// # Errors
    /// The text is white space only: that is no answer, so no turn with it will ever be found.
    pub fn of(text: Option<&str>) -> Result<Self, Failure> {
        match text.map(body) {
            Some(body) if body.is_empty() => Err(Error::internal("the answer is empty").into()),
            body => Ok(Self(body.map(|body| Digest::of(&body)))),
        }
    }
}

/// A transcript as it was when the barrier was reached, or when its time was over.
#[derive(Debug)]
pub struct Reached {
    /// The file.
    pub transcript: Transcript,
    turns: Vec<Turn>,
}

/// Waits until the latest turn's answer is the marked one; without a mark, for a turn.
///
/// # Errors
/// The transcript is not there at the end, or cannot be read.
pub fn wait(path: &Path, marker: &Marker) -> Result<Reached, Failure> {
    let patience = if marker.0.is_some() { ANSWER } else { ANY_TURN };
    let until = Instant::now() + patience;
    let mut looked_at = None;
    let mut reached = None;
    loop {
        let in_time = Instant::now() < until;
        if let Some(transcript) = Transcript::open(path).map_err(Error::internal)?
            && looked_at != Some(transcript.stamps)
        {
            looked_at = Some(transcript.stamps);
            match read(transcript) {
                Ok(found) if found.is_behind(marker) => return Ok(found),
                Ok(found) => reached = Some(found),
                // It changes just now: the next look finds it at rest.
                Err(_) if in_time => looked_at = None,
                Err(error) => return Err(Error::internal(error).into()),
            }
        }
        if !in_time {
            return reached.ok_or_else(|| Error::internal("there is no transcript").into());
        }
        thread::sleep(LOOK);
    }
}

fn read(transcript: Transcript) -> io::Result<Reached> {
    let turns = transcript.turns()?.since(0).ok_or_else(|| io::Error::other("turns that were read are not there"))?;
    Ok(Reached { transcript, turns })
}

impl Reached {
    fn is_behind(&self, marker: &Marker) -> bool {
        match (self.turns.last(), marker.0) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(last), Some(marked)) => last.says(marked),
        }
    }

    /// The turns that may be looked at, and which of them is proven: the marked one, which is the latest, else the latest
    /// marked one that is not stored yet. (The next prompt may stand behind it already.)
    ///
    /// # Errors
    /// None is marked, though the host told the answer.
    pub fn turns(
        &self,
        marker: &Marker,
        is_stored: impl Fn(&Turn) -> Result<bool, Failure>,
    ) -> Result<(&[Turn], Option<usize>), Failure> {
        let Some(marked) = marker.0 else { return Ok((&self.turns, None)) };
        if self.is_behind(marker) {
            return Ok((&self.turns, self.turns.len().checked_sub(1)));
        }
        for (n, turn) in self.turns.iter().enumerate().rev() {
            if turn.says(marked) && !is_stored(turn)? {
                return Ok((&self.turns[..=n], Some(n)));
            }
        }
        Err(Error::internal("the answer is not in the transcript").into())
    }
}
