//! The hooks of Claude Code. The Stop hook stores the turns that are complete, and then publishes their receipts.
//!
//! A transcript does not say when a turn is over. The host does, by calling this hook with what the agent said last; so the
//! turn with that answer is proven, and so are those in front of it that had ended (a Stop that was missed is made good).
//! The receipt is written last: where anything fails before, the completed cursor does not move, and the next Stop repeats
//! what was missed.
//!
//! [`session_name`] is another matter: whether the session has shown its name. It is looked at at the end of a turn, too, and
//! then behind all of this, which it never changes.

mod barrier;
mod bodies;
pub mod captured;
mod receipts;
pub mod session_name;

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};
use throughline_parsers::claude::Turn;

use super::{Failure, Payload};
use crate::clock::now_ms;
use crate::db::capture::Capture;
use crate::db::schema;
use crate::error::Error;
use crate::paths::Resolved;
use crate::receipts::{Place, SessionId};
use crate::stores::Stores;

use barrier::Marker;
use bodies::{Session, number_of};
use captured::{Captured, Subject};

/// How long a chain of merged sessions can be.
const MERGES: usize = 10;

/// Handles one Stop.
///
/// # Errors
/// The payload is none of a Stop, the transcript does not show the answer in time or cannot be read, or a store cannot be
/// written. Then there is no new receipt.
pub fn stop(stores: &Stores, payload: &Payload) -> Result<(), Failure> {
    if payload.text("agent_id").is_some() {
        // A sub-agent has stopped: the turn goes on.
        return Ok(());
    }
    let origin = payload.text("session_id").and_then(SessionId::new).ok_or(Failure::Payload)?;
    let path = transcript_path(stores, payload).ok_or(Failure::Payload)?;
    let marker = Marker::of(payload.text("last_assistant_message"))?;
    let cache = stores.cache.as_ref();
    let reached = barrier::wait(&path, &marker, cache)?;
    let mut database = schema::open(&stores.database())?;
    let (target, project) = project_of(&database, &origin, payload)?;
    let resolved = Resolved::new(&project).ok_or(Failure::Payload)?;
    let place = Place::new(&stores.state_home, resolved.digest());
    // Bodies and receipts get one order: the lock is held until the receipts are there.
    let mut locked = place.lock()?;
    let capture = Capture::begin(&mut database)?;
    if project_of(capture.transaction(), &origin, payload)? != (target.clone(), project.clone()) {
        return Err(Failure::Store(Error::internal("the session was moved to another project")));
    }
    let subject = Subject { transcript: &path, target: &target, origin: &origin, project: resolved.digest() };
    let state = reached.followed.state();
    let known = match cache {
        Some(cache) => Captured::load(cache, subject, state, &capture, locked.store())?,
        None => None,
    };
    let (first, left) = known.as_ref().map_or((0, &[][..]), |known| (known.over, &known.left));
    let turns = reached.turns(first, left)?;
    let mut session = Session::load(&capture, &target, &origin, least_number(&turns))?;
    let (looked_at, proven) = reached.marked(&turns, &marker, |turn| session.is_stored(turn, &reached.transcript))?;
    capture.keep_session(target.as_str(), &project.to_string_lossy(), now_ms())?;
    let mut pairs = Vec::new();
    for (n, (_, turn)) in looked_at.iter().enumerate() {
        pairs.extend(session.capture(turn, turn.completed(Some(n) == proven), &reached.transcript)?);
    }
    let left = session.left(&turns, state.over(), &reached.transcript)?;
    let captured = Captured::of(subject, state, left, &capture, known.as_ref())?;
    capture.commit()?;
    let has_earlier = known.is_some_and(|known| known.has_receipt);
    let new = receipts::new_ones(locked.store(), &target, &origin, &pairs, has_earlier)?;
    locked.append(new.receipts)?;
    // A pair that may yet get a receipt has to be looked at again.
    let captured = captured.filter(|_| !new.passed_over);
    if let Some(cache) = cache {
        let has_receipt = has_earlier || pairs.iter().any(|pair| receipts::has(locked.store(), &origin, pair));
        reached.followed.store(cache);
        captured.into_iter().for_each(|captured| captured.store(cache, subject, locked.store(), has_receipt));
    }
    Ok(())
}

/// No answer of these turns can be stored under a lesser number.
fn least_number(turns: &[(u64, Turn)]) -> i64 {
    turns.iter().flat_map(|(_, turn)| turn.replies.first()).map(number_of).min().unwrap_or(i64::MAX)
}

/// The path of the transcript. A host may have left a `~` in it.
fn transcript_path(stores: &Stores, payload: &Payload) -> Option<PathBuf> {
    let path = payload.text("transcript_path")?;
    Some(path.strip_prefix("~/").map_or_else(|| PathBuf::from(path), |rest| stores.home.join(rest)))
}

/// The session that the turns belong to, at the end of the merges, and its project: that of its first Stop.
fn project_of(database: &Connection, origin: &SessionId, payload: &Payload) -> Result<(SessionId, PathBuf), Failure> {
    let mut target = origin.clone();
    for _ in 0..=MERGES {
        let row = database
            .query_row(
                "SELECT project_path, merged_into FROM sessions WHERE session_id = ?",
                [target.as_str()],
                |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?)),
            )
            .optional()
            .map_err(crate::db::Error::from)?;
        match row {
            Some((_, Some(next))) if !next.is_empty() => target = SessionId::new(next).ok_or(Failure::Payload)?,
            Some((project, _)) => return Ok((target, PathBuf::from(project))),
            None => {
                let named = env::var_os("CLAUDE_PROJECT_DIR");
                let project = named.as_deref().and_then(directory).or_else(|| payload.text("cwd").map(PathBuf::from));
                return Ok((target, project.ok_or(Failure::Payload)?));
            }
        }
    }
    Err(Failure::Store(Error::internal("sessions are merged in a circle")))
}

fn directory(named: &OsStr) -> Option<PathBuf> {
    let path = Path::new(named);
    (path.is_absolute() && path.is_dir()).then(|| path.to_path_buf())
}
