//! What was recorded last: the receipts of Claude's turns, and what was captured of each agent.

use super::{Check, Finding, Surroundings, number, quoted, some_of};
use crate::chain::Host;
use crate::db::{examining, schema};
use crate::private_file;
use crate::receipts::{Error, Place, Receipt};

/// Looks at every store of receipts, and at the sessions in the database.
pub fn check(around: &Surroundings) -> Vec<Finding> {
    let mut findings = receipts(around);
    let database = schema::path(&around.stores.home);
    for host in [Host::Claude, Host::Codex] {
        // What keeps the database from being read is told where that is looked at.
        let Ok(last) = examining::last_capture(&database, host) else { continue };
        let finding = match last {
            Some(_) => Finding::fine(Check::Records, format!("{} was captured last", host.title())),
            None => Finding::note(Check::Records, format!("{} has not been captured yet", host.title())),
        };
        findings.push(finding.of(host).at(last));
    }
    findings
}

fn receipts(around: &Surroundings) -> Vec<Finding> {
    let (mut stores, mut last, mut broken) = (0, None, Vec::new());
    // What keeps their directory from being listed is told where privacy is looked at.
    for place in Place::all(&around.stores.state_home).unwrap_or_default() {
        stores += 1;
        match place.load() {
            Ok(store) => {
                last = last.max(store.iter().flat_map(|store| store.receipts()).map(Receipt::completed_at).max());
            }
            // That is told where privacy is looked at.
            Err(Error::File(private_file::Error::NotPrivate)) => {}
            Err(error) => {
                let what = format!("{}: {error}; reads of its project fail", place.path().display());
                let advice = format!("move {} away: the next Stop begins a new one", quoted(&place.path()));
                broken.push(Finding::problem(Check::Records, what, advice).about(place.path()));
            }
        }
    }
    let mut findings = some_of(broken, |left| {
        Finding::problem(Check::Records, format!("{left} more receipt stores cannot be read"), "move them away")
    });
    match (stores, last) {
        (0, _) => findings.push(Finding::note(Check::Records, "there is no receipt yet")),
        (_, None) => {}
        (_, Some(_)) => {
            let what = format!("the last receipt in {}", number(stores, "store"));
            findings.push(Finding::fine(Check::Records, what).at(last).counting(stores));
        }
    }
    findings.into_iter().map(|finding| finding.of(Host::Claude)).collect()
}
