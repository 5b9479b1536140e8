//! Which receipts are new.

use super::bodies::Complete;
use crate::hooks::Failure;
use crate::receipts::{Receipt, SessionId, Store};

/// The receipts for pairs that have none, in their order. Nothing new is the same pair of the same origin, and the same
/// pair completed at the same time under any origin, which is a fork's copy. Once a store has dropped receipts, what it
/// does not hold is no proof any more: then only pairs behind the last one of this origin that has a receipt count; if none
/// has, those that are not older than the oldest receipt. `has_earlier` says that a pair in front of these has one.
///
/// # Errors
/// All sequence numbers are used up.
pub fn new_ones(
    store: &Store,
    target: &SessionId,
    origin: &SessionId,
    pairs: &[Complete],
    has_earlier: bool,
) -> Result<Vec<Receipt>, Failure> {
    // What it will be: receipts are dropped while new ones come.
    let mut store = store.clone();
    let first = match store.history_floor() {
        1 => 0,
        _ => pairs.iter().rposition(|pair| has(&store, origin, pair)).map_or(0, |last| last + 1),
    };
    let none_has = first == 0 && !has_earlier;
    let mut new = Vec::new();
    for pair in &pairs[first..] {
        let (user, assistant, Some(at)) = *pair else { continue };
        let is_copy = store
            .receipts()
            .iter()
            .any(|known| (known.user(), known.assistant(), known.completed_at()) == (user, assistant, at));
        let oldest = store.receipts().first().map(Receipt::completed_at);
        // What was dropped just now counts, too.
        let is_too_old = store.history_floor() > 1 && none_has && oldest.is_some_and(|oldest| at < oldest);
        if has(&store, origin, pair) || is_copy || is_too_old {
            continue;
        }
        let Some(receipt) = Receipt::new(target.clone(), origin.clone(), user, assistant, at) else { continue };
        store.push(receipt.clone())?;
        new.push(receipt);
    }
    Ok(new)
}

/// Whether the store has a receipt of this pair in this origin.
pub fn has(store: &Store, origin: &SessionId, (user, assistant, _): &Complete) -> bool {
    let is_it = |known: &Receipt| known.origin() == origin && (known.user(), known.assistant()) == (*user, *assistant);
    store.receipts().iter().any(is_it)
}
