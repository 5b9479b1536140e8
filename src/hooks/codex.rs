//! The hooks of Codex: each event captures the texts of the thread that it is about.
//!
//! At its Stop hook the completion is not in the rollout yet, and Codex writes it only after the hook has returned: so
//! nothing is waited for. The next read sees the completion, and finds the texts.

use super::{Failure, Payload};
use crate::capturing;
use crate::scan::file::Mapping;
use crate::stores::Stores;

/// Captures the thread that the payload names. (Its `transcript_path` can be missing, and is not needed.)
///
/// # Errors
/// The payload names no thread, its rollouts cannot be read, or the database cannot be written.
pub fn capture(stores: &Stores, payload: &Payload, mapping: Mapping) -> Result<(), Failure> {
    let thread = payload.text("session_id").and_then(|id| id.parse().ok()).ok_or(Failure::Payload)?;
    Ok(capturing::thread(stores, thread, mapping)?)
}
