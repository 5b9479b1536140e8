//! The stages: each a function without arguments, so that it can be timed and its instructions be counted alike.

use std::collections::HashSet;
use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Duration;

use throughline::chain::{Chain, Entry, Host, Pair};
use throughline::db::projection;
use throughline::observer::read::{Answer, Request, Status, read};
use throughline::scan::stamps::Moment;
use throughline::scan::stops;
use throughline::scan::tree::{Look, Tree};
use throughline::{Mapping, Stores};
use throughline_parsers::codex::{Turns, read_line, said_in};
use throughline_parsers::text::{self, Digest};

use crate::input::{HEADS, HOME, MATTERING, ROLLOUT, ROWS, THREAD};

/// One stage of reading.
pub struct Stage {
    pub name: &'static str,
    work: fn(),
    /// The size of what it works on.
    pub bytes: fn() -> usize,
}

impl Stage {
    pub fn run(&self) {
        (self.work)();
    }

    pub fn named(name: &str) -> &'static Self {
        STAGES.iter().find(|stage| stage.name == name).expect("the name of a stage")
    }
}

pub static STAGES: [Stage; 10] = [LINES, CLASSIFY, DECODE, TURNS, FOLD, BODY, CHAIN, PROJECTION, COLD_READ, POLL];

/// What everything is compared with: finding the line feeds.
pub const YARDSTICK: Stage = Stage {
    name: "yardstick",
    work: || _ = black_box(memchr::memchr_iter(b'\n', black_box(&ROLLOUT)).count()),
    bytes: || ROLLOUT.len(),
};

/// Blocks to lines; rows that do not matter are passed over.
pub const LINES: Stage = Stage {
    name: "lines",
    work: || _ = black_box(stops::scanner().scan(black_box(&ROLLOUT), ROLLOUT.len(), true)),
    bytes: || ROLLOUT.len(),
};

/// Telling rows apart by their first bytes.
pub const CLASSIFY: Stage = Stage {
    name: "classify",
    work: || _ = black_box(stops::scanner().scan(black_box(&HEADS), HEADS.len(), true)),
    bytes: || HEADS.len(),
};

/// Lines that have to be read, to events.
pub const DECODE: Stage = Stage {
    name: "decode",
    work: || {
        for line in &*MATTERING {
            black_box(read_line(black_box(&ROLLOUT[line.clone()]), line.start as u64, true));
        }
    },
    bytes: bytes_that_matter,
};

/// Events to turns with the digests of their texts.
pub const TURNS: Stage = Stage {
    name: "turns",
    work: || {
        let mut turns = Turns::default();
        for row in black_box(&*ROWS) {
            turns.apply(row, |at| said_in(&ROLLOUT[at.offset as usize..])).unwrap();
        }
        black_box(turns.turns().len());
    },
    bytes: bytes_that_matter,
};

fn bytes_that_matter() -> usize {
    MATTERING.iter().map(|line| line.len()).sum()
}

/// The canonical text of a message.
pub const FOLD: Stage =
    Stage { name: "fold", work: || _ = black_box(text::fold(black_box(&MESSAGE))), bytes: || MESSAGE.len() };

static MESSAGE: LazyLock<String> = LazyLock::new(|| {
    "A message of some lines,\nwith caf\u{e9} and an \u{1F680}, as the agent writes it.  ".repeat(200)
});

/// The canonical text of a body, and its digest.
pub const BODY: Stage =
    Stage { name: "body", work: || _ = black_box(Digest::of(&text::body(black_box(&STORED)))), bytes: || STORED.len() };

static STORED: LazyLock<String> =
    LazyLock::new(|| "A body of some lines,\r\nwith caf\u{e9} and an \u{1F680}, as the database has it.\n".repeat(200));

/// Pairs to a chain with its rolling digest.
pub const CHAIN: Stage = Stage {
    name: "chain",
    work: || {
        let mut chain = Chain::new(Host::Codex, black_box(DIGEST.to_owned()));
        for n in 0..PAIRS as i64 {
            let digest = *DIGEST;
            let place = chain.place(digest, "/a/rollout\0");
            let completed_at = 1_782_900_000_000 + n;
            chain.push(Pair { user: digest, assistant: digest, completed_at, place, number: n.unsigned_abs() });
        }
        black_box(chain.prefix(PAIRS));
    },
    bytes: || PAIRS * size_of::<Entry>(),
};

const PAIRS: usize = 1000;
static DIGEST: LazyLock<Digest> = LazyLock::new(|| Digest::of("x"));

/// A page of bodies out of the database, for the newest pairs of a long thread.
pub const PROJECTION: Stage = Stage {
    name: "projection",
    work: || {
        let thread = &*THREAD;
        let page = thread.entries(thread.end.length - PAGE..thread.end.length);
        let database = HOME.stores.database();
        let found = projection::pairs(&database, &thread.session, &HOME.opened.resolved, &page).unwrap();
        assert_eq!(found.map(|pairs| pairs.len()), Some(PAGE));
    },
    bytes: || PAGE * size_of::<Entry>(),
};

const PAGE: usize = 10;

/// A small store from nothing to the newest page.
pub const COLD_READ: Stage = Stage {
    name: "cold_read",
    work: || assert_eq!(answer(&HOME.stores, None).status, Status::Snapshot),
    bytes: store_bytes,
};

/// The same store again, where nothing is new.
pub const POLL: Stage = Stage {
    name: "poll",
    work: || {
        let answer = answer(&HOME.remembering, Some(&END));
        assert_eq!((answer.status, answer.turns.len()), (Status::Delta, 0));
    },
    bytes: store_bytes,
};

static END: LazyLock<String> = LazyLock::new(|| answer(&HOME.stores, None).through_cursor.unwrap());

/// Nobody cuts this store's files short, so they may be mapped.
fn answer(stores: &Stores, after: Option<&str>) -> Answer {
    let request = Request { after, ..Request::snapshot(&HOME.project) };
    read(stores, black_box(&request), Mapping::LargeFiles).unwrap()
}

fn store_bytes() -> usize {
    static BYTES: LazyLock<usize> = LazyLock::new(|| {
        let sessions = HOME.stores.sessions_root();
        let look = Look { root: &sessions, now: Moment::now(Duration::ZERO), suspects: &HashSet::new() };
        let tree = Tree::look(look, None).unwrap();
        tree.rollouts().map(|known| known.stamps.size as usize).sum()
    });
    *BYTES
}
