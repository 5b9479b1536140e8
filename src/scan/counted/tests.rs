#![allow(clippy::unwrap_used)]
use super::*;
use std::fs;

use memchr::memmem;
use throughline_parsers::claude::Transcript;
use throughline_parsers::codex::EveryRow;
use throughline_parsers::pack::{Pack, Packer, Unpacker};

use crate::scan::folders::Listed;

/// Keeps where the rows stand that were read.
struct Places<H>(Vec<RowRef>, PhantomData<H>);

impl<H: Counting + Send + Sync> Ledger for Places<H> {
    type Host = H;

    fn matters(_row: &H::Row) -> bool {
        true
    }

    fn apply(&mut self, _row: H::Row, at: RowRef, fetch: Fetch<'_>) -> Result<(), MissingRow> {
        assert_eq!(fetch(at.span()).unwrap().len() as u64, at.len);
        self.0.push(at);
        Ok(())
    }
}

impl<H> Pack for Places<H> {
    fn pack(&self, packer: &mut Packer) {
        packer.all(&self.0);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self(unpacker.all()?, PhantomData))
    }
}

impl<H: Counting + Send + Sync> Resumable for Places<H> {
    fn first_end(&self) -> u64 {
        0
    }

    fn recent(&self) -> u64 {
        0
    }
}

fn places<H>() -> Places<H> {
    Places(Vec::new(), PhantomData)
}

struct Nobody;

impl Watch for Nobody {
    fn read(&self, _bytes: u64) {}

    fn stopped(&self) -> bool {
        false
    }
}

/// What is told of a log.
fn told<H: Counting + Send + Sync>(counted: &Counted<Places<H>>) -> String {
    let tally = &counted.tally;
    let (known, unknown): (Vec<_>, Vec<_>) = (tally.known().collect(), tally.unknown().collect());
    let Counted { ledger, first_passed, last_time, .. } = counted;
    format!("{known:?} {unknown:?} {:?} {first_passed:?} {last_time:?} {:?}", tally.unreadable(), ledger.0)
}

/// The same, one line after the other.
fn naive<H: Counting + Send + Sync>(text: &[u8]) -> Counted<Places<H>> {
    let mut counted = Counted::new(places::<H>());
    let mut start = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let bytes = line.strip_suffix(b"\n").unwrap_or(line);
        let span = start as u64..(start + bytes.len()) as u64;
        let ended = bytes.len() < line.len();
        start += line.len();
        let head = &bytes[..bytes.len().min(H::LOOKAHEAD)];
        let marked = bytes.len() > 1 && memmem::find(&bytes[1..], H::ROW_START).is_some();
        let whole = bytes.ends_with(b"}");
        match H::sift(head).filter(|_| !marked) {
            Some(sifted) if whole => {
                let index = counted.tally.index(sifted);
                counted.passed(span, index);
                counted.last_time = H::time_of(head).or(counted.last_time);
            }
            // Of a row that is passed over and does not end, nothing is there yet.
            Some(_) if !ended => {}
            _ => counted.line(&Line { span, ended }, bytes, &|span| {
                text.get(span.start as usize..span.end as usize).map(<[u8]>::to_vec)
            }),
        }
    }
    counted
}

fn rollout() -> Vec<u8> {
    let row = |second: u32, kind: &str, payload: &str| {
        format!("{{\"timestamp\":\"2026-07-01T00:00:{second:02}.000Z\",\"type\":\"{kind}\",\"payload\":{payload}}}")
    };
    let passed = row(1, "response_item", "{\"type\":\"reasoning\",\"encrypted_content\":\"AAAA\"}");
    let long = row(2, "compacted", &format!("{{\"message\":\"{}\"}}", "x".repeat(3000)));
    let read = row(3, "event_msg", "{\"type\":\"agent_message\",\"message\":\"answer\"}");
    let item = "{\"type\":\"item_completed\",\"thread_id\":\"a\",\"turn_id\":\"b\",\"item\":{\"type\":\"Reasoning\"}}";
    let lines = [
        row(0, "session_meta", "{\"id\":\"a\",\"cwd\":\"/p\"}"),
        passed.clone(),
        read.clone(),
        long.clone(),
        format!("{}{read}", &long[..2000]),
        row(4, "event_msg", item),
        row(5, "event_msg", &item.replace("Reasoning", "AgentMessage")),
        row(6, "future", "{}"),
        row(7, "event_msg", &format!("{{\"type\":\"user_message\",\"message\":\"{}\"}}", "y".repeat(2500))),
        long[..long.len() - 1].to_owned(),
        String::new(),
        "\0\0\0".to_owned() + &passed,
        "no json".to_owned(),
        format!("{read} {passed}\r"),
        row(8, "world_state", "{}"),
    ];
    lines.join("\n").into_bytes()
}

fn transcript() -> Vec<u8> {
    let progress = r#"{"parentUuid":null,"isSidechain":false,"type":"progress","data":{"type":"hook"}}"#;
    let user = r#"{"parentUuid":null,"type":"user","message":{"role":"user","content":"ask"},"uuid":"u","sessionId":"s","timestamp":"2026-07-01T00:00:09.000Z"}"#;
    let long = progress.replace("hook", &"x".repeat(4000));
    let cut = &long[..2000];
    [progress, user, &long, &format!("{cut}{user}"), cut, "\0\0\0\0", "[1,2]", r#"{"type":"new-thing"}"#, user, &long]
        .join("\n")
        .into_bytes()
}

/// Each text is read in parts of many sizes, in order and on all cores, and is always what it is line by line.
fn check<H: Counting + Send + Sync>(text: &[u8]) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let wanted = told(&naive::<H>(text));
    for part in [1, 2, 13, 97, 255, 256, 257, 1000, 1024, 1025, 4096, 1 << 20] {
        for large in [0, u64::MAX] {
            let sizes = Sizes { part, large };
            let start = Place::start(places::<H>());
            let read = plain_in(sizes, start, file.as_file(), text.len() as u64, &Nobody, |_| {}).unwrap().unwrap();
            assert_eq!(told(&read), wanted, "parts of {part}, large from {large}");
        }
    }
}

#[test]
fn all_rows_are_counted_whatever_the_size_of_the_parts() {
    for end in ["", "\n", "\n{\"timestamp\":\"2026-07-01T00:00:10.000Z\",\"type\":\"turn_context\",\"pay"] {
        check::<EveryRow>(&[rollout(), end.into()].concat());
        check::<EveryRow>(&[&rollout()[..], b"\nno time\nnor here\n", end.as_bytes()].concat());
        check::<Transcript>(&[transcript(), end.into()].concat());
    }
    for text in ["", "\n", "\n\n", "{}"] {
        check::<EveryRow>(text.as_bytes());
        check::<Transcript>(text.as_bytes());
    }
}

/// A log that had grown to that length is read, then what has been added; what is saved in between is all that is known.
fn check_grown<H: Counting + Send + Sync>(text: &[u8], file: &File, until: u64, sizes: Sizes) {
    let mut saved = Packer::default();
    let mut offset = 0;
    let start = Place::provable_start(places::<H>());
    let read = plain_in(sizes, start, file, until, &Nobody, |place| {
        place.pack(&mut saved);
        offset = place.offset;
    });
    assert_eq!(told(&read.unwrap().unwrap()), told(&naive::<H>(&text[..until as usize])), "up to {until}, {sizes:?}");
    let line_start = text[..until as usize].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    assert_eq!(offset, line_start as u64);
    let saved = saved.finish();
    let place = Place::<Places<H>>::unpack(&mut Unpacker::new(&saved)).unwrap();
    let (mut at_end, len) = (None, text.len() as u64);
    let read = plain_in(sizes, place, file, len, &Nobody, |place| at_end = Some(place.counted.rows.clone()));
    assert_eq!(told(&read.unwrap().unwrap()), told(&naive::<H>(text)), "on from {offset}");
    let start = Place::provable_start(places::<H>());
    plain_in(sizes, start, file, len, &Nobody, |place| assert_eq!(Some(&place.counted.rows), at_end.as_ref())).unwrap();
}

#[test]
fn a_log_that_was_read_on_is_one_that_was_read_whole() {
    for end in ["", "\n", "\n{\"timestamp\":\"2026-07-01T00:00:10.000Z\",\"type\":\"turn_context\",\"payload\":{}}"] {
        let texts = [[rollout(), end.into()].concat(), [transcript(), end.into()].concat()];
        for (n, text) in texts.iter().enumerate() {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), text).unwrap();
            let ends = (0..text.len()).filter(|at| at % 193 == 0 || text[at.saturating_sub(2)..=*at].contains(&b'\n'));
            for until in ends.chain([text.len()]) {
                for (part, large) in [(97, 0), (1000, u64::MAX), (1 << 20, u64::MAX)] {
                    let sizes = Sizes { part, large };
                    match n {
                        0 => check_grown::<EveryRow>(text, file.as_file(), until as u64, sizes),
                        _ => check_grown::<Transcript>(text, file.as_file(), until as u64, sizes),
                    }
                }
            }
        }
    }
}

#[test]
fn a_place_is_proven_until_what_mattered_changes() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = [rollout(), b"\n".to_vec()].concat();
    fs::write(file.path(), &text).unwrap();
    let read = |at: u64, buffer: &mut [u8]| file.as_file().read_exact_at(buffer, at).is_ok();
    let (mut saved, mut proof) = (Packer::default(), None);
    let start = Place::provable_start(places::<EveryRow>());
    plain_from(start, file.as_file(), text.len() as u64, &Nobody, |place| {
        place.pack(&mut saved);
        proof = place.proof(&read);
    })
    .unwrap();
    let (saved, proof) = (saved.finish(), proof.unwrap());
    let place = Place::<Places<EveryRow>>::unpack(&mut Unpacker::new(&saved)).unwrap();
    assert!(place.is_proven(&proof, &read));
    for at in [0, text.len() / 2, text.len() - 2] {
        let mut changed = text.clone();
        changed[at] ^= 1;
        fs::write(file.path(), &changed).unwrap();
        assert!(!place.is_proven(&proof, &read), "byte {at}");
    }
    fs::write(file.path(), &text[..text.len() - 1]).unwrap();
    assert!(!place.is_proven(&proof, &read));
    // A file that is shorter than it was said to be is one that changes.
    let start = Place::provable_start(places::<EveryRow>());
    plain_from(start, file.as_file(), text.len() as u64, &Nobody, |place| assert!(place.proof(&read).is_none()))
        .unwrap();
    // Without the rows nothing can be proven, and at the start there is nothing to prove.
    for start in [Place::start(places::<EveryRow>()), Place::provable_start(places())] {
        let len = if start.counted.rows.is_none() { text.len() as u64 - 1 } else { 20 };
        plain_from(start, file.as_file(), len, &Nobody, |place| assert!(place.proof(&read).is_none())).unwrap();
    }
    assert!((0..saved.len()).all(|len| Place::<Places<EveryRow>>::unpack(&mut Unpacker::new(&saved[..len])).is_none()));
}

#[test]
fn a_packed_file_holds_what_the_plain_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let name = "rollout-2026-07-01T00-00-00-019c0000-0000-7000-8000-000000000001.jsonl.zst";
    // A row that is passed over crosses the blocks in which it is read, and another one begins in it: all is read once more.
    let passed = format!(
        "{{\"timestamp\":\"2026-07-01T00:00:01.000Z\",\"type\":\"compacted\",\"payload\":\"{}",
        "x".repeat(700 << 10)
    );
    for text in [rollout(), [rollout(), b"\n".to_vec(), passed.into_bytes(), rollout()].concat()] {
        fs::write(folder.path().join(name), zstd::encode_all(&*text, 1).unwrap()).unwrap();
        let open = || Rollout::open(&Listed::named(folder.path(), name).unwrap()).unwrap().unwrap();
        let read = packed(&open(), u64::MAX, places::<EveryRow>, &Nobody).unwrap().unwrap();
        assert!(!read.damaged);
        assert_eq!(told(&read), told(&naive::<EveryRow>(&text)));
        let cut = packed(&open(), 500, places::<EveryRow>, &Nobody).unwrap().unwrap();
        assert_eq!(told(&cut), told(&naive::<EveryRow>(&text[..500])));
    }
    let bytes = fs::read(folder.path().join(name)).unwrap();
    fs::write(folder.path().join(name), &bytes[..bytes.len() / 2]).unwrap();
    let rollout = Rollout::open(&Listed::named(folder.path(), name).unwrap()).unwrap().unwrap();
    assert!(packed(&rollout, u64::MAX, places::<EveryRow>, &Nobody).unwrap().unwrap().damaged);
}

#[test]
fn who_does_not_wait_gets_nothing() {
    struct Gone;
    impl Watch for Gone {
        fn read(&self, _bytes: u64) {}
        fn stopped(&self) -> bool {
            true
        }
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), rollout()).unwrap();
    assert!(plain(file.as_file(), 100, places::<EveryRow>(), &Gone).unwrap().is_none());
}
