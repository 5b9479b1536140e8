//! Many pollers beside writers, pollers that are killed, and caches that are damaged byte by byte: every answer is one that
//! the stores gave at that time, none fails, and nothing is left lying about.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use throughline::chain::{Chain, Host, Pair};
use throughline::hosts::Need;
use throughline::hosts::codex::candidates;
use throughline::observer::cursor::{Cursor, Position};
use throughline::paths::Resolved;
use throughline::{Mapping, Stores};
use throughline_parsers::text::Digest;
use xxhash_rust::xxh3::xxh3_64;

use super::remembering::{World, event, id, meta, name, tell, turn};

/// 2026-07-01T00:00:00Z, in milliseconds.
const MIDNIGHT: i64 = 1_782_864_000_000;

/// A few numbers that look random (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

// ---- a writer that knows what it has written

/// Where a chain ends: its length and its digest; `None` without a pair.
type Known = Option<(usize, Digest)>;

/// A state of a thread, and when it can have been seen.
struct State {
    end: Known,
    from: Instant,
    until: Option<Instant>,
}

struct Writer {
    thread: u64,
    path: PathBuf,
    beside: PathBuf,
    head: String,
    /// The pairs: what each says, and the number of its turn.
    pairs: Vec<(u64, u64)>,
    started: u64,
    next: u64,
    states: Vec<State>,
    dice: Dice,
}

impl Writer {
    fn new(world: &World, thread: u64) -> Self {
        let path = world.folder(thread as usize % 2).join(name(thread, thread));
        let head = meta(thread, &world.project, None);
        let beside = world.home.path().join(format!("beside-{thread}"));
        let from = Instant::now();
        fs::write(&path, &head).unwrap();
        let states = vec![State { end: None, from, until: None }];
        let (pairs, dice) = (Vec::new(), Dice(0x9E37_79B9 + thread));
        Self { thread, path, beside, head, pairs, started: 0, next: thread * 1000, states, dice }
    }

    fn digest(&self) -> Digest {
        Digest::of(&id(self.thread))
    }

    /// What the contract makes of the pairs.
    fn end(&self) -> Known {
        let mut chain = Chain::new(Host::Codex, self.digest());
        let origin = Digest::of_body(&format!("codex:{}", id(self.thread)));
        let place = chain.place(origin, &format!("{}\0", self.path.to_str().unwrap()));
        for (n, number) in &self.pairs {
            chain.push(Pair {
                user: Digest::of_body(&format!("ask {n}")),
                assistant: Digest::of_body(&format!("answer {n}")),
                completed_at: MIDNIGHT + *n as i64 * 1000,
                place,
                number: *number,
            });
        }
        chain.end().map(|end| (end.length, end.digest))
    }

    /// Makes one change that leads to the next state.
    fn change(&mut self, change: impl FnOnce(&Self)) {
        let from = Instant::now();
        change(self);
        self.states.last_mut().unwrap().until = Some(Instant::now());
        self.states.push(State { end: self.end(), from, until: None });
    }

    fn append(&self, text: &str) {
        OpenOptions::new().append(true).open(&self.path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn step(&mut self) {
        match self.dice.below(20) {
            0..10 => self.turn(1),
            10..15 => {
                let pieces = 2 + self.dice.below(4);
                self.turn(pieces);
            }
            15..18 => self.roll_back(),
            18 => self.replace(),
            _ => self.append("\n"),
        }
    }

    /// A turn in so many pieces, cut anywhere.
    fn turn(&mut self, pieces: u64) {
        self.next += 1;
        let mut text = turn(self.next);
        for _ in 1..pieces {
            // The last row counts without its LF, so that is not what is left.
            let rest = text.split_off(self.dice.below(text.len() as u64 - 2) as usize);
            self.append(&text);
            thread::sleep(Duration::from_millis(self.dice.below(8)));
            text = rest;
        }
        self.started += 1;
        self.pairs.push((self.next, self.started));
        self.change(|writer| writer.append(&text));
    }

    fn roll_back(&mut self) {
        let count = 1 + self.dice.below(2);
        self.next += 1;
        self.pairs.truncate(self.pairs.len().saturating_sub(count as usize));
        let row = event(&format!("{{\"type\":\"thread_rolled_back\",\"num_turns\":{count}}}"), self.next);
        self.change(|writer| writer.append(&row));
    }

    /// Another file takes the place: the last turns, and a new one in front of them.
    fn replace(&mut self) {
        self.next += 1;
        let last = self.pairs.len().saturating_sub(5);
        let says: Vec<u64> = [self.next].into_iter().chain(self.pairs[last..].iter().map(|pair| pair.0)).collect();
        let text: String = [self.head.clone()].into_iter().chain(says.iter().map(|n| turn(*n))).collect();
        self.started = says.len() as u64;
        self.pairs = says.into_iter().zip(1..).collect();
        self.change(|writer| {
            fs::write(&writer.beside, text).unwrap();
            fs::rename(&writer.beside, &writer.path).unwrap();
        });
    }

    /// Whether the thread ended so at some moment from `start` to `end`.
    fn ended_so(&self, known: Known, (start, end): (Instant, Instant)) -> bool {
        let was = |state: &State| state.from <= end && state.until.is_none_or(|until| until >= start);
        self.states.iter().any(|state| state.end == known && was(state))
    }
}

// ---- pollers

fn command(world: &World, name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
    command.env_clear().env("HOME", world.home.path()).stdin(Stdio::null());
    command.args([name, "--json", "--project"]).arg(&world.project);
    command
}

/// An answer, and when it was given.
struct Answer {
    ends: Vec<Position>,
    /// The threads that are not there have no pair.
    all: bool,
    call: (Instant, Instant),
}

impl Answer {
    fn of(thread: Digest, answer: &Self) -> Known {
        answer.ends.iter().find(|end| end.thread == thread).map(|end| (end.length, end.prefix))
    }
}

fn poll(world: &World, name: &str) -> Answer {
    let start = Instant::now();
    let output = command(world, name).output().unwrap();
    let call = (start, Instant::now());
    assert!(output.status.success() && output.stderr.is_empty(), "{name}: {output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let project = Resolved::new(&world.project).unwrap().digest();
    let all = name == "observer-threads";
    let listed = if all { answer["threads"].as_array().unwrap().clone() } else { vec![answer] };
    let end = |thread: &Value| match Cursor::read(thread["throughCursor"].as_str()?, project) {
        Some(Cursor::At(position)) => Some(position),
        _ => None,
    };
    Answer { ends: listed.iter().filter_map(end).collect(), all, call }
}

fn temporary_files(world: &World) -> Vec<PathBuf> {
    let files = fs::read_dir(world.home.path().join(".cache/throughline")).unwrap();
    files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "tmp")).collect()
}

/// Polls while two threads are written to.
fn pollers_beside_writers(pollers: usize, time: Duration) {
    let world = World::new();
    let mut writers = [1, 2].map(|thread| Writer::new(&world, thread));
    let (over, until) = (AtomicBool::new(false), Instant::now() + time);
    let answers = thread::scope(|scope| {
        for writer in &mut writers {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    writer.step();
                    thread::sleep(Duration::from_millis(writer.dice.below(25)));
                }
            });
        }
        let poller = |n: usize| {
            let (mut answers, mut turn) = (Vec::new(), n);
            while Instant::now() < until {
                let name = if turn.is_multiple_of(3) { "observer-read" } else { "observer-threads" };
                answers.push(poll(&world, name));
                turn += 1;
            }
            answers
        };
        let pollers: Vec<_> = (0..pollers).map(|n| scope.spawn(move || poller(n))).collect();
        let answers: Vec<_> = pollers.into_iter().map(|poller| poller.join()).collect();
        over.store(true, Ordering::Relaxed);
        answers.into_iter().flat_map(|answers| answers.unwrap()).collect::<Vec<_>>()
    });
    let mut told = 0;
    for (writer, answer) in writers.iter().flat_map(|writer| answers.iter().map(move |answer| (writer, answer))) {
        let end = Answer::of(writer.digest(), answer);
        if answer.all || end.is_some() {
            told += 1;
            assert!(writer.ended_so(end, answer.call), "thread {}: {end:?} was no state at that time", writer.thread);
        }
    }
    assert!(told > answers.len(), "{told} of {} answers tell something", answers.len());
    let states = writers.iter().map(|writer| writer.states.len()).sum::<usize>();
    assert!(states > answers.len() / 20, "{states} states while {} answers were given", answers.len());
    assert_eq!(temporary_files(&world), Vec::<PathBuf>::new());
    for name in ["observer-threads", "observer-read"] {
        let with = command(&world, name).output().unwrap();
        let without = command(&world, name).env("THROUGHLINE_CACHE", "off").output().unwrap();
        assert_eq!(with, without);
    }
    let last = poll(&world, "observer-threads");
    writers.iter().for_each(|writer| assert_eq!(Answer::of(writer.digest(), &last), writer.end()));
}

#[test]
fn every_answer_was_true_at_some_moment_of_its_call() {
    pollers_beside_writers(4, Duration::from_secs(4));
}

#[test]
#[ignore = "takes a minute"]
fn every_answer_was_true_at_some_moment_of_its_call_for_a_minute() {
    pollers_beside_writers(8, Duration::from_secs(60));
}

#[test]
fn a_poller_that_is_killed_changes_no_answer() {
    let mut world = World::new();
    let mut writer = Writer::new(&world, 1);
    let mut dice = Dice(7);
    for n in 0..60 {
        writer.step();
        let mut poller = command(&world, ["observer-read", "observer-threads"][n % 2]);
        let mut poller = poller.stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_micros(dice.below(4000)));
        writer.step();
        thread::sleep(Duration::from_micros(dice.below(6000)));
        poller.kill().unwrap();
        poller.wait().unwrap();
        world.compare(Duration::from_secs(n as u64 % 2 * 3), 0).unwrap();
        let end = Answer::of(writer.digest(), &poll(&world, "observer-threads"));
        assert_eq!(end, writer.end());
    }
    // What was left behind goes: here by a poll a quarter of an hour later, when nothing else has changed.
    let directory = world.home.path().join(".cache/throughline");
    fs::write(directory.join(format!("rollout-{}.1.0.tmp", "0".repeat(64))), "half").unwrap();
    for entry in fs::read_dir(directory).unwrap() {
        let then = SystemTime::now() - Duration::from_secs(900);
        OpenOptions::new().read(true).open(entry.unwrap().path()).unwrap().set_modified(then).unwrap();
    }
    world.compare(Duration::ZERO, 0).unwrap();
    assert_eq!(temporary_files(&world), Vec::<PathBuf>::new());
}

// ---- damage

struct Damaged {
    world: World,
    stores: Stores,
    expected: Vec<String>,
    /// The files of the cache and what they hold.
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Damaged {
    /// A small store with a file of each kind in the cache, all of which a read uses.
    fn new() -> Self {
        let world = World::new();
        for (thread, project) in [(1, true), (2, false)] {
            let cwd = if project { world.project.clone() } else { world.home.path().join("elsewhere") };
            let open = event("{\"type\":\"task_started\",\"turn_id\":\"open\"}", 9);
            let open = open + &event("{\"type\":\"user_message\",\"message\":\"not answered yet\"}", 9);
            let text = meta(thread, &cwd, None) + &turn(thread) + &turn(thread + 5) + &open;
            fs::write(world.folder(0).join(name(thread, thread)), text).unwrap();
        }
        let stores = world.stores(Duration::from_secs(3));
        let (expected, directory) = (told(&world, &world.uncached()), world.home.path().join(".cache/throughline"));
        (0..3).for_each(|_| assert_eq!(told(&world, &stores), expected));
        let paths = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> = paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        files.sort();
        let kind = |path: &Path| path.file_name().unwrap().to_str().unwrap().split('-').next().unwrap().to_owned();
        let kinds: Vec<String> = files.iter().map(|file| kind(&file.0)).collect();
        assert_eq!(kinds, ["project", "rollout", "root"]);
        Self { world, stores, expected, files }
    }

    /// What a read answers with these bytes in the place of a file; the file is then what it was.
    fn answer(&self, file: usize, bytes: &[u8]) -> Vec<String> {
        let (path, whole) = &self.files[file];
        fs::write(path, bytes).unwrap();
        let answer = told(&self.world, &self.stores);
        fs::write(path, whole).unwrap();
        answer
    }
}

fn told(world: &World, stores: &Stores) -> Vec<String> {
    let project = Resolved::new(&world.project).unwrap();
    tell(candidates(stores, &project, Mapping::Never, &|_, _, _| Need::Chain { since: 0 }), |_| Need::Chain {
        since: 0,
    })
}

/// Damages each of the files, each in a store of its own.
fn each_file(damage: impl Fn(&Damaged, usize) + Sync) {
    let damage = &damage;
    thread::scope(|scope| (0..3).for_each(|file| drop(scope.spawn(move || damage(&Damaged::new(), file)))));
}

#[test]
fn no_byte_of_the_cache_changes_an_answer_when_it_is_damaged() {
    each_file(|damaged, file| {
        let (path, whole) = &damaged.files[file];
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            assert_eq!(damaged.answer(file, &bytes), damaged.expected, "{path:?}, byte {at}");
            assert_eq!(damaged.answer(file, &whole[..at]), damaged.expected, "{path:?}, {at} bytes");
        }
    });
}

/// Damage of which the checksums tell nothing may be believed, but nothing breaks.
#[test]
fn what_is_damaged_and_then_sealed_is_no_crash() {
    each_file(|damaged, file| {
        let whole = &damaged.files[file].1;
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x80 >> (at % 8);
            seal(&mut bytes);
            damaged.answer(file, &bytes);
        }
        // And what came of it does not stay for ever.
        drop(fs::remove_dir_all(damaged.world.home.path().join(".cache/throughline")));
        assert_eq!(told(&damaged.world, &damaged.stores), damaged.expected);
    });
}

/// Writes the checksums of a file's blocks anew.
fn seal(bytes: &mut [u8]) {
    // Behind the first line stands what the file is about.
    let about = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
    let Some(kind) = bytes.get(about).map(|kind| u64::from(*kind)) else { return };
    let mut at = about + 1;
    while let Some(head) = bytes.get(at..at + 16) {
        let len = u64::from_le_bytes(head[..8].try_into().unwrap());
        let start = at + 16;
        let Some(end) = start.checked_add(len as usize).filter(|end| *end <= bytes.len()) else { return };
        let sum = xxh3_64(&bytes[start..end]) ^ kind;
        bytes[at + 8..start].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
}
