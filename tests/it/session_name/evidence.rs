//! What is no evidence, and the property that nothing is refused without.

use std::cell::Cell;
use std::fs;

use memchr::memmem;
use proptest::prelude::*;
use serde_json::json;
use throughline_parsers::claude::Transcript;
use throughline_parsers::lines::Spelling;

use super::{BLOCK, Named, Step, assert_allowed, assert_unchecked, logged, missing, observed, refusal};
use crate::home::Home;
use crate::hooks::json_of;
use crate::naive_name;
use crate::named::{NAME, transcript};
use crate::spelling::check;

/// What spoils the evidence of a session, and the reason that is told.
const SPOILED: [(Step, &str); 7] = [
    (|named| fs::remove_file(&named.session.path).unwrap(), "missing_transcript"),
    (
        |named| {
            fs::remove_file(&named.session.path).unwrap();
            fs::create_dir(&named.session.path).unwrap();
        },
        "missing_transcript",
    ),
    (|named| fs::write(&named.session.path, "\n").unwrap(), "no_mint"),
    (|named| named.thinks(), "no_visible_reply"),
    (
        |named| {
            named.thinks();
            named.uses_a_tool();
            named.says("prose");
        },
        "tool_before_reply",
    ),
    (
        |named| {
            named.breaks();
            named.says("prose");
        },
        "corrupt_row",
    ),
    (
        |named| {
            named.says("prose");
            named.breaks();
        },
        "corrupt_row",
    ),
];

#[test]
fn without_evidence_a_tool_is_let_through_and_the_name_stays_pending() {
    for (spoil, reason) in SPOILED {
        let home = Home::new();
        let named = Named::new(&home, "s");
        spoil(&named);
        assert_unchecked(&named.before_tool(), reason);
        assert_eq!(logged(&home), [named.record("pre-tool-use", "unavailable", reason)]);
        assert_eq!((named.status(), &named.state()["seen_for"]), (json!("pending"), &json!(null)));
    }
}

#[test]
fn without_evidence_the_end_of_a_turn_is_let_go_and_observed() {
    // Without a transcript there is nothing to capture, and no check.
    for (spoil, reason) in &SPOILED[2..] {
        let home = Home::new();
        let named = Named::new(&home, "s");
        spoil(&named);
        assert_unchecked(&named.stop(false), reason);
        assert_eq!(logged(&home), [missing(reason), named.record("stop", "unavailable", reason)]);
        assert_eq!((named.status(), &named.state()["seen_for"]), (json!("pending"), &json!(null)));
    }
}

#[test]
fn a_later_sighting_counts_where_no_reply_was_a_readable_mismatch() {
    let spoiled: [Step; 3] =
        [|named| named.uses_a_tool(), |named| named.breaks(), |named| named.tool_says(&named.call(&["set-task", "b"]))];
    for (n, spoil) in spoiled.into_iter().enumerate() {
        for at_stop in [false, true] {
            let home = Home::new();
            let named = Named::new(&home, &format!("session {n}"));
            spoil(&named);
            if n < 2 {
                named.says("prose");
            }
            named.says(BLOCK);
            assert_allowed(&if at_stop { named.stop(false) } else { named.before_tool() });
            assert_eq!(named.status(), "shown");
            assert_eq!(logged(&home), if at_stop { vec![observed(true, true)] } else { Vec::new() });
        }
    }
}

/// The lines that are read. A row of no interest in the host's own spelling hides what stands behind it in its line, unless
/// that begins as rows of the conversation do.
fn without_passed_over(transcript: &[u8]) -> Vec<u8> {
    let is_read = |line: &&[u8]| {
        let row = line.strip_suffix(b"\n").unwrap_or(line);
        let is_row = row.len() == line.len() || row.ends_with(b"}");
        !Transcript::is_passed_over(row) || !is_row || memmem::find(&row[1..], Transcript::ROW_START).is_some()
    };
    transcript.split_inclusive(|byte| *byte == b'\n').filter(is_read).collect::<Vec<_>>().concat()
}

/// A tool, or the end of a turn, is refused only where the model says `absent`; and there it is. The transcript is large
/// enough that each scan goes on where one before it has ended, if that still stands there.
#[test]
fn on_random_transcripts_only_what_the_model_calls_absent_is_refused() {
    let home = Home::new();
    let counts = [0; 3].map(Cell::new);
    let named = Named::new(&home, "random");
    // A turn, so that the Stop hook has something to store, and the name.
    let mut begun = fs::read(&named.session.path).unwrap();
    begun.extend(format!("{{\"type\":\"progress\",\"data\":\"{}\"}}\n", "x".repeat(300 << 10)).bytes());
    let fresh = fs::read(named.state_path()).unwrap();
    check(100, (transcript(), 0..100_usize), |(rows, percent)| {
        for len in [rows.0.len() * percent / 100, rows.0.len()] {
            let bytes = [&begun[..], &rows.0[..len]].concat();
            fs::write(&named.session.path, &bytes).unwrap();
            fs::write(named.state_path(), &fresh).unwrap();
            let (status, reason) = naive_name::check(&without_passed_over(&bytes), NAME);
            for output in [named.before_tool(), named.stop(false)] {
                prop_assert_eq!(refusal(&output).is_some(), status == "absent", "{:?} {:?}", status, reason);
            }
            prop_assert_eq!(named.state()["seen_for"].is_null(), status != "present");
            let known = ["absent", "present", "unavailable"].iter().position(|known| *known == status).unwrap();
            counts[known].update(|count| count + 1);
        }
        Ok(())
    });
    assert!(counts.iter().all(|count| count.get() > 8), "{counts:?}");
    let remembered = home.throughline(&["cache", "status", "--json"]).output().unwrap();
    let kinds = json_of(&remembered)["kinds"].clone();
    assert_eq!(kinds[3], json!({"about": "transcript", "files": 2, "bytes": kinds[3]["bytes"]}), "turns and names");
}
