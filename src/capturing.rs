//! Capture: the texts of Codex' threads go from their rollouts into the database.
//!
//! Hooks do this for the thread that calls them; [`threads`] does it for those that were written without hooks. (Claude's
//! transcripts get their bodies from the Stop hook only: without it nothing proves that a turn is complete.)

use rusqlite::Connection;
use throughline_parsers::codex::Uuid;

use crate::clock::now_ms;
use crate::db::capture::{Capture, CodexTurn};
use crate::db::{self, schema};
use crate::error::Error;
use crate::hosts::codex::texts::{Texts, Threads};
use crate::paths::Resolved;
use crate::scan::file::Mapping;
use crate::stores::Stores;

/// Which threads are captured.
#[derive(Clone, Copy, Debug)]
pub enum Which<'w> {
    /// This one.
    Thread(Uuid),
    /// Those of a project.
    Project(&'w Resolved),
    /// All.
    All,
}

/// Why capture could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A store cannot be read.
    #[error(transparent)]
    Store(#[from] Error),
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] db::Error),
}

/// A thread that was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The thread.
    pub thread: Uuid,
    /// Its working directory.
    pub cwd: String,
    /// How many turns of it the database has now.
    pub turns: usize,
    /// Whether the database had others before.
    pub changed: bool,
}

/// Captures threads, and tells before each one how many of how many are done.
///
/// # Errors
/// A folder cannot be listed, a rollout cannot be read, or the database cannot be written. What was captured until then
/// stays.
pub fn threads(
    stores: &Stores,
    which: Which<'_>,
    mapping: Mapping,
    mut done: impl FnMut(usize, usize),
) -> Result<Vec<Captured>, Failure> {
    let mut threads = Threads::look(stores, mapping)?;
    let ids = match which {
        Which::Thread(thread) => vec![thread],
        Which::Project(project) => threads.ids(Some(project)),
        Which::All => threads.ids(None),
    };
    let mut database = None;
    let mut captured = Vec::new();
    for (n, thread) in ids.iter().enumerate() {
        done(n, ids.len());
        let Some(texts) = threads.texts(*thread)? else { continue };
        if database.is_none() {
            database = Some(schema::open(&stores.database())?);
        }
        if let Some(database) = &mut database {
            captured.extend(store(database, &mut threads, texts)?);
        }
    }
    Ok(captured)
}

/// Who waits for the database can be overtaken by others who have read more since: so what was read counts only if it is
/// still so once the others are kept out. Else it is read again then.
fn store(database: &mut Connection, threads: &mut Threads<'_>, read: Texts) -> Result<Option<Captured>, Failure> {
    let capture = Capture::begin(database)?;
    let texts = match read.are_of_now() {
        true => Some(read),
        false => threads.texts(read.thread)?,
    };
    let Some(texts) = texts else { return Ok(None) };
    let changed = store_within(&capture, &texts, now_ms())?;
    capture.commit()?;
    Ok(Some(Captured { thread: texts.thread, cwd: texts.cwd, turns: texts.turns.len(), changed }))
}

/// Stores the texts of a thread as of a moment, in milliseconds since the epoch; tells whether the database had others.
///
/// # Errors
/// The database cannot be written; then it is as before.
pub fn store_texts(database: &mut Connection, texts: &Texts, now: i64) -> Result<bool, db::Error> {
    let capture = Capture::begin(database)?;
    let changed = store_within(&capture, texts, now)?;
    capture.commit()?;
    Ok(changed)
}

fn store_within(capture: &Capture<'_>, texts: &Texts, now: i64) -> Result<bool, db::Error> {
    let turns: Vec<_> = texts
        .turns
        .iter()
        .map(|turn| CodexTurn {
            turn_number: turn.number,
            user: turn.user.as_deref(),
            assistant: turn.assistant.as_deref(),
            completed_at: turn.completed_at,
        })
        .collect();
    capture.store_codex_thread(&texts.thread.to_string(), &texts.cwd, &turns, now)
}
