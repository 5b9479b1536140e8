//! The hook at the end of a turn.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::{BLOCK, Named, assert_allowed, assert_refused, assert_unchecked, log, logged, missing, observed, refusal};
use crate::home::Home;
use crate::hooks::{hook, receipts, run, stored};

#[test]
fn the_end_of_a_turn_is_refused_five_times_and_then_let_go_until_the_user_s_next() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    named.says("I begin.");
    let (observed, refused) = (observed(true, false), named.record("stop", "absent", "refused"));
    for turn in 0..2 {
        for n in 0..5 {
            assert_refused(&named.stop(n > 0));
            assert_eq!(logged(&home)[14 * turn + 2 * n..], [observed.clone(), refused.clone()]);
        }
        for _ in 0..2 {
            assert_unchecked(&named.stop(true), "let_go");
        }
        let let_go = [observed.clone(), named.record("stop", "absent", "let_go")];
        assert_eq!(logged(&home)[14 * turn + 10..], [&let_go[..], &let_go].concat());
    }
    assert_eq!(named.status(), "pending");
    named.retry();
    named.says(BLOCK);
    assert_allowed(&named.stop(false));
    assert_allowed(&named.stop(true));
    assert_eq!(named.status(), "shown");
    let last = log(&home).last(2);
    assert!(last[0].contains(r#""observed":{"required":true,"present":true}"#), "{}", last[0]);
    assert!(last[1].contains(r#""observed":{"required":false,"present":true}"#), "{}", last[1]);
}

#[test]
fn the_current_observation_alone_decides() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    named.says("I begin.");
    assert_refused(&named.stop(false));
    assert_eq!(named.state()["remediation"], 1);
    // The agent asks anew, and what it says then cannot be read.
    named.retry();
    named.breaks();
    assert_unchecked(&named.stop(true), "corrupt_row");
    assert_eq!(logged(&home)[2..], [missing("corrupt_row"), named.record("stop", "unavailable", "corrupt_row")]);
    assert_unchecked(&named.before_tool(), "corrupt_row");
    // A readable mismatch holds again.
    named.retry();
    named.says("I go on.");
    assert_refused(&named.stop(true));
    assert_eq!(named.state()["remediation"], 2);
    // A host that does not tell whether a Stop hook was at work must not be held for ever.
    let mut payload = named.stop_payload(true);
    payload.as_object_mut().unwrap().remove("stop_hook_active");
    let stop =
        || refusal(&run(&mut hook(&home, &["claude", "stop", "--session-name"]), payload.to_string().as_bytes()));
    assert_eq!((0..6).filter(|_| stop().is_some()).count(), 3);
}

#[test]
fn without_its_option_the_stop_hook_observes_and_refuses_nothing() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    named.says("I begin.");
    assert_allowed(&named.stop_with(&["claude", "stop"], false));
    assert_eq!(logged(&home), [observed(true, false)]);
    named.retry();
    named.says(BLOCK);
    assert_allowed(&named.stop_with(&["claude", "stop"], false));
    assert_eq!((logged(&home)[1..].to_vec(), named.status()), (vec![observed(true, true)], json!("shown")));
}

#[test]
fn what_is_stored_does_not_depend_on_the_check() {
    let home = Home::new();
    let named = Named::new(&home, "s");
    named.session.say("m2", "I have begun.");
    assert_refused(&named.stop(false));
    assert_eq!((stored(&home).len(), receipts(&home).len()), (2, 1));
    // A state that cannot be used is the check's trouble alone.
    fs::write(named.state_path(), "x").unwrap();
    named.session.turn(3);
    assert_unchecked(&named.stop(false), "state");
    assert_eq!((stored(&home).len(), receipts(&home).len()), (4, 2));
    assert_eq!(logged(&home)[2..], [named.record("stop", "error", "state")]);
    // Where nothing can be stored, nothing is checked.
    fs::set_permissions(home.receipts().path(), Permissions::from_mode(0o644)).unwrap();
    named.session.turn(4);
    assert_eq!(named.stop(false).status.code(), Some(1));
    assert_eq!(logged(&home).len(), 3);
    fs::set_permissions(home.receipts().path(), Permissions::from_mode(0o600)).unwrap();
    // A log that cannot be written is nobody's trouble.
    fs::remove_file(log(&home).path()).unwrap();
    fs::create_dir(log(&home).path()).unwrap();
    assert_unchecked(&named.stop(false), "state");
    assert_eq!(receipts(&home).len(), 3);
}
