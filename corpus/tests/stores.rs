//! Stores as the program makes them and lets them go on: what it says of them is what is read of them.

#![allow(missing_docs, reason = "tests")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use throughline::observer::read::{Answer, Request, Status, read};
use throughline::observer::threads::threads;
use throughline::{Mapping, Stores};

/// Rollouts of all kinds, few and small.
const MIXED: &[&str] =
    &["--files", "120", "--project-files", "60", "--bytes", "4MiB", "--days", "9", "--families", "60"];

struct Store {
    folder: TempDir,
    said: String,
}

impl Store {
    fn make(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let said = corpus(&[&["store", "--out", folder.path().to_str().unwrap()], options].concat()).unwrap();
        Self { folder, said }
    }

    fn append(&self, options: &[&str]) -> Result<String, String> {
        corpus(&[&["append", "--store", self.folder.path().to_str().unwrap()], options].concat())
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn stores(&self) -> Stores {
        Stores::below(self.root().join("home"))
    }

    fn read(&self, request: &Request<'_>) -> Answer {
        read(&self.stores(), request, Mapping::Never).unwrap()
    }

    fn behind(&self, cursor: &str) -> Answer {
        let project = self.root().join("proj");
        self.read(&Request { after: Some(cursor), ..Request::snapshot(&project) })
    }

    fn end(&self) -> String {
        self.read(&Request::snapshot(&self.root().join("proj"))).through_cursor.unwrap()
    }

    /// The number in front of these words.
    fn said(&self, words: &str) -> u64 {
        let before = self.said.split(words).next().unwrap();
        before.split(|c: char| !c.is_ascii_digit()).rfind(|word| !word.is_empty()).unwrap().parse().unwrap()
    }

    /// Every file below the home, by its path there, without the path of this store in it.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut files, mut folders) = (BTreeMap::new(), vec![self.root().join("home/.codex")]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let text = fs::read_to_string(&path).unwrap();
                    let text = text.replace(self.root().to_str().unwrap(), "");
                    files.insert(path.strip_prefix(self.root()).unwrap().to_owned(), text.into_bytes());
                }
            }
        }
        files
    }
}

fn corpus(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_corpus")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        assert!(output.stderr.is_empty(), "where nobody looks there is no progress");
        return Ok(text(output.stdout));
    }
    Err(text(output.stderr))
}

#[test]
fn the_same_seed_makes_the_same_store() {
    let [first, second] = [Store::make(MIXED), Store::make(MIXED)];
    assert!(first.files() == second.files());
    for store in [&first, &second] {
        store.append(&["--turns", "2"]).unwrap();
        store.append(&["--bytes", "20KiB"]).unwrap();
    }
    assert!(first.files() == second.files());
    let other = Store::make(&[MIXED, &["--seed", "2"]].concat());
    assert!(other.files() != first.files());
}

#[test]
fn what_is_said_of_a_store_is_what_is_read_of_it() {
    let store = Store::make(MIXED);
    assert_eq!(store.files().len(), 120);
    assert_eq!(store.said(" of the project)"), 60);
    for kind in [" agents'", " copied forks", " forks by reference", " reverts"] {
        assert!(store.said(kind) > 0, "{kind}");
    }
    let project = store.root().join("proj");
    let found = threads(&store.stores(), &project, Mapping::Never).unwrap();
    let codex = found.threads.len() as u64 - 1;
    assert_eq!((codex, codex), (store.said(" threads of the project"), store.said(" threads,")));
    // Every turn of every thread, with its bodies.
    let mut turns = 0;
    for thread in &found.threads {
        let (after, through) = (Some(&*found.empty_cursor), Some(&*thread.through_cursor));
        let mut page = None;
        loop {
            let request = Request { after, through, page: page.as_deref(), limit: 100, project: &project };
            let answer = store.read(&request);
            assert_ne!(answer.status, Status::ProjectionPending);
            turns += answer.turns.len() as u64;
            page = answer.page.next_token;
            if page.is_none() {
                break;
            }
        }
    }
    assert_eq!(turns, store.said(" completed in") + store.said(" Claude turns"));
}

#[test]
fn only_the_newest_threads_are_stored_if_asked_for() {
    let store = Store::make(&["--files", "9", "--project-files", "6", "--bytes", "1MiB", "--sessions-in-db", "2"]);
    assert_eq!(store.said(" threads,"), 2);
    assert_eq!(store.read(&Request::snapshot(&store.root().join("proj"))).status, Status::Snapshot);
}

#[test]
fn a_store_goes_on_with_whole_turns() {
    for layout in ["legacy", "paginated"] {
        let store = Store::make(&["--files", "30", "--project-files", "9", "--bytes", "1MiB", "--layout", layout]);
        let end = store.end();
        store.append(&["--turns", "3"]).unwrap();
        let answer = store.behind(&end);
        assert_eq!((answer.status, answer.turns.len()), (Status::Delta, 3));
        let end = answer.through_cursor.unwrap();
        store.append(&["--turns", "1", "--without-bodies"]).unwrap();
        assert_eq!(store.behind(&end).status, Status::ProjectionPending);
        assert!(store.append(&["--finish"]).unwrap_err().contains("no turn is open"));
    }
}

#[test]
fn an_open_turn_goes_on_until_it_is_finished() {
    let options = ["--files", "1", "--project-files", "1", "--bytes", "64KiB", "--turns", "7", "--open-turn", "1MiB"];
    let store = Store::make(&options);
    assert_eq!(store.said(" completed in"), 7);
    let end = store.end();
    let size = || store.files().values().map(Vec::len).sum::<usize>();
    for _ in 0..3 {
        let before = size();
        store.append(&["--bytes", "10KiB"]).unwrap();
        assert!((10 << 10..30 << 10).contains(&(size() - before)));
        assert!(store.behind(&end).turns.is_empty());
    }
    assert!(store.append(&["--turns", "1"]).unwrap_err().contains("a turn is open"));
    store.append(&["--finish"]).unwrap();
    let answer = store.behind(&end);
    assert_eq!((answer.status, answer.turns.len()), (Status::Delta, 1));
    let end = answer.through_cursor.unwrap();
    // Bytes of a turn that is not there yet open one.
    store.append(&["--bytes", "1KiB"]).unwrap();
    assert!(store.behind(&end).turns.is_empty());
    store.append(&["--finish"]).unwrap();
    assert_eq!(store.behind(&end).turns.len(), 1);
}

#[test]
fn nothing_is_appended_to_a_rollout_that_somebody_else_changed() {
    let store = Store::make(&["--files", "1", "--project-files", "1", "--bytes", "64KiB"]);
    let rollout = store.files().into_keys().next().unwrap();
    let rollout = store.root().join(rollout);
    fs::write(&rollout, [&*fs::read(&rollout).unwrap(), b"\n"].concat()).unwrap();
    assert!(store.append(&["--turns", "1"]).unwrap_err().contains("not as it was left"));
}

/// Prints what the oracle answers about a store: its threads, then each of them from its start.
const ORACLE: &str = r#"
import json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import oracle
env, project = oracle.Env(home=sys.argv[2]), ["--project", sys.argv[3], "--json"]
listed = oracle.observer_threads(env, project)[1]
print(listed, end="")
print(oracle.observer_read(env, project)[1], end="")
for thread in json.loads(listed)["threads"]:
    after = ["--after-cursor", json.loads(listed)["emptyCursor"], "--through-cursor", thread["throughCursor"]]
    print(oracle.observer_read(env, project + after)[1], end="")
"#;

#[test]
#[ignore = "needs python3"]
fn needs_python3_families_are_read_as_the_oracle_says() {
    let store = Store::make(MIXED);
    let (home, project) = (store.root().join("home"), store.root().join("proj"));
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle");
    let output = Command::new("python3").args(["-c", ORACLE]).args([&oracle, &home, &project]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = threads(&store.stores(), &project, Mapping::Never).unwrap();
    let mut lines = vec![serde_json::to_string(&found).unwrap()];
    lines.push(serde_json::to_string(&store.read(&Request::snapshot(&project))).unwrap());
    for thread in &found.threads {
        let (after, through) = (Some(&*found.empty_cursor), Some(&*thread.through_cursor));
        let request = Request { after, through, ..Request::snapshot(&project) };
        lines.push(serde_json::to_string(&store.read(&request)).unwrap());
    }
    assert!(lines.len() > 20);
    let says = String::from_utf8(output.stdout).unwrap();
    says.lines().zip(&lines).for_each(|(says, found)| assert_eq!(says, found));
    assert_eq!(says.lines().count(), lines.len());
}
