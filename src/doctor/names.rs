//! The names that sessions have to show: those that were not seen yet, and what the check of them said last.

use super::{Check, Finding, Surroundings, some_of};
use crate::chain::Host;
use crate::session_name::{self, diagnostics::Log, state};

/// So many diagnostics are told, the last ones.
const DIAGNOSTICS: usize = 3;

/// Looks at the names, where there are any.
pub fn check(around: &Surroundings) -> Vec<Finding> {
    let state_home = &around.stores.state_home;
    let mut findings = match session_name::pending(&around.stores) {
        Ok(names) => {
            let note = |pending: session_name::Pending| {
                Finding::note(Check::Names, format!("the name {:?} was not seen yet", pending.name))
            };
            let rest = |left| Finding::note(Check::Names, format!("{left} more names were not seen yet"));
            let mut findings = some_of(names.pending.into_iter().map(note).collect(), rest);
            if names.unusable > 0 {
                let what = format!("{} states of sessions' names cannot be used", names.unusable);
                let advice = "remove the damaged ones, and make the others private (0600)";
                let problem = Finding::problem(Check::Names, what, advice).about(state::directory(state_home));
                findings.push(problem.counting(names.unusable));
            }
            findings
        }
        Err(error) => {
            let what = format!("the names of sessions cannot be listed: {error}");
            let advice = "make the directory yours alone (0700)";
            vec![Finding::problem(Check::Names, what, advice).about(state::directory(state_home))]
        }
    };
    let log = Log::below(state_home);
    let told = log.last(DIAGNOSTICS).into_iter();
    findings.extend(told.map(|line| Finding::note(Check::Names, format!("the check said: {line}")).about(log.path())));
    findings.into_iter().map(|finding| finding.of(Host::Claude)).collect()
}
