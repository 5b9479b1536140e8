//! Where everything is.

use std::path::Path;

use super::{Check, Finding, Surroundings};
use crate::cache::Cache;
use crate::chain::Host;
use crate::db::schema;
use crate::receipts::Place;

/// Looks which of the places are there, and whether every program would find the same ones.
pub fn check(around: &Surroundings) -> Vec<Finding> {
    let stores = &around.stores;
    let home = place("the user's home", &stores.home, "HOME", true);
    let claude = place("the home of Claude Code", &around.places.claude, "CLAUDE_CONFIG_DIR", false).of(Host::Claude);
    let codex = place("the home of Codex", &stores.codex_home, "CODEX_HOME", false).of(Host::Codex);
    let sessions = place("the rollouts of Codex", &stores.sessions_root(), "CODEX_HOME", false).of(Host::Codex);
    let receipts =
        place("the receipts", &Place::directory(&stores.state_home), "XDG_STATE_HOME", false).of(Host::Claude);
    let database = place("the database", &schema::path(&stores.home), "HOME", false);
    let cache = match &stores.cache {
        Some(cache) => place("the cache", cache.directory(), "XDG_CACHE_HOME", false),
        None => {
            let directory = Cache::below(&stores.cache_home).directory().to_owned();
            let off = "the cache, which THROUGHLINE_CACHE=off keeps reads from using";
            Finding::note(Check::Places, format!("{off}: {}", directory.display())).about(directory)
        }
    };
    vec![home, claude, codex, sessions, receipts, database, cache]
}

fn place(name: &str, path: &Path, variable: &str, needed: bool) -> Finding {
    let what = format!("{name}: {}", path.display());
    let finding = if path.is_relative() {
        let advice = format!("give {variable} an absolute path");
        Finding::problem(Check::Places, format!("{what} is another place for every current directory"), advice)
    } else if path.exists() {
        Finding::fine(Check::Places, what)
    } else if needed {
        Finding::problem(
            Check::Places,
            format!("{what} is not there"),
            format!("give {variable} the path of a directory"),
        )
    } else {
        Finding::note(Check::Places, format!("{what} is not there yet"))
    };
    finding.about(path)
}
