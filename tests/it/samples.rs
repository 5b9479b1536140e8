//! The samples in `corpus/samples`: what real programs wrote, read to the pairs that are known to be in it.
//!
//! `codex-real` holds, for each version of Codex, everything that it wrote in scripted sessions, so the pairs are known
//! from the script (`expected.json`). `codex` holds recordings of people's sessions with every word replaced; about
//! these the oracle was asked (`tests/oracle/samples.py`).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use throughline::chain::Host;
use throughline::hosts::codex::candidates;
use throughline::hosts::{Candidate, Need};
use throughline::paths::Resolved;
use throughline::{Mapping, Stores};
use throughline_parsers::text::Digest;

fn samples(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/samples").join(folder)
}

fn expected<T: for<'a> Deserialize<'a>>(folder: &str) -> T {
    serde_json::from_slice(&fs::read(samples(folder).join("expected.json")).unwrap()).unwrap()
}

// ---- what the versions of Codex wrote

const VERSIONS: usize = 18;

/// Thread id → thread.
type Threads = BTreeMap<String, Thread>;

#[derive(Deserialize)]
struct Thread {
    files: Vec<String>,
    pairs: Vec<(String, String, i64)>,
    root: bool,
}

/// Thread → its pairs: user, assistant, time.
type Pairs = BTreeMap<Digest, Vec<(Digest, Digest, i64)>>;

fn scripted(threads: &Threads) -> Pairs {
    let pair = |(user, assistant, at): &(String, String, i64)| (Digest::of_body(user), Digest::of_body(assistant), *at);
    let of_project = threads.iter().filter(|(_, thread)| thread.root && !thread.pairs.is_empty());
    of_project.map(|(id, thread)| (Digest::of(id), thread.pairs.iter().map(pair).collect())).collect()
}

fn found(candidates: &[Candidate]) -> Pairs {
    let mut found = Pairs::new();
    for candidate in candidates {
        let Candidate { host, thread, floor, session, .. } = candidate;
        assert_eq!((*host, *floor), (Host::Codex, 1));
        assert_eq!(Digest::of(session.strip_prefix("codex:").unwrap()), *thread);
        let entries = candidate.entries(0..candidate.end.length);
        assert!(entries.iter().all(|entry| entry.origin == Digest::of_body(session)));
        let pairs = entries.iter().map(|entry| (entry.user, entry.assistant, entry.completed_at));
        assert!(found.insert(*thread, pairs.collect()).is_none(), "a thread is one candidate");
    }
    found
}

#[test]
fn every_version_of_codex_is_read_to_the_pairs_of_its_script() {
    let versions: BTreeMap<String, Threads> = expected("codex-real");
    assert!(versions.len() >= VERSIONS, "only {} versions", versions.len());
    let project = Resolved::new(Path::new("/work/app")).unwrap();
    let mut pairs = 0;
    for (version, threads) in &versions {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(".codex")).unwrap();
        symlink(samples("codex-real").join(version).join("sessions"), home.path().join(".codex/sessions")).unwrap();
        let scripted = scripted(threads);
        let cached = Stores::below(home.path());
        let uncached = Stores { cache: None, ..cached.clone() };
        let ways = [(&uncached, Mapping::Never), (&uncached, Mapping::LargeFiles), (&cached, Mapping::Never)];
        // What the last of these remembers is read by the one behind it.
        for (stores, mapping) in ways.into_iter().chain([(&cached, Mapping::Never)]) {
            let candidates = candidates(stores, &project, mapping, &|_, _, _| Need::Chain { since: 0 }).unwrap();
            assert_eq!(found(&candidates), scripted, "{version}, {mapping:?}");
        }
        pairs += scripted.values().map(Vec::len).sum::<usize>();
    }
    assert!(pairs > 200, "only {pairs} pairs in all versions");
}

#[test]
fn every_file_that_codex_wrote_is_accounted_for() {
    let versions: BTreeMap<String, Threads> = expected("codex-real");
    let mut folders: Vec<_> = fs::read_dir(samples("codex-real")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|path| path.is_dir());
    assert_eq!(folders.len(), versions.len());
    for (version, threads) in &versions {
        let mut known: Vec<&str> = threads.values().flat_map(|thread| &thread.files).map(String::as_str).collect();
        known.sort_unstable();
        let entries = fs::read_dir(samples("codex-real").join(version).join("sessions")).unwrap();
        let mut there: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        there.sort_unstable();
        assert_eq!(there, known, "{version}");
    }
}

// ---- recordings, and the oracle's answers

#[derive(Deserialize)]
struct Recordings {
    project: String,
    alone: BTreeMap<String, Recording>,
    together: Vec<Call>,
}

#[derive(Deserialize)]
struct Recording {
    /// The path of the rollout in the store.
    rollout: String,
    stored: Stored,
    calls: Vec<Call>,
}

#[derive(Deserialize)]
struct Stored {
    session: Option<String>,
    /// Turn number, role, text, time.
    #[serde(default)]
    bodies: Vec<(i64, String, String, i64)>,
}

#[derive(Deserialize)]
struct Call {
    argv: Vec<String>,
    stdout: String,
}

impl Recordings {
    /// A store that holds these recordings, in a directory of its own.
    fn store(&self, names: &[&String]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        fs::create_dir_all(home.join(".codex/sessions")).unwrap();
        let database = throughline::db::schema::open(&throughline::db::schema::path(&home)).unwrap();
        database.execute_batch("BEGIN").unwrap();
        for name in names {
            let Recording { rollout, stored, .. } = &self.alone[*name];
            let recorded = fs::read_to_string(samples("codex").join(name)).unwrap();
            fs::write(root.path().join(rollout), recorded.replace("/work/app", &self.project)).unwrap();
            let Some(session) = &stored.session else { continue };
            let sql = "INSERT INTO sessions (session_id, project_path, created_at, updated_at) VALUES (?, ?, 1, 1)";
            database.execute(sql, [session, &self.project]).unwrap();
            for (turn, role, text, at) in &stored.bodies {
                let sql = "INSERT INTO bodies (session_id, origin_session_id, turn_number, role, text, created_at)
                           VALUES (?1, ?1, ?2, ?3, ?4, ?5)";
                database.execute(sql, rusqlite::params![session, turn, role, text, at]).unwrap();
            }
        }
        database.execute_batch("COMMIT").unwrap();
        root
    }
}

fn assert_answers(root: &Path, calls: &[Call], what: &str) {
    assert!(!calls.is_empty());
    for Call { argv, stdout } in calls {
        let run = Command::new(env!("CARGO_BIN_EXE_throughline"))
            .args(argv)
            .current_dir(root)
            .env_clear()
            .env("HOME", "home")
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&run.stderr), "", "{what}: {argv:?}");
        assert_eq!(String::from_utf8_lossy(&run.stdout), stdout.as_str(), "{what}: {argv:?}");
        assert_eq!(run.status.code(), Some(0), "{what}: {argv:?}");
    }
}

#[test]
fn every_recording_answers_as_the_oracle_does() {
    let recordings: Recordings = expected("codex");
    for (name, recording) in &recordings.alone {
        let root = recordings.store(&[name]);
        assert_answers(root.path(), &recording.calls, name);
    }
}

#[test]
fn all_recordings_together_answer_as_the_oracle_does() {
    let recordings: Recordings = expected("codex");
    let names: Vec<_> = recordings.alone.keys().collect();
    let files = fs::read_dir(samples("codex")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).count(), names.len());
    let root = recordings.store(&names);
    assert_answers(root.path(), &recordings.together, "all");
}
