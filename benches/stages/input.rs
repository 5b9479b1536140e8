//! What the stages work on: a rollout of either layout behind the other, and a small store.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use corpus::random::Random;
use corpus::rollout::{self, Layout, Mix, Origin, Plan};
use corpus::store;
use corpus::text::Pool;
use corpus::units::{Bytes, END};
use throughline::cache::Cache;
use throughline::hosts::{self, Candidate, Current, Need};
use throughline::observer::Project;
use throughline::{Mapping, Stores};
use throughline_parsers::codex::{Row, read_line};
use throughline_parsers::lines::Scanner;

/// Larger than the processor's nearer caches, as what is read of a home is.
const ROLLOUT_BYTES: u64 = 4 << 20;
/// So much of a row tells what it is.
const HEAD_BYTES: usize = 160;

static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Makes the input in this folder.
pub fn make(folder: &Path) {
    let mut random = Random::new(1);
    let pool = Pool::new(&mut random);
    let mut bytes = Vec::new();
    for layout in [Layout::Legacy, Layout::Paginated] {
        let plan = Plan {
            cwd: "/home/me/project".to_owned(),
            bytes: ROLLOUT_BYTES,
            mix: Mix::Tool,
            layout,
            turn_bytes: 64 << 10,
            turns: None,
            open_turn: None,
            start: END,
            origin: Origin::Person,
        };
        rollout::write(&plan, &pool, &mut random, &mut bytes).unwrap();
    }
    fs::write(folder.join("rollout"), bytes).unwrap();
    store::make(&store::Arguments {
        out: folder.join("store"),
        files: 300,
        project_files: 20,
        bytes: Bytes(12 << 20),
        days: 30,
        project: None,
        mix: Mix::Tool,
        layout: None,
        turn_bytes: None,
        families: None,
        turns: Some(500),
        open_turn: None,
        sessions_in_db: None,
        claude_turns: 40,
        seed: 1,
    })
    .unwrap();
}

/// Takes the input from this folder.
pub fn take(folder: &Path) {
    FOLDER.set(folder.canonicalize().unwrap()).unwrap();
}

fn folder() -> &'static Path {
    FOLDER.get().expect("main takes the input first")
}

pub static ROLLOUT: LazyLock<Vec<u8>> = LazyLock::new(|| fs::read(folder().join("rollout")).unwrap());

/// The start of each row: what is left where nothing but telling rows apart is to be done.
pub static HEADS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let heads = ROLLOUT.split(|byte| *byte == b'\n').map(|row| &row[..row.len().min(HEAD_BYTES)]);
    heads.collect::<Vec<_>>().join(&b'\n')
});

/// Where the lines stand that have to be read.
pub static MATTERING: LazyLock<Vec<Range<usize>>> =
    LazyLock::new(|| <Scanner>::default().scan(&ROLLOUT, ROLLOUT.len(), true).lines().to_vec());

/// The rows that matter.
pub static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    MATTERING.iter().flat_map(|line| read_line(&ROLLOUT[line.clone()], line.start as u64, true)).collect()
});

/// A home with a project.
pub struct Home {
    /// Without a cache.
    pub stores: Stores,
    /// With a cache, at a time at which all of the store is old enough for it.
    pub remembering: Stores,
    pub project: PathBuf,
    pub opened: Project,
}

pub static HOME: LazyLock<Home> = LazyLock::new(|| {
    let project = folder().join("store/proj");
    let opened = Project::open(&project).unwrap();
    let stores = Stores::below(folder().join("store/home"));
    let cache = Cache::below(folder().join("cache")).ahead_by(Duration::from_secs(10));
    Home {
        remembering: Stores { cache: Some(cache), ..stores.clone() },
        stores: Stores { cache: None, ..stores },
        project,
        opened,
    }
});

/// The project's current thread.
pub static THREAD: LazyLock<Candidate> = LazyLock::new(|| {
    let candidates =
        hosts::candidates(&HOME.stores, &HOME.opened.resolved, Mapping::Never, &|_, _, _| Need::Chain { since: 0 });
    let candidates = candidates.unwrap();
    match Current::of(&candidates) {
        Current::Thread(candidate) => candidate.clone(),
        other => panic!("no current thread: {other:?}"),
    }
});
