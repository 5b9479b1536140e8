//! Claude's threads, from the completion receipts of the project.

use throughline_parsers::text::Digest;

use super::Candidate;
use crate::chain::{Chain, Entry, Host};
use crate::error::Error;
use crate::paths::Resolved;
use crate::receipts::Place;
use crate::stores::Stores;

/// The threads that have receipts.
///
/// # Errors
/// The receipt store is damaged, not private or cannot be read.
pub fn candidates(stores: &Stores, project: &Resolved) -> Result<Vec<Candidate>, Error> {
    let place = Place::new(&stores.state_home, project.digest());
    let Some(store) = place.load().map_err(Error::internal)? else { return Ok(Vec::new()) };
    let mut found: Vec<Candidate> = Vec::new();
    for (sequence, receipt) in store.entries() {
        let target = receipt.target().as_str();
        let index = found.iter().position(|candidate| candidate.session == target).unwrap_or_else(|| {
            let chain = Chain::new(Host::Claude, Digest::of(target));
            found.push(Candidate { chain, floor: store.history_floor(), session: target.to_owned() });
            found.len() - 1
        });
        found[index].chain.push(Entry {
            origin: Digest::of(receipt.origin().as_str()),
            user: receipt.user(),
            assistant: receipt.assistant(),
            completed_at: receipt.completed_at(),
            source: Digest::of(&format!("claude:{sequence}")),
        });
    }
    Ok(found)
}
