//! The ordered scan for a session's name against its naive twin, on random transcripts: replies, mints and tools in any
//! order, rows that do not count, rows that break.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "naive/name.rs"]
mod naive;
#[path = "naive/rows.rs"]
mod naive_rows;
#[path = "transcript/named.rs"]
mod named;
mod spelling;

use std::cell::Cell;

use named::{NAME, OTHER, transcript};
use proptest::prelude::*;
use spelling::check;
use throughline_parsers::claude::{NameScan, Verdict, read_line};
use throughline_parsers::pack::{Pack, Packer, Unpacker};

fn saved(scan: &NameScan) -> Vec<u8> {
    let mut packer = Packer::default();
    scan.pack(&mut packer);
    packer.finish()
}

fn taken_up(saved: &[u8]) -> NameScan {
    let mut unpacker = Unpacker::new(saved);
    let scan = NameScan::unpack(&mut unpacker).unwrap();
    assert!(unpacker.is_at_end());
    scan
}

fn said(verdict: Verdict) -> (&'static str, Option<&'static str>) {
    match verdict {
        Verdict::Present => ("present", None),
        Verdict::Absent => ("absent", None),
        Verdict::Unavailable(reason) => ("unavailable", Some(reason.name())),
    }
}

/// Behind each line, with the state saved and taken up again there, the verdict is the twin's: so it is never `absent`
/// where that does not say so.
#[test]
fn names_are_looked_for_as_by_the_twin() {
    let verdicts = ["present", "absent", "corrupt_row", "tool_before_reply", "no_visible_reply", "no_mint"];
    let counts = verdicts.map(|_| Cell::new(0));
    check(1000, transcript(), |data| {
        let (mut whole, mut resumed, mut offset) = (NameScan::default(), NameScan::default(), 0);
        for line in data.0.split_inclusive(|byte| *byte == b'\n') {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            for row in read_line(text, offset as u64, text.len() < line.len()) {
                whole.apply(&row);
                resumed.apply(&row);
            }
            resumed = taken_up(&saved(&resumed));
            prop_assert_eq!(saved(&resumed), saved(&whole));
            offset += line.len();
            for name in [NAME, OTHER] {
                let want = naive::check(&data.0[..offset], name);
                prop_assert_eq!(said(whole.verdict(name)), want, "{} behind {} bytes", name, offset);
                prop_assert_eq!(said(resumed.verdict(name)), want);
                let known = verdicts.iter().position(|verdict| *verdict == want.1.unwrap_or(want.0));
                counts[known.unwrap()].update(|count| count + 1);
            }
        }
        Ok(())
    });
    for (verdict, count) in verdicts.iter().zip(counts) {
        assert!(count.get() > 100, "{verdict} only {} times", count.get());
    }
}

#[test]
fn what_is_no_state_is_none() {
    for bytes in [&[][..], &[1], &[1, 0], &[[1; 17].as_slice(), &[6, 0]].concat(), &[0xFF; 12]] {
        assert!(NameScan::unpack(&mut Unpacker::new(bytes)).is_none(), "{bytes:?}");
    }
}
