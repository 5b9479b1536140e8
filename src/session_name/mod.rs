//! The name of a session, which its agent has to show once, and the check that it did.
//!
//! The first task of a session gives it a name ([`set_task`]), which the agent has to show as the block that its next
//! visible reply begins with. Until it was seen there the name is *pending*, and the hooks of Claude Code look for it in the
//! transcript ([`verdict`]). They refuse something only where a reply can be read that came first and shows
//! something else; then an explicit [`retry`] begins anew. What they allow without evidence is told by [`diagnostics`].

pub mod diagnostics;
pub mod own_command;
mod scan;
pub mod state;

pub use scan::verdict;

use throughline_parsers::text::fold;

use crate::receipts::SessionId;
use crate::stores::Stores;
use state::{Error, Place, State};

/// How far a session is with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It has none yet.
    Unminted,
    /// It has this one, which was not seen yet.
    Pending(String),
    /// It has this one, and that was seen.
    Shown(String),
}

/// Stores what the session works on. The first task that is not empty gives it a name, `<label> - <task>` with its white
/// space collapsed, and that is the answer; any later one says nothing of the name, shown or not.
///
/// # Errors
///
/// The state cannot be read or written.
pub fn set_task(stores: &Stores, session: &SessionId, label: &str, task: &str) -> Result<Option<String>, Error> {
    let task = fold(task);
    if task.is_empty() {
        return Ok(None);
    }
    Place::of(&stores.state_home, session).change(|state| match state {
        Some(state) => {
            state.task = task;
            None
        }
        none => Some(none.insert(State::new(fold(&format!("{label} - {task}")), task)).name.clone()),
    })
}

/// The name that is to be shown from here on, as long as it is pending.
///
/// # Errors
///
/// The state cannot be read.
pub fn retry(stores: &Stores, session: &SessionId) -> Result<Option<String>, Error> {
    let state = Place::of(&stores.state_home, session).load()?;
    Ok(state.filter(State::is_pending).map(|state| state.name))
}

/// How far the session is.
///
/// # Errors
///
/// The state cannot be read.
pub fn status(stores: &Stores, session: &SessionId) -> Result<Status, Error> {
    Ok(match Place::of(&stores.state_home, session).load()? {
        None => Status::Unminted,
        Some(state) if state.is_pending() => Status::Pending(state.name),
        Some(state) => Status::Shown(state.name),
    })
}

/// The sessions whose names are pending.
///
/// # Errors
///
/// The folder of the states cannot be listed.
pub fn pending(stores: &Stores) -> Result<Listing, Error> {
    let mut listing = Listing::default();
    for (session_sha256, state) in state::all(&stores.state_home)? {
        match state {
            Ok(state) if state.is_pending() => listing.pending.push(Pending { session_sha256, name: state.name }),
            Ok(_) => {}
            Err(_) => listing.unusable += 1,
        }
    }
    Ok(listing)
}

/// What there is of pending names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The sessions with one, in the order of their digests.
    pub pending: Vec<Pending>,
    /// How many states cannot be read: a damaged one, or one that is not private.
    pub unusable: usize,
}

/// A session with a name that was not seen yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The SHA-256 of the session's id, in hex.
    pub session_sha256: String,
    /// The name.
    pub name: String,
}
