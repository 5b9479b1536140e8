//! Which receipts are new.

use super::bodies::Complete;
use crate::hooks::Failure;
use crate::receipts::{Receipt, SessionId, Store};

/// New receipts.
#[derive(Debug, Default)]
pub struct New {
    /// In the order of their pairs.
    pub receipts: Vec<Receipt>,
    /// A pair was too old for one. It gets one at a later Stop if a pair in front of it has one by then.
    pub passed_over: bool,
}

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
) -> Result<New, Failure> {
    // What it will be: receipts are dropped while new ones come.
    let mut store = store.clone();
    let first = match store.history_floor() {
        1 => 0,
        _ => pairs.iter().rposition(|pair| has(&store, origin, pair)).map_or(0, |last| last + 1),
    };
    // Who has a receipt is asked when the Stop begins, and only of a store that has dropped some.
    let none_has = store.history_floor() == 1 || (first == 0 && !has_earlier);
    let mut new = New::default();
    for pair in &pairs[first..] {
        let (user, assistant, Some(at)) = *pair else { continue };
        let is_copy = store
            .receipts()
            .iter()
            .any(|known| (known.user(), known.assistant(), known.completed_at()) == (user, assistant, at));
        let oldest = store.receipts().first().map(Receipt::completed_at);
        // What was dropped just now counts, too.
        let is_too_old = store.history_floor() > 1 && none_has && oldest.is_some_and(|oldest| at < oldest);
        if has(&store, origin, pair) || is_copy {
            continue;
        }
        if is_too_old {
            new.passed_over = true;
            continue;
        }
        let Some(receipt) = Receipt::new(target.clone(), origin.clone(), user, assistant, at) else { continue };
        store.push(receipt.clone())?;
        new.receipts.push(receipt);
    }
    Ok(new)
}

/// Whether the store has a receipt of this pair in this origin.
pub fn has(store: &Store, origin: &SessionId, (user, assistant, _): &Complete) -> bool {
    let is_it = |known: &Receipt| known.origin() == origin && (known.user(), known.assistant()) == (*user, *assistant);
    store.receipts().iter().any(is_it)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use throughline_parsers::text::Digest;

    fn pair(n: i64, at: i64) -> Complete {
        (Digest::of(&format!("ask {n}")), Digest::of("answer"), Some(at))
    }

    /// A store with this many receipts of the session, one a millisecond from 1000 on.
    fn store(session: &SessionId, count: i64) -> Store {
        let mut store = Store::empty(Digest::of("/project"));
        for n in 0..count {
            let (user, assistant, at) = pair(n, 1000 + n);
            store.push(Receipt::new(session.clone(), session.clone(), user, assistant, at.unwrap()).unwrap()).unwrap();
        }
        store
    }

    #[test]
    fn a_pair_that_is_too_old_when_receipts_are_dropped_waits_for_the_next_stop() {
        let session = SessionId::new("s").unwrap();
        // The first of these drops receipts, and the second one's time is in front of all that stay.
        let pairs = [pair(1000, 2000), pair(1001, 1)];
        let mut store = store(&session, 256);
        let new = new_ones(&store, &session, &session, &pairs, true).unwrap();
        assert_eq!(new.receipts.iter().map(Receipt::completed_at).collect::<Vec<_>>(), [2000]);
        assert!(new.passed_over);
        new.receipts.into_iter().for_each(|receipt| assert!(store.push(receipt).unwrap()));
        // Now a pair in front of it has one.
        let new = new_ones(&store, &session, &session, &pairs, false).unwrap();
        assert_eq!(new.receipts.iter().map(Receipt::completed_at).collect::<Vec<_>>(), [1]);
        assert!(!new.passed_over);
    }

    #[test]
    fn of_a_session_without_receipts_the_old_pairs_get_none() {
        let [session, other] = ["s", "other"].map(|id| SessionId::new(id).unwrap());
        let store = store(&other, 257);
        let oldest = store.receipts()[0].completed_at();
        let pairs = [pair(1000, oldest - 1), pair(1001, oldest)];
        let new = new_ones(&store, &session, &session, &pairs, false).unwrap();
        assert_eq!(new.receipts.iter().map(Receipt::completed_at).collect::<Vec<_>>(), [oldest]);
        assert!(new.passed_over);
        // Where a pair in front of these has one, its age is no matter.
        let new = new_ones(&store, &session, &session, &pairs, true).unwrap();
        assert_eq!((new.receipts.len(), new.passed_over), (2, false));
    }
}
