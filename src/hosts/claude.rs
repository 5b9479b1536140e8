//! Claude's threads, from the completion receipts of the project.

use throughline_parsers::text::Digest;

use super::Candidate;
use crate::chain::{Chain, Host, Pair};
use crate::error::Error;
use crate::paths::Resolved;
use crate::receipts::{Place, SessionId};
use crate::stores::Stores;

/// The threads that have receipts.
///
/// # Errors
/// The receipt store is damaged, not private or cannot be read.
pub fn candidates(stores: &Stores, project: &Resolved) -> Result<Vec<Candidate>, Error> {
    let place = Place::new(&stores.state_home, project.digest());
    let Some(store) = place.load().map_err(Error::internal)? else { return Ok(Vec::new()) };
    let mut chains: Vec<(SessionId, Chain)> = Vec::new();
    for (sequence, receipt) in store.entries() {
        let target = receipt.target();
        let index = chains.iter().position(|(session, _)| session == target).unwrap_or_else(|| {
            chains.push((target.clone(), Chain::new(Host::Claude, Digest::of(target.as_str()))));
            chains.len() - 1
        });
        let chain = &mut chains[index].1;
        let place = chain.place(Digest::of(receipt.origin().as_str()), "claude:");
        chain.push(Pair {
            user: receipt.user(),
            assistant: receipt.assistant(),
            completed_at: receipt.completed_at(),
            place,
            number: sequence.unsigned_abs(),
        });
    }
    let floor = store.history_floor();
    let candidate = |(session, chain): (SessionId, Chain)| Candidate::whole(chain, floor, session.as_str().to_owned());
    Ok(chains.into_iter().filter_map(candidate).collect())
}
