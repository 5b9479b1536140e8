//! The changes of a store that a read with the cache does not see at once: that they are there, that they end as is
//! stated, and that a comparison of what is remembered names them.
//!
//! Each test would fail too if its blind spot were closed: then the README is to be changed.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use throughline::hosts::Need;
use throughline::hosts::codex::candidates;
use throughline::paths::Resolved;
use throughline::remembered::{self, Report, Subject, Verdict};
use throughline::{Mapping, Stores};

use crate::remembering::{World, event, meta, name, row, turn};

/// Files that were written a moment ago are as if that was longer ago than any tick of a clock.
const SOON: Duration = Duration::from_secs(3);
/// Everything that was passed over is looked at again.
const LATER: Duration = Duration::from_secs(400);
/// The older rows of a rollout are looked at in so many slices.
const SLICES: usize = 64;

/// The chains of the project's threads, as they are read.
fn chains(world: &World, stores: &Stores) -> BTreeSet<String> {
    let project = Resolved::new(&world.project).unwrap();
    let found = candidates(stores, &project, Mapping::Never, &|_, _, _| Need::Chain { since: 0 }).unwrap();
    let told = found.iter().map(|of| format!("{} {:?} {:?}", of.thread, of.end, of.entries(0..of.end.length)));
    told.collect()
}

/// Whether a read with the cache gives something else than one without.
fn is_blind(world: &World, ahead: Duration) -> bool {
    chains(world, &world.stores(ahead)) != chains(world, &world.uncached())
}

fn poll(world: &World) {
    chains(world, &world.stores(SOON));
}

fn verify(world: &World, ahead: Duration) -> Report {
    remembered::verify(&world.stores(ahead))
}

/// The files and working directories that a comparison names.
fn named(world: &World) -> BTreeSet<PathBuf> {
    let report = verify(world, SOON);
    assert_eq!(report.is_sound(), report.different == 0);
    let different = report.files.into_iter().filter(|file| file.verdict == Verdict::Different);
    different.flat_map(|file| file.differing).collect()
}

/// What everything that is remembered of rollouts' rows comes to.
fn verdict_on(world: &World, path: &Path) -> Verdict {
    let about =
        |subject: &Option<Subject>| matches!(subject, Some(Subject::Rollout { rollout, .. }) if rollout == path);
    verify(world, SOON).files.iter().find(|file| about(&file.subject)).unwrap().verdict
}

/// Writes over bytes of a file.
fn edit(path: &Path, old: &str, new: &str) {
    assert_eq!(old.len(), new.len());
    let at = fs::read_to_string(path).unwrap().find(old).unwrap() as u64;
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(new.as_bytes(), at).unwrap();
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// A rollout of the project with so many turns, the first of which has `first` behind it, and its checkpoint.
fn remembered_rollout(world: &mut World, turns: usize, first: &str) -> PathBuf {
    let path = world.folder(0).join(name(1, 1));
    let mut text = meta(1, &world.project, None) + &turn(100_001) + first;
    for _ in 0..turns {
        text += &turn(world.next());
    }
    fs::write(&path, text).unwrap();
    // A small one gets a checkpoint when it has been read before.
    (0..2).for_each(|_| poll(world));
    assert_eq!(verdict_on(world, &path), Verdict::Equal);
    path
}

/// A turn is appended and read.
fn go_on(world: &mut World, path: &Path) {
    append(path, &turn(world.next()));
    poll(world);
}

#[test]
fn a_foreign_rollout_that_is_edited_in_place_is_seen_after_five_minutes() {
    let world = World::new();
    let elsewhere = world.project.with_file_name("else");
    assert_eq!(elsewhere.as_os_str().len(), world.project.as_os_str().len());
    let (own, foreign) = (world.folder(0).join(name(1, 1)), world.folder(0).join(name(2, 2)));
    fs::write(&own, meta(1, &world.project, None) + &turn(1)).unwrap();
    fs::write(&foreign, meta(2, &elsewhere, None) + &turn(2)).unwrap();
    (0..2).for_each(|_| poll(&world));
    assert!(!is_blind(&world, SOON) && named(&world).is_empty());

    edit(&foreign, elsewhere.to_str().unwrap(), world.project.to_str().unwrap());
    assert!(is_blind(&world, SOON));
    assert_eq!(named(&world), BTreeSet::from([foreign]));
    assert!(is_blind(&world, SOON), "a comparison changes nothing");

    assert!(verify(&world, LATER).is_sound(), "later it would be read anew");
    assert!(!is_blind(&world, LATER));
    assert!(verify(&world, LATER).is_sound());
}

/// Writes a byte in place so that no time changes: the page was written to before, and is still writable. Fails where the
/// system has written it to the disk meanwhile.
fn store_unseen(world: &World, path: &Path, old: &str, new: &str) -> bool {
    let stamps = || {
        use std::os::unix::fs::MetadataExt as _;
        let found = fs::metadata(path).unwrap();
        (found.size(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
    };
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    // SAFETY: nobody else changes the file meanwhile.
    let mut map = unsafe { memmap2::MmapMut::map_mut(&file).unwrap() };
    let at = memchr::memmem::find(&map, old.as_bytes()).unwrap();
    let bytes = &mut map[at..at + old.len()];
    // There and back: now the page is dirty.
    bytes.copy_from_slice(new.as_bytes());
    std::hint::black_box(&mut *bytes).copy_from_slice(old.as_bytes());
    std::hint::black_box(&mut *bytes);
    (0..2).for_each(|_| poll(world));
    assert!(!is_blind(world, SOON));
    let before = stamps();
    bytes.copy_from_slice(new.as_bytes());
    std::hint::black_box(&mut *bytes);
    before == stamps()
}

#[test]
fn a_store_through_a_mapping_that_was_dirty_before_is_seen_when_the_file_changes() {
    let mut world = World::new();
    let path = remembered_rollout(&mut world, 3, "");
    let mut texts = ["ask 2\"", "ask X\"", "ask Y\"", "ask Z\""].windows(2).map(|pair| [pair[0], pair[1]]);
    assert!(
        texts.any(|[old, new]| store_unseen(&world, &path, old, new)),
        "every time the page was written to the disk in just that moment"
    );

    assert!(is_blind(&world, SOON) && is_blind(&world, LATER));
    assert_eq!(named(&world), BTreeSet::from([path.clone()]));
    go_on(&mut world, &path);
    assert!(!is_blind(&world, SOON));
    assert!(named(&world).is_empty());
}

#[test]
fn an_old_row_that_is_edited_is_seen_when_its_slice_comes_round() {
    let mut world = World::new();
    let path = remembered_rollout(&mut world, 300, "");
    // So far back that it is not among the last pairs, in the middle of those in front of them.
    edit(&path, "ask 102\"", "ask 1O2\"");
    go_on(&mut world, &path);
    assert!(is_blind(&world, SOON));
    assert_eq!(verdict_on(&world, &path), Verdict::Different);
    assert_eq!(named(&world), BTreeSet::from([path.clone()]));

    let polls = (1..=SLICES).find(|_| {
        go_on(&mut world, &path);
        !is_blind(&world, SOON)
    });
    assert!(polls.is_some_and(|polls| polls > 1), "{polls:?}");
    assert!(named(&world).is_empty());
}

/// The same where the older turns are put aside, and only where the chain ends is asked for, so that they stay so.
#[test]
fn an_old_row_that_is_put_aside_is_seen_when_its_slice_comes_round() {
    let mut world = World::new();
    let project = Resolved::new(&world.project).unwrap();
    let ends = |stores: &Stores| {
        let found = candidates(stores, &project, Mapping::Never, &|_, _, _| Need::End).unwrap();
        stores.finish();
        found.iter().map(|found| found.end).collect::<Vec<_>>()
    };
    let is_seen = |world: &World| {
        let Stores { cache, .. } = world.stores(SOON);
        let cached = Stores { cache: cache.map(|cache| cache.with_recent_turns(64)), ..world.uncached() };
        ends(&cached) == ends(&world.uncached())
    };
    let path = world.folder(0).join(name(1, 1));
    fs::write(&path, meta(1, &world.project, None) + &(0..300).map(|_| turn(world.next())).collect::<String>())
        .unwrap();
    assert!(is_seen(&world) && is_seen(&world));
    edit(&path, "ask 102\"", "ask 1O2\"");
    let polls = (1..=SLICES).find(|_| {
        append(&path, &turn(world.next()));
        is_seen(&world)
    });
    assert!(polls.is_some_and(|polls| polls > 1), "{polls:?}");
    assert!(named(&world).is_empty());
}

#[test]
fn the_middle_of_a_long_row_that_is_edited_is_not_seen_while_the_file_only_grows() {
    let mut world = World::new();
    let words = format!("{} middle {}", "long ".repeat(4000), "long ".repeat(4000));
    let long = [
        event("{\"type\":\"task_started\",\"turn_id\":\"long\"}", 50),
        event(&format!("{{\"type\":\"user_message\",\"message\":\"{words}\"}}"), 50),
        event("{\"type\":\"agent_message\",\"message\":\"answer\"}", 50),
        event("{\"type\":\"task_complete\",\"turn_id\":\"long\"}", 50),
    ];
    let path = remembered_rollout(&mut world, 10, &long.concat());
    edit(&path, " middle ", " muddle ");
    assert_stays_blind_until_cleared(world, &path);
}

#[test]
fn bytes_that_did_not_matter_and_then_do_are_not_seen_while_the_file_only_grows() {
    let mut world = World::new();
    let ignored = row("response_item", "{\"type\":\"message\",\"text\":\"of no interest to anybody\"}", 50);
    let undoes = row("event_msg", "{\"type\":\"thread_rolled_back\",\"num_turns\":1}", 50);
    let room = " ".repeat(ignored.len() - undoes.len());
    let path = remembered_rollout(&mut world, 30, &(ignored.clone() + "\n"));
    edit(&path, &ignored, &(undoes + &room));
    assert_stays_blind_until_cleared(world, &path);
}

/// No slice has these bytes, so that only a comparison finds them.
fn assert_stays_blind_until_cleared(mut world: World, path: &Path) {
    for _ in 0..=SLICES {
        go_on(&mut world, path);
        assert!(is_blind(&world, SOON));
    }
    assert_eq!(verdict_on(&world, path), Verdict::Different);
    assert_eq!(named(&world), BTreeSet::from([path.to_owned()]));
    remembered::clear(&world.stores(SOON)).unwrap();
    assert!(!is_blind(&world, SOON));
    assert!(named(&world).is_empty());
}

#[test]
fn a_link_on_the_way_to_a_foreign_directory_is_followed_again_after_five_minutes() {
    let world = World::new();
    let (link, elsewhere) = (world.project.with_file_name("link"), world.project.with_file_name("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &link).unwrap();
    let (own, foreign) = (world.folder(0).join(name(1, 1)), world.folder(0).join(name(2, 2)));
    fs::write(&own, meta(1, &world.project, None) + &turn(1)).unwrap();
    fs::write(&foreign, meta(2, &link.join("sub"), None) + &turn(2)).unwrap();
    (0..2).for_each(|_| poll(&world));
    assert!(!is_blind(&world, SOON) && named(&world).is_empty());

    fs::remove_file(&link).unwrap();
    symlink(&world.project, &link).unwrap();
    assert!(is_blind(&world, SOON));
    assert_eq!(named(&world), BTreeSet::from([link.join("sub"), foreign]));

    assert!(verify(&world, LATER).is_sound(), "later it would be followed anew");
    assert!(!is_blind(&world, LATER));
    assert!(verify(&world, LATER).is_sound());
}

#[test]
fn what_agents_write_while_it_is_compared_is_no_difference() {
    let mut world = World::new();
    for n in 1..6 {
        fs::write(world.folder(0).join(name(n, n)), meta(n, &world.project, None) + &turn(n)).unwrap();
    }
    (0..2).for_each(|_| poll(&world));
    let until = Instant::now() + Duration::from_secs(2);
    let stores = world.stores(SOON);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while Instant::now() < until {
                let n = world.next() + 100;
                append(&world.folder(0).join(name(n % 5 + 1, n % 5 + 1)), &turn(n));
                let path = world.folder(n as usize % 2).join(name(n, n));
                match n % 3 {
                    0 => fs::write(path, meta(n, &world.project, None) + &turn(n)).unwrap(),
                    1 => {
                        poll(&world);
                        // What is written in the same tick would not show, and is not as old here as it seems.
                        std::thread::sleep(Duration::from_millis(12));
                    }
                    _ => drop(fs::remove_file(world.folder(0).join(name(n - 2, n - 2)))),
                }
            }
        });
        let mut compared = 0;
        while Instant::now() < until || compared < 3 {
            let report = remembered::verify(&stores);
            assert!(report.is_sound() && report.damaged == 0, "{report:#?}");
            compared += 1;
        }
        println!("compared {compared} times");
    });
}
