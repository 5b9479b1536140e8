//! The threads of Claude, each made of its receipts and its transcripts.

use std::collections::HashMap;
use std::path::Path;

use throughline_parsers::codex::Uuid;
use throughline_parsers::text::Digest;

use super::gather::Gathered;
use super::record::{Pair, Record};
use super::threads::Thread;
use super::transcripts::Transcript;
use crate::chain::Host;
use crate::db::sessions::Sessions;
use crate::receipts::Store;

/// The receipts of one project.
#[derive(Debug)]
pub struct Receipts {
    /// The digest of the project's path.
    pub project: Digest,
    /// The receipts.
    pub store: Store,
}

/// The threads that have receipts, and those that have transcripts below that root.
pub fn threads<'r>(
    transcripts: &'r Gathered<Transcript>,
    root: &Path,
    receipts: &[Receipts],
    sessions: &Sessions,
) -> Vec<Thread<'r>> {
    let mut found: Vec<Thread<'r>> = Vec::new();
    let mut by_session: HashMap<String, usize> = HashMap::new();
    // Sessions that were merged into others, as the receipts tell it where the database does not.
    let mut merged: HashMap<&str, &str> = HashMap::new();
    for Receipts { project, store } in receipts {
        let mut of_store: HashMap<&str, usize> = HashMap::new();
        for receipt in store.receipts() {
            let (target, origin) = (receipt.target().as_str(), receipt.origin().as_str());
            let index = *of_store.entry(target).or_insert_with(|| {
                let mut thread = Thread::new(Host::Claude, target.to_owned(), target.to_owned());
                thread.store = Some(*project);
                found.push(thread);
                found.len() - 1
            });
            by_session.entry(target.to_owned()).or_insert(index);
            if origin != target {
                merged.insert(origin, target);
            }
            let thread = &mut found[index];
            let origin = Digest::of(origin);
            thread.pairs.push(Pair::new(receipt.completed_at(), origin, receipt.user(), receipt.assistant()));
            thread.receipts += 1;
        }
    }
    for (_, record) in transcripts.records() {
        let (session, begun_by) = session_of(record, root);
        let target = match &begun_by {
            None => target(&session, sessions, &merged),
            Some(_) => session.clone(),
        };
        let index = *by_session.entry(target.clone()).or_insert_with(|| {
            found.push(Thread::new(Host::Claude, target.clone(), target.clone()));
            found.len() - 1
        });
        let thread = &mut found[index];
        thread.turns += record.summary.turns;
        thread.text_bytes += record.summary.text_bytes;
        if thread.cwd.is_none() || session == thread.id {
            thread.cwd.clone_from(&record.summary.cwd);
        }
        thread.begun_by = begun_by.map(|by| by.iter().map(|by| self::target(by, sessions, &merged)).collect());
        thread.add_file(record);
    }
    found
}

/// The session that another one was merged into, else itself.
fn target(session: &str, sessions: &Sessions, merged: &HashMap<&str, &str>) -> String {
    match sessions.target(session) {
        Some(target) if target != session => target.to_owned(),
        _ => merged.get(session).copied().unwrap_or(session).to_owned(),
    }
}

/// The session that a transcript is of, which is its name; and of a sub-agent's the one that began it.
fn session_of(record: &Record<Transcript>, root: &Path) -> (String, Option<Vec<String>>) {
    let name = record.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let below = record.path.strip_prefix(root).unwrap_or(&record.path).parent();
    // Newer versions keep what belongs to a session in a folder of its name.
    let mut folders = below.into_iter().flat_map(Path::components).filter_map(|part| part.as_os_str().to_str());
    let session = folders.rfind(|folder| folder.parse::<Uuid>().is_ok());
    let begun_by = match session {
        Some(session) => Some(vec![session.to_owned()]),
        None if name.starts_with("agent-") => Some(record.summary.session.clone().into_iter().collect()),
        None => None,
    };
    (name, begun_by)
}
