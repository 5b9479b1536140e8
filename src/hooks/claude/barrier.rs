//! The barrier: the hook may be called before the last row is on disk, so it waits until the transcript shows the answer.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use throughline_parsers::claude::{Turn, Turns};
use throughline_parsers::text::{Digest, body};

use crate::cache::Cache;
use crate::error::Error;
use crate::hooks::Failure;
use crate::scan::followed::Followed;
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
    /// What was made of it.
    pub followed: Followed<Turns>,
    last: Option<Turn>,
}

/// The turns that may be looked at, each with its place among those of the file, and which of them is proven.
pub type Marked<'t> = (&'t [(u64, Turn)], Option<usize>);

/// Waits until the latest turn's answer is the marked one; without a mark, for a turn.
///
/// # Errors
/// The transcript is not there at the end, or cannot be read.
pub fn wait(path: &Path, marker: &Marker, cache: Option<&Cache>) -> Result<Reached, Failure> {
    let patience = if marker.0.is_some() { ANSWER } else { ANY_TURN };
    let until = Instant::now() + patience;
    let mut looked_at = None;
    let mut reached: Option<Reached> = None;
    loop {
        let in_time = Instant::now() < until;
        if let Some(transcript) = Transcript::open(path).map_err(Error::internal)?
            && looked_at != Some(transcript.stamps)
        {
            looked_at = Some(transcript.stamps);
            let earlier = reached.as_ref().map(|reached| reached.followed.clone());
            match Reached::read(path, transcript, earlier, cache) {
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

impl Reached {
    fn read(
        path: &Path,
        transcript: Transcript,
        earlier: Option<Followed<Turns>>,
        cache: Option<&Cache>,
    ) -> io::Result<Self> {
        let followed = Followed::read(path, &transcript, earlier, cache)?;
        let turns = followed.state();
        let last = turns.since(turns.count().saturating_sub(1)).ok_or_else(damaged)?.pop();
        Ok(Self { transcript, followed, last })
    }

    fn is_behind(&self, marker: &Marker) -> bool {
        match (&self.last, marker.0) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(last), Some(marked)) => last.says(marked),
        }
    }

    /// The turns from the one at this place on, and those in front of it at the places in `left`; each with its place.
    ///
    /// # Errors
    /// What was remembered of them is damaged.
    pub fn turns(&self, first: u64, left: &[u64]) -> Result<Vec<(u64, Turn)>, Failure> {
        let from = left.iter().copied().min().unwrap_or(first).min(first);
        let turns = self.followed.state().since(from).ok_or_else(|| Error::internal(damaged()))?;
        let is_wanted = |place: u64| place >= first || left.contains(&place);
        Ok((from..).zip(turns).filter(|(place, _)| is_wanted(*place)).collect())
    }

    /// Which of these turns may be looked at, and which of them is proven: the marked one, which is the latest, else the
    /// latest marked one that is not stored yet. (The next prompt may stand behind it already.) All turns that are not
    /// among these are stored, or can never be.
    ///
    /// # Errors
    /// None is marked, though the host told the answer.
    pub fn marked<'t>(
        &self,
        turns: &'t [(u64, Turn)],
        marker: &Marker,
        is_stored: impl Fn(&Turn) -> Result<bool, Failure>,
    ) -> Result<Marked<'t>, Failure> {
        let Some(marked) = marker.0 else { return Ok((turns, None)) };
        if self.is_behind(marker) {
            return Ok((turns, turns.len().checked_sub(1)));
        }
        for (n, (_, turn)) in turns.iter().enumerate().rev() {
            if turn.says(marked) && !is_stored(turn)? {
                return Ok((&turns[..=n], Some(n)));
            }
        }
        Err(Error::internal("the answer is not in the transcript").into())
    }
}

fn damaged() -> io::Error {
    io::Error::other("turns that were read are not there")
}
