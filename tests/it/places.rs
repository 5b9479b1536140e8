//! Links that come to lead elsewhere, roots that come and go, and projects beside each other: a read with the cache is one
//! without it, at once.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use throughline::hosts::Need;
use throughline::hosts::codex::candidates;
use throughline::paths::Resolved;
use throughline::{Mapping, Stores};

use super::remembering::{World, id, meta, name, tell, turn};

/// The clock stands so much later that everything is settled, but nothing is due.
const SETTLED: Duration = Duration::from_secs(3);
const LATER: Duration = Duration::from_secs(400);

fn told(stores: &Stores, project: &Path) -> Vec<String> {
    let project = Resolved::new(project).unwrap();
    tell(candidates(stores, &project, Mapping::Never, &|_, _, _| Need::Chain { since: 0 }), |_| Need::Chain {
        since: 0,
    })
}

/// Reads twice with the cache and compares with a read without; gives how many threads there are.
fn read(stores: &Stores, project: &Path) -> usize {
    let without = told(&Stores { cache: None, ..stores.clone() }, project);
    for _ in 0..2 {
        assert_eq!(told(stores, project), without);
    }
    without.len()
}

/// Points a link elsewhere, in one step.
fn point(link: &Path, to: &Path) {
    let beside = link.with_extension("beside");
    symlink(to, &beside).unwrap();
    fs::rename(beside, link).unwrap();
}

fn session(world: &World, thread: u64, cwd: &Path) -> PathBuf {
    let path = world.folder(0).join(name(thread, thread));
    fs::write(&path, meta(thread, cwd, None) + &turn(thread)).unwrap();
    path
}

#[test]
fn a_link_of_the_project_that_leads_elsewhere_is_noticed_at_once() {
    let world = World::new();
    let [link, elsewhere] = ["link", "elsewhere"].map(|name| world.home.path().join(name));
    let (stores, project) = (world.stores(SETTLED), world.project.clone());
    fs::create_dir(&elsewhere).unwrap();
    point(&link, &project);
    session(&world, 1, &link.join("sub"));
    session(&world, 2, &project);
    assert_eq!(read(&stores, &project), 2);
    point(&link, &elsewhere);
    assert_eq!(read(&stores, &project), 1);
    // The other way it is a foreign one: that can take five minutes.
    point(&link, &project);
    assert_eq!(read(&world.stores(LATER), &project), 2);
    // Also where nothing is known of the project's members, or where its folder changed meanwhile.
    point(&link, &elsewhere);
    for entry in fs::read_dir(world.home.path().join(".cache/throughline")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("project") {
            fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(read(&world.stores(LATER + SETTLED), &project), 1);
    point(&link, &project);
    assert_eq!(read(&world.stores(LATER * 2 + SETTLED), &project), 2);
    point(&link, &elsewhere);
    session(&world, 3, &project);
    assert_eq!(read(&world.stores(LATER * 2 + SETTLED), &project), 2);
}

#[test]
fn the_project_is_where_its_own_path_leads() {
    let world = World::new();
    let [one, other, link] = ["one", "other", "current"].map(|name| world.home.path().join(name));
    [&one, &other].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    session(&world, 1, &one);
    session(&world, 2, &other.join("gone"));
    session(&world, 3, &other);
    let stores = world.stores(SETTLED);
    for (to, threads) in [(&one, 1), (&other, 2), (&one, 1)] {
        point(&link, to);
        assert_eq!(read(&stores, &link), threads);
    }
}

#[test]
fn a_root_that_is_a_link_comes_and_goes() {
    let world = World::new();
    let stores = world.stores(SETTLED);
    let root = stores.sessions_root();
    session(&world, 1, &world.project);
    assert_eq!(read(&stores, &world.project), 1);
    // Moved away and back, as a whole.
    let [one, other] = ["one", "other"].map(|name| world.home.path().join(name));
    fs::rename(&root, &one).unwrap();
    assert_eq!(read(&stores, &world.project), 0);
    fs::rename(&one, &root).unwrap();
    assert_eq!(read(&stores, &world.project), 1);
    // A link to it, then to another one with a file of the same name.
    fs::rename(&root, &one).unwrap();
    let below = Path::new("2026/07/01");
    fs::create_dir_all(other.join(below)).unwrap();
    let text = meta(1, &world.project, None) + &turn(5) + &turn(6);
    fs::write(other.join(below).join(name(1, 1)), text).unwrap();
    for to in [&one, &other, &one, &world.home.path().join("gone"), &other] {
        point(&root, to);
        assert_eq!(read(&stores, &world.project), usize::from(to.exists()), "{to:?}");
    }
    // A file is no root.
    fs::remove_file(&root).unwrap();
    fs::write(&root, "").unwrap();
    assert!(told(&stores, &world.project)[0].contains("Internal"));
    assert_eq!(read(&stores, &world.project), 1);
}

#[test]
fn the_home_of_codex_is_spelled_in_many_ways() {
    let world = World::new();
    let stores = world.stores(SETTLED);
    session(&world, 1, &world.project);
    let [home, link] = [".codex", "codex-link"].map(|name| world.home.path().join(name));
    point(&link, &home);
    for _ in 0..2 {
        for codex_home in [home.clone(), home.join("."), home.join("x/.."), home.join("sessions/.."), link.clone()] {
            let stores = Stores { codex_home: codex_home.clone(), ..stores.clone() };
            assert_eq!(read(&stores, &world.project), 1, "{codex_home:?}");
        }
    }
    // Where a rollout stands is part of its chain's digest, as it is spelled.
    let spelled = Stores { codex_home: link, ..stores.clone() };
    assert_ne!(told(&spelled, &world.project), told(&stores, &world.project));
}

#[test]
fn projects_share_a_root() {
    let world = World::new();
    let (project, inside) = (world.project.clone(), world.project.join("sub"));
    let beside = world.home.path().join("proj-beside");
    fs::create_dir(&beside).unwrap();
    let rollouts: Vec<PathBuf> = [(1, &project), (2, &inside), (3, &beside), (4, &inside)]
        .map(|(thread, cwd)| session(&world, thread, cwd))
        .into();
    let all = |counts: [usize; 3]| {
        for ahead in [SETTLED, Duration::ZERO, SETTLED, LATER] {
            let stores = world.stores(ahead);
            // Each learns what the others remember, in any order.
            for n in [0, 1, 2, 1, 0, 2] {
                assert_eq!(read(&stores, [&project, &inside, &beside][n]), counts[n]);
            }
        }
    };
    all([3, 2, 1]);
    // A thread moves from one to another: its file is replaced.
    let text = meta(4, &beside, None) + &turn(9);
    fs::write(world.home.path().join("new"), text).unwrap();
    fs::rename(world.home.path().join("new"), &rollouts[3]).unwrap();
    all([2, 1, 2]);
    fs::remove_file(&rollouts[0]).unwrap();
    all([1, 1, 2]);
    assert_eq!(told(&world.stores(SETTLED), &inside)[0].matches(&id(2)).count(), 1);
}

#[test]
fn a_first_row_that_is_completed_after_a_while_is_seen_at_once() {
    let world = World::new();
    let (stores, project) = (world.stores(SETTLED), world.project.clone());
    session(&world, 1, &project);
    let text = meta(2, &project, None) + &turn(2);
    let path = world.folder(0).join(name(2, 2));
    // Nothing, half of a row, and the rest of it: the folder does not change.
    fs::write(&path, "").unwrap();
    assert_eq!(read(&stores, &project), 1);
    for (end, threads) in [(9, 1), (40, 1), (text.len(), 2)] {
        thread::sleep(Duration::from_millis(12));
        fs::File::options().write(true).open(&path).unwrap().write_all(&text.as_bytes()[..end]).unwrap();
        assert_eq!(read(&stores, &project), threads, "{end} bytes");
    }
}

#[test]
fn a_last_row_without_its_lf_counts_each_time() {
    let world = World::new();
    let (stores, project) = (world.stores(SETTLED), world.project.clone());
    let path = world.folder(0).join(name(1, 1));
    let text = meta(1, &project, None) + &turn(1) + &turn(2);
    let counted = |pairs: usize| {
        assert_eq!(read(&stores, &project), 1);
        let length = format!("End {{ length: {pairs},");
        assert!(told(&stores, &project)[0].contains(&length));
    };
    fs::write(&path, text.trim_end()).unwrap();
    counted(2);
    thread::sleep(Duration::from_millis(12));
    fs::write(&path, text + "\n" + turn(3).trim_end()).unwrap();
    counted(3);
}

#[test]
fn a_clock_that_goes_back_hides_nothing() {
    let world = World::new();
    let project = world.project.clone();
    let [foreign, elsewhere] = ["foreign", "elsewhere"].map(|name| world.home.path().join(name));
    fs::create_dir(&elsewhere).unwrap();
    point(&foreign, &elsewhere);
    session(&world, 1, &project);
    let path = session(&world, 2, &foreign);
    // An hour ahead, and then right again.
    assert_eq!(read(&world.stores(Duration::from_secs(3600)), &project), 1);
    thread::sleep(Duration::from_millis(12));
    // What is due in an hour by what is remembered is looked at now.
    point(&foreign, &project);
    assert_eq!(read(&world.stores(SETTLED), &project), 2);
    fs::write(&path, meta(2, &project, None) + &turn(8) + &turn(9)).unwrap();
    assert_eq!(read(&world.stores(Duration::ZERO), &project), 2);
}
