//! Large logs that grow, or change in another way, between audits: what an audit says that reads on from what an earlier one
//! remembers is what one says that remembers nothing.

use std::os::unix::fs::FileExt as _;

use throughline::Stores;
use throughline::audit::{Progress, Request, audit};

use super::*;

/// A larger log is read on.
const LARGE: usize = 4 << 20;
/// A log that was read on has had less of it read than this.
const FEW: u64 = 64 << 10;

/// A store with one large log.
struct Large {
    store: Store,
    path: PathBuf,
}

impl Large {
    fn new(path: &str, text: &[u8]) -> Self {
        let store = Store::new();
        let large = Self { path: store.path(path), store };
        large.write(text);
        large
    }

    fn rollout(text: &[u8]) -> Self {
        Self::new(&format!("{SESSIONS}/{}", rollout_name(1)), text)
    }

    fn transcript(text: &[u8]) -> Self {
        Self::new(&format!("home/.claude/projects/-golden-app/{SESSION}.jsonl"), text)
    }

    fn write(&self, text: &[u8]) {
        fs::write(&self.path, text).unwrap();
    }

    fn append(&self, bytes: &[u8]) {
        fs::OpenOptions::new().append(true).open(&self.path).unwrap().write_all(bytes).unwrap();
    }

    fn edit(&self, at: usize, bytes: &[u8]) {
        let file = fs::OpenOptions::new().write(true).open(&self.path).unwrap();
        file.write_all_at(bytes, at as u64).unwrap();
    }

    fn stores(&self) -> Stores {
        Stores::below(self.store.path("home"))
    }

    /// Audits it, and tells how many bytes were read for that.
    fn audit(&self, what: &str) -> u64 {
        let said = |stores: &Stores| {
            let progress = Progress::default();
            let report = audit(stores, &Request::default(), &progress).unwrap();
            let (read, expected) = progress.bytes();
            assert_eq!(read, expected, "{what}: it has told of more, or less, than it read");
            (serde_json::to_value(&*report).unwrap(), read)
        };
        let (without, all) = said(&Stores { cache: None, ..self.stores() });
        let (with, read) = said(&self.stores());
        assert_eq!(with, without, "{what}");
        assert!(read <= 2 * all, "{what}: {read} of {all}");
        read
    }

    /// The same, and it was read on.
    fn reads_on(&self, what: &str) {
        let read = self.audit(what);
        assert!(read < FEW, "{what}: {read} bytes were read");
    }

    /// The same, and it was read from its start.
    fn reads_whole(&self, what: &str) {
        let read = self.audit(what);
        assert!(read >= fs::metadata(&self.path).unwrap().len(), "{what}: {read} bytes were read");
    }

    /// What the command says, with its cache and without.
    fn command_agrees(&self) {
        let home = self.store.path("home");
        let said = |cache: &str| {
            let mut command = self.store.command(&["--format", "json"]);
            let output = command.env("HOME", &home).env("THROUGHLINE_CACHE", cache).output().unwrap();
            serde_json::from_slice::<Value>(&output.stdout).unwrap()
        };
        assert_eq!(said("on"), said("off"));
    }

    fn caches(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.store.path("home/.cache/throughline-audit")).unwrap();
        files.map(|entry| entry.unwrap().path()).collect()
    }
}

/// A rollout of this thread that is large before anything happens in it.
fn beginning(store: &Store) -> Rollout {
    let mut rollout = store.rollout(1);
    rollout.meta(1, APP, &json!({}));
    rollout.row("compacted", &json!({"message": "x".repeat(LARGE)}));
    rollout
}

/// All that can happen in a rollout.
fn rows_of_all_kinds(rollout: &mut Rollout) {
    rollout.event("user_message", &json!({"message": "waits for its turn"}));
    rollout.turn("t1", "Why does it fail?", "A header is missing.");
    rollout.begin("t2", "undone").event("agent_message", &json!({"message": "so far"}));
    rollout.event("thread_rolled_back", &json!({"num_turns": 2})).begin("t3", "stopped");
    rollout.event("turn_aborted", &json!({"turn_id": "t3"})).begin("t4", &"a long prompt ".repeat(3000));
    rollout.event("agent_message", &json!({"message": "thinks"})).row("response_item", &json!({"type": "future_item"}));
    rollout.raw("{\"timestamp\":\"2026-02-03T00:30:00.000Z\",\"type\":\"event_msg\",\"payload\":{\"type\":\"agent_message\",\"mess");
    rollout.event("token_count", &json!({"info": null})).raw("no json at all\n");
    rollout.event("task_complete", &json!({"turn_id": "t4", "last_agent_message": "not needed"}));
    rollout.event("task_started", &json!({"turn_id": "t5"}));
    rollout.event("task_complete", &json!({"turn_id": "t5", "last_agent_message": "only here"}));
    rollout.meta(9, OTHER, &json!({"cli_version": "0.172.0"})).turn(&rollout_id(0), "of another thread", "copied");
    rollout.begin("t6", "failed").event("task_complete", &json!({"turn_id": "t6", "error": {"message": "limit"}}));
    rollout.turn("t7", "of three", "turns").begin("t8", "the last").row("future_row", &json!({"x": 1}));
    rollout.event("agent_message", &json!({"message": "is open"}));
}

/// The same of a transcript.
fn transcript_of_all_kinds() -> Vec<u8> {
    let filler = json!({"parentUuid": null, "isSidechain": false, "type": "progress", "data": "x".repeat(LARGE)});
    let part = |n: u32, id: &str, text: &str| {
        let mut row = said("assistant", text, n);
        row["message"]["id"] = json!(id);
        row
    };
    let mut timeless = said("user", "When?", 8);
    timeless.as_object_mut().unwrap().remove("timestamp");
    let mut newer = said("assistant", "Now.", 9);
    newer["version"] = json!("2.2.0");
    let rows = [
        json!({"type": "summary", "summary": "s", "leafUuid": "x"}),
        said("user", "What is this?", 1),
        filler,
        part(2, "m", "A "),
        part(3, "m", "parser "),
        part(4, "m", "of rows."),
        said("assistant", "A parser.", 2),
        said("user", "Go on.", 5),
        said("user", "[Request interrupted by user]", 6),
        json!({"type": "something-new", "x": 1}),
        said("user", &"and now? ".repeat(3000), 7),
        timeless,
        newer,
        said("user", "What is left?", 10),
    ];
    // As the host writes it: a row that is passed over begins so.
    let row = |row: &Value| match row["data"].as_str() {
        Some(data) => {
            format!("{{\"parentUuid\":null,\"isSidechain\":false,\"type\":\"progress\",\"data\":\"{data}\"}}\n")
        }
        None => format!("{row}\n"),
    };
    rows.iter()
        .map(row)
        .collect::<String>()
        .replace("{\"type\":\"something", "\0\0\0{\"type\":\"something")
        .into_bytes()
}

/// Numbers that look random, always the same.
fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    }
}

#[test]
fn a_large_log_that_grows_by_any_bytes_is_read_on() {
    let store = Store::new();
    let mut rollout = beginning(&store);
    rows_of_all_kinds(&mut rollout);
    let texts = [rollout.text.into_bytes(), transcript_of_all_kinds()];
    for (text, open) in texts.iter().zip([Large::rollout, Large::transcript]) {
        for seed in [1, 2, 3] {
            let mut number = numbers(seed);
            let mut end = LARGE + 2000;
            let large = open(&text[..end]);
            large.reads_whole("at first");
            while end < text.len() {
                // A long prompt takes large steps, or it would take many.
                let step = if number(3) == 0 { number(9000) } else { number(400) };
                let next = text.len().min(end + 1 + step as usize);
                large.append(&text[end..next]);
                large.reads_on(&format!("seed {seed}, from {end} to {next}"));
                end = next;
            }
            large.reads_on("unchanged");
            large.command_agrees();
        }
    }
}

/// A large rollout with some turns, which was audited.
fn audited() -> (Large, Rollout) {
    let mut rollout = beginning(&Store::new());
    rollout.turn("t1", "one", "first").turn("t2", "two", "second").begin("t3", "three");
    let large = Large::rollout(rollout.text.as_bytes());
    large.reads_whole("at first");
    (large, rollout)
}

#[test]
fn a_large_log_that_changes_in_another_way_is_read_whole() {
    let more = |rollout: &mut Rollout| {
        let len = rollout.text.len();
        rollout.event("agent_message", &json!({"message": "third"})).event("task_complete", &json!({"turn_id": "t3"}));
        rollout.text[len..].to_owned()
    };
    // Edited: a text that counts, what the file begins with, and a row that was open where the reading would go on.
    for edited in ["\"second\"", "cwd", "\"three\""] {
        let (large, mut rollout) = audited();
        let at = rollout.text.find(edited).unwrap() + 1;
        large.edit(at, b"X");
        large.reads_whole(edited);
        large.edit(at, b"Y");
        large.append(more(&mut rollout).as_bytes());
        large.reads_whole(edited);
        large.reads_on("as it is now");
    }
    // Cut, cut and grown again to what is larger, and replaced.
    let (large, mut rollout) = audited();
    let text = rollout.text.clone();
    let cut = text.find("two").unwrap();
    large.write(&text.as_bytes()[..cut]);
    large.reads_whole("cut");
    large.append(b" and a half\"}}\n");
    large.reads_on("grown since");
    let other = text.replace("second", "other") + &more(&mut rollout);
    large.write(other.as_bytes());
    large.reads_whole("grown to something else");
    let beside = large.path.with_extension("new");
    fs::write(&beside, other.clone() + "\n").unwrap();
    fs::rename(&beside, &large.path).unwrap();
    large.reads_whole("replaced");
    large.command_agrees();
}

#[test]
fn a_log_is_read_whole_if_what_was_said_in_an_open_turn_is_not_there_any_more() {
    // Of a long row the ends are looked at before the reading goes on, so that the edit shows only when the row is needed.
    let long = "a long prompt ".repeat(3000);
    let mut rollout = beginning(&Store::new());
    rollout.begin("t1", &long);
    let large = Large::rollout(rollout.text.as_bytes());
    large.reads_whole("at first");
    large.edit(rollout.text.find(&long).unwrap() + long.len() / 2, b"\"");
    let len = rollout.text.len();
    rollout.event("agent_message", &json!({"message": "done"})).event("task_complete", &json!({"turn_id": "t1"}));
    large.append(&rollout.text.as_bytes()[len..]);
    large.reads_whole("a rollout");
    large.reads_on("the rollout as it is now");

    let part = |text: &str, n| {
        let mut row = said("assistant", text, n);
        row["message"]["id"] = json!("m");
        format!("{row}\n")
    };
    let text = transcript_of_all_kinds();
    let text = [&text[..], part(&long, 11).as_bytes()].concat();
    let large = Large::transcript(&text);
    large.reads_whole("at first");
    large.edit(text.len() - long.len() / 2, b"X");
    large.append(part("and the end", 12).as_bytes());
    large.reads_whole("a transcript");
    large.reads_on("the transcript as it is now");
}

#[test]
fn a_log_of_noise_is_read_whole() {
    let mut rollout = beginning(&Store::new());
    for n in 0..64 {
        rollout.row(&format!("noise_{n}"), &json!({}));
    }
    let large = Large::rollout(rollout.text.as_bytes());
    large.reads_whole("at first");
    large.append(b"{\"timestamp\":\"2026-02-03T10:00:00.000Z\",\"type\":\"more_noise\",\"payload\":{}}\n");
    large.reads_whole("grown");
}

#[test]
fn an_older_row_that_was_edited_is_seen_within_64_audits_that_read_on() {
    let mut rollout = beginning(&Store::new());
    for n in 0..700 {
        rollout.turn(&format!("t{n}"), &format!("ask {n}"), "answer");
    }
    let large = Large::rollout(rollout.text.as_bytes());
    large.reads_whole("at first");
    let at = rollout.text.find("ask 300").unwrap();
    large.edit(at, b"\\u00");
    let read = |_: &u32| {
        large.append(b"{\"timestamp\":\"2026-02-03T10:00:00.000Z\",\"type\":\"turn_context\",\"payload\":{}}\n");
        let progress = Progress::default();
        audit(&large.stores(), &Request::default(), &progress).unwrap();
        progress.bytes().0 > LARGE as u64
    };
    assert!((0..64).any(|n| read(&n)), "the row was never looked at");
    large.reads_on("the row as it is now");
}

#[test]
fn what_is_remembered_of_a_large_log_may_be_damaged_or_missing() {
    let (large, mut rollout) = audited();
    let mut turns = 4..;
    let mut more = || {
        let len = rollout.text.len();
        rollout.turn(&format!("t{}", turns.next().unwrap()), "more", "answer");
        rollout.text[len..].to_owned()
    };
    // The record of the folder, what the database has, and the checkpoint of the log.
    assert_eq!(large.caches().len(), 3);
    let damages: [fn(&mut Vec<u8>); 4] = [
        Vec::clear,
        |bytes| bytes.truncate(bytes.len() / 2),
        |bytes| {
            let half = bytes.len() / 2;
            bytes[half] ^= 1;
        },
        |bytes| bytes.fill(0),
    ];
    for (n, damage) in damages.iter().enumerate() {
        large.append(more().as_bytes());
        for path in large.caches() {
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, bytes).unwrap();
        }
        large.reads_whole(&format!("damage {n}"));
        large.append(more().as_bytes());
        large.reads_on(&format!("behind damage {n}"));
    }
    for path in large.caches() {
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
    }
    large.append(more().as_bytes());
    large.reads_whole("no files but directories");
}

#[test]
fn nothing_but_a_record_is_remembered_of_a_small_log() {
    let mut rollout = Store::new().rollout(1);
    rollout.meta(1, APP, &json!({})).turn("t1", "one", "first");
    let small = Large::rollout(rollout.text.as_bytes());
    small.reads_whole("at first");
    // And of the database.
    assert_eq!(small.caches().len(), 2);
}

#[test]
fn what_is_remembered_of_a_large_log_holds_no_text() {
    let mut rollout = beginning(&Store::new());
    rollout.turn("t1", "one secret", "first secret").begin("t2", "another secret");
    rollout.event("agent_message", &json!({"message": "half a secret"})).raw("{\"a\":\"cut secret");
    let large = Large::rollout(rollout.text.as_bytes());
    fs::write(
        large.store.path(&format!("home/.claude/projects/-golden-app/{SESSION}.jsonl")),
        [&transcript_of_all_kinds()[..], format!("{}\n", said("user", "their secret", 20)).as_bytes()].concat(),
    )
    .unwrap();
    large.reads_whole("at first");
    for path in large.caches() {
        let bytes = fs::read(path).unwrap();
        for text in ["secret", "parser", "fail"] {
            assert!(memchr::memmem::find(&bytes, text.as_bytes()).is_none(), "{text}");
        }
    }
}

#[test]
fn a_large_log_that_another_one_continues_is_known_as_it_is_cut() {
    let store = Store::new();
    let mut base = beginning(&store);
    base.turn("t1", "one", "first");
    let end = base.text.len();
    base.turn("t2", "two", "second");
    let large = Large::rollout(base.text.as_bytes());
    let name = format!("rollout-2026-02-03T00-00-00-{}_{}.jsonl", rollout_id(1), rollout_id(4));
    let mut reverted = large.store.rollout(4);
    reverted.path = large.store.path(SESSIONS).join(name);
    let continues = json!({"history_base": {"thread_id": rollout_id(1), "end_byte_offset": end}});
    reverted.meta(1, APP, &continues).turn("t3", "another two", "another second").write();
    large.audit("at first");
    let len = base.text.len();
    base.turn("t4", "three", "third");
    large.append(&base.text.as_bytes()[len..]);
    large.audit("grown");
    // The end of the part that is continued is read whole, since what is remembered lies behind it.
    let len = base.text.len();
    base.turn("t5", "four", "fourth");
    large.append(&base.text.as_bytes()[len..]);
    large.audit("grown again");
    large.command_agrees();
}
