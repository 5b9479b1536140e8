//! What hooks would have stored: the texts of the project's threads in the database, and Claude's receipts.

use std::collections::VecDeque;
use std::path::Path;

use rusqlite::Connection;
use throughline::db::capture::{Capture, CodexTurn, Said, store_codex_thread};
use throughline::db::schema;
use throughline::receipts::{Place, Receipt, SessionId};
use throughline_parsers::text::{Digest, fold};

use super::Arguments;
use crate::Fault;
use crate::random::Random;
use crate::rollout::{Origin, Plan, Turn, Written};
use crate::text::prose;
use crate::units::{DAY, END};

/// A thread of the project with its turns, as its current rollout has them.
pub struct ThreadTurns {
    id: String,
    cwd: String,
    turns: Vec<Turn>,
    /// How many of these are from the files that the last one continues.
    inherited: usize,
}

impl ThreadTurns {
    /// How many turns completed.
    pub fn completed(&self) -> u64 {
        self.turns.iter().filter(|turn| turn.completed_at.is_some()).count() as u64
    }
}

/// Takes the next rollout of a family: a thread, or what one of the threads was reverted to. An agent's is no thread here.
pub fn add(threads: &mut Vec<ThreadTurns>, plan: &Plan, written: &Written) {
    let turns = written.turns.iter().cloned();
    match &plan.origin {
        Origin::Agent(_) => {}
        Origin::Person | Origin::Copy(_) | Origin::Fork(_) => threads.push(ThreadTurns {
            id: written.state.thread.clone(),
            cwd: plan.cwd.clone(),
            turns: turns.collect(),
            inherited: 0,
        }),
        Origin::Revert(base) => {
            let reverted = threads.iter_mut().find(|thread| thread.id == base.thread);
            let thread = reverted.expect("a thread is reverted after it was made");
            let own = &thread.turns[thread.inherited..];
            let kept = own.partition_point(|turn| turn.start.bytes < base.end.bytes);
            thread.inherited += kept;
            thread.turns.truncate(thread.inherited);
            thread.turns.extend(turns);
        }
    }
}

/// The database while it is filled.
pub struct Bodies {
    database: Connection,
    /// Only the last so many threads are stored; they wait until it is known which these are.
    last: Option<u64>,
    waiting: VecDeque<ThreadTurns>,
    stored: u64,
}

impl Bodies {
    /// An empty database in this home, for all threads or for the last so many.
    pub fn open(home: &Path, last: Option<u64>) -> Result<Self, Fault> {
        Ok(Self { database: open_database(home)?, last, waiting: VecDeque::new(), stored: 0 })
    }

    /// Takes the next thread.
    pub fn store(&mut self, thread: ThreadTurns) -> Result<(), Fault> {
        let Some(last) = self.last else { return self.write(&thread) };
        self.waiting.push_back(thread);
        while self.waiting.len() as u64 > last {
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Stores what waits and tells how many threads are stored.
    pub fn finish(mut self) -> Result<u64, Fault> {
        while let Some(thread) = self.waiting.pop_front() {
            self.write(&thread)?;
        }
        Ok(self.stored)
    }

    /// The completed turns first, as readers see them, then the others.
    fn write(&mut self, thread: &ThreadTurns) -> Result<(), Fault> {
        let texts: Vec<(String, String)> = thread.turns.iter().map(texts).collect();
        let mut turns: Vec<CodexTurn<'_>> = (1..)
            .zip(&thread.turns)
            .zip(&texts)
            .map(|((turn_number, turn), (user, assistant))| CodexTurn {
                turn_number,
                user: Some(user),
                assistant: (!assistant.is_empty()).then_some(assistant),
                completed_at: turn.completed_at,
            })
            .collect();
        turns.sort_by_key(|turn| turn.completed_at.is_none());
        store_codex_thread(&mut self.database, &thread.id, &thread.cwd, &turns, END)?;
        self.stored += 1;
        Ok(())
    }
}

/// The database of this home. What is made up need not outlive the power: nothing waits for the disk.
///
/// # Errors
/// It cannot be opened.
pub fn open_database(home: &Path) -> Result<Connection, Fault> {
    let database = schema::open(&schema::path(home))?;
    database.execute_batch("PRAGMA synchronous = OFF")?;
    Ok(database)
}

/// The texts of a turn as the database has them: the user's and the assistant's.
pub fn texts(turn: &Turn) -> (String, String) {
    let assistant: Vec<String> = turn.assistant.iter().map(|text| fold(text)).collect();
    (fold(&turn.user), assistant.join("\n\n"))
}

/// Makes the Claude session's receipts and bodies, and tells of how many turns.
pub fn claude(home: &Path, project: &str, arguments: &Arguments) -> Result<u64, Fault> {
    let mut random = Random::part(arguments.seed, u64::MAX);
    let start = END - (arguments.days as i64 + 2) * DAY;
    let id = random.uuid(start);
    let session = SessionId::new(id.clone()).ok_or("an id is never empty")?;
    let mut database = open_database(home)?;
    let capture = Capture::begin(&mut database)?;
    let mut receipts = Vec::new();
    for number in 0..arguments.claude_turns {
        let (user, assistant) = (prose(&mut random, 200), prose(&mut random, 900));
        let at = start + number as i64 * 60_000;
        let said = |text| Some(Said { text, at });
        capture.keep_session(&id, project, at)?;
        // Between a prompt and its answer stand other rows.
        capture.insert_turn(&id, &id, number as i64 * 7 + 3, said(&user), said(&assistant))?;
        let digests = (Digest::of_body(&user), Digest::of_body(&assistant));
        receipts.extend(Receipt::new(session.clone(), session.clone(), digests.0, digests.1, at));
    }
    capture.commit()?;
    if receipts.is_empty() {
        return Ok(0);
    }
    let place = Place::new(&home.join(".local/state"), Digest::of(project));
    Ok(place.lock()?.append(receipts)? as u64)
}
