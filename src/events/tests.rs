//! What is told and what is not, event by event.

#![allow(clippy::unwrap_used)]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::symlink;

use tempfile::TempDir;
use throughline_parsers::text::Digest;

use super::*;
use crate::cache::{About, Cache, Name};
use crate::receipts::{Place, Receipt, SessionId};

const OWN: &str = "rollout-2026-01-05T10-00-00-019c0000-0000-7000-8000-000000000001.jsonl";
const FOREIGN: &str = "rollout-2026-01-05T10-00-00-019c0000-0000-7000-8000-000000000002.jsonl";
const NEW: &str = "rollout-2026-01-05T10-00-00-019c0000-0000-7000-8000-000000000003.jsonl";

struct Watched {
    watch: Watch,
    rollouts: HashSet<PathBuf>,
    day: PathBuf,
    home: PathBuf,
    receipts: Place,
    _dir: TempDir,
}

impl Watched {
    /// Two rollouts, a receipt, and a project; all of them watched.
    fn new() -> Self {
        let mut watched = Self::unwatched();
        fs::create_dir_all(&watched.day).unwrap();
        fs::create_dir(watched.home.join("project")).unwrap();
        for name in [OWN, FOREIGN] {
            fs::write(watched.day.join(name), "{}\n").unwrap();
        }
        watched.complete(1);
        watched.renew();
        assert!(watched.watch.has_events());
        watched
    }

    /// An empty home.
    fn unwatched() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_owned();
        let receipts = Place::new(&home.join("state"), Digest::of("/project"));
        let sessions = home.join("codex/sessions");
        let day = sessions.join("2026/01/05");
        let places = Places { sessions, receipts: receipts.path(), project: home.join("project") };
        let rollouts = HashSet::from([day.join(OWN)]);
        Self { watch: Watch::of(places, Watching::Events), rollouts, day, home, receipts, _dir: dir }
    }

    /// Whether there was anything that matters; what has come to be there is watched after that.
    fn told(&mut self) -> bool {
        let told = self.watch.has_news(&self.rollouts);
        self.watch.renew();
        told
    }

    fn renew(&mut self) {
        self.watch.renew();
        self.told();
    }

    fn append(&self, name: &str) {
        OpenOptions::new().append(true).open(self.day.join(name)).unwrap().write_all(b"{}\n").unwrap();
    }

    fn complete(&self, n: i64) {
        let id = SessionId::new("session").unwrap();
        let receipt = Receipt::new(id.clone(), id, Digest::of(&n.to_string()), Digest::of("answer"), n).unwrap();
        self.receipts.lock().unwrap().append([receipt]).unwrap();
    }
}

#[test]
fn rows_of_the_projects_rollouts_and_receipts_are_told() {
    let mut watched = Watched::new();
    assert!(!watched.told());
    watched.append(OWN);
    assert!(watched.told());
    assert!(!watched.told(), "once");
    watched.complete(2);
    assert!(watched.told());
}

#[test]
fn other_projects_rows_and_readers_are_not() {
    let mut watched = Watched::new();
    watched.append(FOREIGN);
    fs::read(watched.day.join(OWN)).unwrap();
    fs::read_dir(&watched.day).unwrap().count();
    watched.receipts.load().unwrap();
    // A lock is a database, with files beside it.
    drop(watched.receipts.lock().unwrap());
    fs::write(watched.day.join("notes.txt"), "x").unwrap();
    fs::write(watched.receipts.path().with_file_name("other.json"), "x").unwrap();
    fs::write(watched.home.join("codex/history.jsonl"), "x").unwrap();
    fs::write(watched.home.join("project/file"), "x").unwrap();
    Cache::below(watched.home.join("state")).store(&Name::of(About::Root, &[]), &[vec![1]]);
    assert!(!watched.told());
}

#[test]
fn what_happens_on_the_way_does_not_even_wake() {
    let watched = Watched::new();
    for beside in ["beside", "state/beside", "state/throughline/beside", "codex/beside", "project/beside"] {
        fs::write(watched.home.join(beside), "x").unwrap();
        fs::remove_file(watched.home.join(beside)).unwrap();
    }
    let fd = watched.watch.0.as_ref().unwrap().fd();
    assert_eq!(Cancel::new().unwrap().pause(Some(fd), Instant::now()), Over::Time);
}

#[test]
fn files_that_come_go_or_are_replaced_are_told() {
    let mut watched = Watched::new();
    let (day, beside) = (watched.day.clone(), watched.home.join("beside"));
    let steps: [&dyn Fn(); 6] = [
        &|| fs::write(day.join(NEW), "{}\n").unwrap(),
        &|| fs::rename(day.join(NEW), &beside).unwrap(),
        &|| fs::rename(&beside, day.join(FOREIGN)).unwrap(),
        &|| fs::rename(day.join(FOREIGN), day.join(format!("{FOREIGN}.zst"))).unwrap(),
        &|| fs::remove_file(day.join(format!("{FOREIGN}.zst"))).unwrap(),
        &|| fs::hard_link(day.join(OWN), day.join(NEW)).unwrap(),
    ];
    for (n, step) in steps.into_iter().enumerate() {
        step();
        assert!(watched.told(), "step {n}");
        assert!(!watched.told());
    }
    // The packed form of one that matters.
    watched.rollouts.insert(day.join(FOREIGN));
    fs::write(day.join(format!("{FOREIGN}.zst")), "x").unwrap();
    assert!(watched.told());
    OpenOptions::new().append(true).open(day.join(format!("{FOREIGN}.zst"))).unwrap().write_all(b"x").unwrap();
    assert!(watched.told());
}

#[test]
fn folders_that_come_are_watched_and_those_that_went_are_not() {
    let mut watched = Watched::new();
    let folder = watched.day.with_file_name("06");
    fs::create_dir(&folder).unwrap();
    assert!(watched.told());
    fs::write(folder.join(NEW), "").unwrap();
    assert!(watched.told());
    let (inside, outside) = (folder.join("a/b/c"), watched.home.join("outside"));
    fs::create_dir_all(&inside).unwrap();
    assert!(watched.told());
    fs::write(inside.join(NEW), "").unwrap();
    assert!(watched.told());
    fs::rename(&folder, &outside).unwrap();
    assert!(watched.told());
    fs::write(outside.join("a/b/c").join(FOREIGN), "").unwrap();
    assert!(!watched.told(), "it is not in the tree any more");
    fs::rename(&outside, &folder).unwrap();
    assert!(watched.told());
    fs::write(inside.join(OWN), "").unwrap();
    assert!(watched.told());
    fs::remove_dir_all(&folder).unwrap();
    assert!(watched.told());
    // A link is no folder of the tree.
    fs::create_dir(&outside).unwrap();
    symlink(&outside, watched.day.with_file_name("07")).unwrap();
    watched.told();
    fs::write(outside.join(NEW), "").unwrap();
    assert!(!watched.told());
}

#[test]
fn places_that_are_not_there_are_watched_for() {
    let mut watched = Watched::unwatched();
    watched.renew();
    assert!(watched.watch.has_events());
    for below in ["codex", "codex/sessions", "codex/sessions/2026", "state", "state/throughline", "project"] {
        fs::create_dir(watched.home.join(below)).unwrap();
        assert!(watched.told(), "{below}");
    }
    fs::create_dir_all(&watched.day).unwrap();
    assert!(watched.told());
    fs::write(watched.day.join(NEW), "").unwrap();
    assert!(watched.told());
    watched.complete(1);
    assert!(watched.told());
    watched.complete(2);
    assert!(watched.told());
    fs::remove_dir(watched.home.join("project")).unwrap();
    assert!(watched.told());
}

#[test]
fn a_way_that_leads_elsewhere_is_followed() {
    let mut watched = Watched::new();
    let (codex, moved) = (watched.home.join("codex"), watched.home.join("moved"));
    fs::rename(&codex, &moved).unwrap();
    assert!(watched.told());
    symlink(&moved, &codex).unwrap();
    assert!(watched.told());
    watched.append(OWN);
    assert!(watched.told());
    // The link stays, and what it leads to goes.
    fs::rename(&moved, watched.home.join("again")).unwrap();
    assert!(watched.told());
    fs::remove_file(&codex).unwrap();
    assert!(watched.told());
    fs::create_dir_all(&watched.day).unwrap();
    assert!(watched.told());
    fs::write(watched.day.join(NEW), "").unwrap();
    assert!(watched.told());
}

#[test]
fn more_events_than_the_system_keeps_are_news() {
    let mut watched = Watched::new();
    let most: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    if most > 100_000 {
        return;
    }
    // Events of two files in turn, since equal ones in a row are one.
    for _ in 0..most / 2 + 10 {
        for name in [FOREIGN, "notes.txt"] {
            let file = OpenOptions::new().create(true).append(true).open(watched.day.join(name));
            file.unwrap().write_all(b"x").unwrap();
        }
    }
    assert!(watched.told(), "what was lost may have mattered");
    watched.append(OWN);
    assert!(watched.told());
}

#[test]
fn a_sleep_ends_by_what_matters_by_its_time_and_by_the_token() {
    let mut watched = Watched::new();
    let (rollouts, cancel) = (watched.rollouts.clone(), Cancel::new().unwrap());
    let begun = Instant::now();
    let soon = || Instant::now() + Duration::from_millis(100);
    watched.append(FOREIGN);
    watched.watch.sleep(&rollouts, soon(), &cancel);
    assert!(begun.elapsed() >= Duration::from_millis(100));
    watched.append(OWN);
    let late = begun + Duration::from_secs(50);
    watched.watch.sleep(&rollouts, late, &cancel);
    cancel.cancel();
    watched.watch.sleep(&rollouts, late, &cancel);
    assert!(Instant::now() < late);
}

#[test]
fn switched_off_nothing_is_watched_and_each_second_it_is_time_to_look() {
    let places = Places { sessions: "a".into(), receipts: "b".into(), project: "c".into() };
    let mut watch = Watch::of(places, Watching::Polling);
    watch.renew();
    assert!(!watch.has_events() && !watch.has_news(&HashSet::new()));
    let begun = Instant::now();
    watch.sleep(&HashSet::new(), begun + Duration::from_secs(50), &Cancel::new().unwrap());
    assert!((1.0..20.0).contains(&begun.elapsed().as_secs_f64()), "{:?}", begun.elapsed());
}
