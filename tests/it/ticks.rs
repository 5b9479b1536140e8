//! Writes that no time tells of, as where the clock of a file system ticks slowly and a write follows a poll within one
//! tick: for two seconds behind the last change they are looked for all the same.
//!
//! Here they are stores through a mapping of which the page was dirty before. These leave all times as they are.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memmap2::MmapMut;
use throughline::hosts::Need;
use throughline::hosts::codex::candidates;
use throughline::paths::Resolved;
use throughline::{Mapping, Stores};

use super::remembering::{World, meta, name, tell, turn};

fn told(world: &World, stores: &Stores) -> Vec<String> {
    let project = Resolved::new(&world.project).unwrap();
    tell(candidates(stores, &project, Mapping::Never, &|_, _, _| Need::Chain { since: 0 }), |_| Need::Chain {
        since: 0,
    })
}

/// Everything that the system tells of a file.
fn stamps(path: &Path) -> [i64; 6] {
    let found = fs::metadata(path).unwrap();
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    [found.ino() as i64, found.size() as i64, times[0], times[1], times[2], times[3]]
}

/// Polls a rollout that holds one text and then, in the same tick, another one of that length: the second poll sees it.
fn overwrites(text: &str, with: &str) {
    let world = World::new();
    let path: PathBuf = world.folder(0).join(name(1, 1));
    let stores = world.stores(Duration::ZERO);
    let elsewhere = world.project.with_file_name("prox");
    let [text, with] = [text, with].map(|text| {
        let text = text.replace("PROJECT", world.project.to_str().unwrap());
        text.replace("ELSEWHERE", elsewhere.to_str().unwrap())
    });
    let mut hits = 0;
    for _ in 0..10 {
        fs::write(&path, &text).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        // SAFETY: nobody else changes the file meanwhile.
        let mut map = unsafe { MmapMut::map_mut(&file).unwrap() };
        map[0] ^= 1;
        map[0] ^= 1;
        (0..3).for_each(|_| assert_eq!(told(&world, &stores), told(&world, &world.uncached())));
        let before = (stamps(&path), told(&world, &world.uncached()));
        map.copy_from_slice(with.as_bytes());
        let now = told(&world, &world.uncached());
        assert_ne!(now, before.1);
        (0..2).for_each(|_| assert_eq!(told(&world, &stores), now));
        hits += u32::from(stamps(&path) == before.0);
    }
    assert!(hits > 0, "something tells of each write");
}

fn first(cwd: &str) -> String {
    meta(1, Path::new(cwd), None)
}

#[test]
fn an_edit_in_the_tick_of_a_poll_is_seen() {
    let before = first("PROJECT") + &turn(1) + &turn(2);
    overwrites(&before, &before.replace("ask 2", "asked"));
}

#[test]
fn a_first_row_that_changes_in_the_tick_of_a_poll_is_seen() {
    let whole = first("PROJECT") + &turn(1);
    overwrites(&whole, &whole.replace("PROJECT", "ELSEWHERE"));
}

#[test]
fn a_first_row_that_is_completed_in_the_tick_of_a_poll_is_seen() {
    let whole = first("PROJECT") + &turn(1);
    overwrites(&whole.replace("PROJECT\"", "PROJECT "), &whole);
}

#[test]
fn a_row_that_is_completed_in_the_tick_of_a_poll_is_seen() {
    let whole = first("PROJECT") + &turn(1) + &turn(2);
    let cut = whole.trim_end().len() - 3;
    overwrites(&format!("{}   \n", &whole[..cut]), &whole);
}
