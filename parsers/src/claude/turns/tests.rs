#![allow(clippy::unwrap_used)]

use super::*;

/// Rows, one second apart, each with a uuid of its own.
#[derive(Default)]
struct Rows {
    text: String,
    count: u32,
}

impl Rows {
    /// A row; `members` begin behind the comma.
    fn row(mut self, kind: &str, members: &str) -> Self {
        let n = self.count;
        self.count += 1;
        let time = format!("2026-07-01T00:00:{n:02}.000Z");
        let ids = format!(r#""parentUuid":null,"uuid":"{n}","timestamp":"{time}","sessionId":"s""#);
        self.text += &format!("{{{ids},\"type\":\"{kind}\",{members}}}\n");
        self
    }

    fn ask(self, text: &str) -> Self {
        self.user(text, "")
    }

    fn user(self, text: &str, more: &str) -> Self {
        self.row("user", &format!(r#""message":{{"role":"user","content":"{text}"}}{more}"#))
    }

    /// A block of a message, and why the message stopped.
    fn agent(self, id: &str, block: &str, stop: &str) -> Self {
        self.row("assistant", &format!(r#""message":{{"id":"{id}","content":[{block}],"stop_reason":{stop}}}"#))
    }

    fn say(self, id: &str, text: &str) -> Self {
        self.agent(id, &said(text), r#""end_turn""#)
    }

    /// A row of the host in the agent's place.
    fn synthetic(self, text: &str, stop: &str) -> Self {
        let message =
            format!(r#""message":{{"id":"x","model":"<synthetic>","content":"{text}","stop_reason":{stop}}}"#);
        self.row("assistant", &message)
    }

    fn aside(self, attachment: &str) -> Self {
        self.row("attachment", &format!(r#""attachment":{attachment}"#))
    }

    fn turns(&self) -> Turns {
        let mut turns = Turns::default();
        let mut offset = 0;
        for line in self.text.split_inclusive('\n') {
            for row in read_line(line.trim_end().as_bytes(), offset, true) {
                turns.apply(&row, |span| self.bytes(span)).unwrap();
            }
            offset += line.len() as u64;
        }
        turns
    }

    fn bytes(&self, span: Range<u64>) -> Option<&[u8]> {
        self.text.as_bytes().get(span.start as usize..span.end as usize)
    }

    /// What each turn was asked, its answer, and how it went.
    fn check(self, want: &[(&str, Option<&str>, State)]) {
        let turns = self.turns().since(0).unwrap();
        let state = |turn: &Turn| match turn {
            Turn { aborted: true, .. } => State::Aborted,
            Turn { failed: true, .. } => State::Failed,
            turn if turn.completed(false) => State::Completed,
            _ => State::Unfinished,
        };
        let bytes = |span| self.bytes(span);
        let found = turns
            .iter()
            .map(|turn| (turn.user_text(None, bytes).unwrap(), turn.answer_text(None, bytes).unwrap(), state(turn)));
        let want = want.iter().map(|(user, answer, state)| ((*user).to_owned(), answer.map(str::to_owned), *state));
        assert_eq!(found.collect::<Vec<_>>(), want.collect::<Vec<_>>(), "{}", self.text);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Completed,
    Unfinished,
    Aborted,
    Failed,
}
use State::*;

fn said(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

const THOUGHT: &str = r#"{"type":"thinking","thinking":"hidden"}"#;
const TOOL: &str = r#"{"type":"tool_use","name":"Bash"}"#;
const NOTHING: &str = "null";

fn rows() -> Rows {
    Rows::default()
}

#[test]
fn one_answer_is_several_rows_of_one_message() {
    let rows =
        rows().ask("ask").agent("m", THOUGHT, NOTHING).agent("m", &said("part one, "), NOTHING).say("m", "part two");
    rows.check(&[("ask", Some("part one, part two"), Completed)]);
}

#[test]
fn thinking_is_no_answer_and_no_step() {
    rows().ask("ask").agent("m", THOUGHT, "\"end_turn\"").check(&[("ask", None, Unfinished)]);
    rows().ask("ask").say("m", "answer").agent("n", THOUGHT, NOTHING).check(&[("ask", Some("answer"), Completed)]);
}

#[test]
fn a_tool_behind_the_text_leaves_the_turn_unfinished_until_the_host_says_otherwise() {
    let rows = rows().ask("ask").agent("m", &said("let me look"), NOTHING).agent("m", TOOL, NOTHING);
    assert!(rows.turns().since(0).unwrap()[0].completed(true));
    rows.check(&[("ask", Some("let me look"), Unfinished)]);
}

#[test]
fn why_a_message_stopped_tells_whether_it_was_the_last() {
    for (stop, state) in [
        ("null", Completed),
        ("\"max_tokens\"", Completed),
        ("\"refusal\"", Completed),
        ("\"stop_sequence\"", Completed),
        ("\"tool_use\"", Unfinished),
        ("\"pause_turn\"", Unfinished),
        ("7", Unfinished),
    ] {
        rows().ask("ask").agent("m", &said("answer"), stop).check(&[("ask", Some("answer"), state)]);
    }
    // The last that is given counts.
    let rows = rows().ask("ask").agent("m", &said("answer"), "\"tool_use\"").say("m", "!").agent("m", THOUGHT, NOTHING);
    rows.check(&[("ask", Some("answer!"), Completed)]);
}

#[test]
fn tool_results_are_no_prompts() {
    let result = r#""message":{"role":"user","content":[{"type":"tool_result","content":"out"}]}"#;
    let rows = rows().ask("ask").agent("m", TOOL, NOTHING).row("user", result).say("n", "done");
    rows.check(&[("ask", Some("done"), Completed)]);
}

#[test]
fn what_the_host_says_for_the_user_is_a_prompt_only_if_the_agent_acts_on_it() {
    let noted = r#","isMeta":true,"origin":{"kind":"task-notification"}"#;
    let rows = rows()
        .ask("ask")
        .say("m", "one")
        .user("a skill", r#","isMeta":true"#)
        .user("a body", r#","sourceToolUseID":"t""#);
    let rows = rows
        .say("n", "two")
        .user("job done", noted)
        .say("o", "three")
        .user("Stop hook feedback:\\n- more", r#","isMeta":true"#);
    rows.check(&[
        ("ask", Some("two"), Completed),
        ("job done", Some("three"), Completed),
        ("Stop hook feedback:\n- more", None, Unfinished),
    ]);
}

#[test]
fn asides_join_what_the_turn_was_asked() {
    let queued = |text: &str| format!(r#"{{"type":"queued_command","commandMode":"prompt","prompt":"{text}"}}"#);
    let hook = r#"{"type":"hook_additional_context","hookEvent":"Stop","content":["see","there"]}"#;
    let rows = rows()
        .aside(&queued("too early"))
        .ask("ask")
        .aside(&queued("also this"))
        .say("m", "one")
        .aside(hook)
        .say("n", "two");
    let (turns, bytes) = (rows.turns().since(0).unwrap(), |span| rows.bytes(span));
    let first = Some(turns[0].replies[0].index);
    assert_eq!(turns[0].user_text(first, bytes).unwrap(), "see\nthere");
    assert_eq!(turns[0].answer_text(first, bytes).unwrap().unwrap(), "two");
    let last = Some(turns[0].replies[1].index);
    assert_eq!(turns[0].user_text(last, bytes).unwrap(), "ask");
    assert_eq!(turns[0].answer(last), None);
    rows.check(&[("ask\n\nalso this\n\nsee\nthere", Some("two"), Completed)]);
}

#[test]
fn an_interrupt_aborts_a_turn_that_had_not_come_to_its_end() {
    const STOPPED: &str = "[Request interrupted by user for tool use]";
    rows().ask("ask").agent("m", &said("so far"), NOTHING).ask(STOPPED).say("n", "late").check(&[(
        "ask",
        Some("so far"),
        Aborted,
    )]);
    rows().ask("ask").say("m", "answer").ask(STOPPED).check(&[("ask", Some("answer"), Completed)]);
    rows().ask("ask").synthetic("so far", "\"stop_sequence\"").ask(STOPPED).check(&[("ask", Some("so far"), Aborted)]);
    rows().ask(STOPPED).check(&[]);
}

#[test]
fn an_error_of_the_host_is_no_answer() {
    rows().ask("ask").synthetic("API Error: 529", NOTHING).check(&[("ask", None, Failed)]);
    rows().ask("ask").synthetic("API Error: 529", NOTHING).say("m", "answer").check(&[(
        "ask",
        Some("answer"),
        Completed,
    )]);
    rows().ask("ask").say("m", "part").synthetic("You've reached your", NOTHING).check(&[(
        "ask",
        Some("part"),
        Failed,
    )]);
    rows().ask("ask").say("m", "API Error: how").check(&[("ask", Some("API Error: how"), Completed)]);
    rows().ask("ask").say("m", "answer").synthetic("No response requested.", NOTHING).check(&[(
        "ask",
        Some("answer"),
        Completed,
    )]);
}

#[test]
fn rows_of_others_are_passed_but_counted() {
    let other = r#""message":{"content":"of another"},"sessionId":"other""#;
    let side = r#""message":{"content":"aside"},"isSidechain":true"#;
    let mate = r#""message":{"content":"mate"},"teamName":"t""#;
    let summary = r#","isCompactSummary":true"#;
    let rows =
        rows().ask("ask").row("assistant", other).row("assistant", side).row("assistant", mate).user("so far", summary);
    let rows = rows.say("m", "answer");
    assert_eq!(rows.turns().since(0).unwrap()[0].replies[0].index, 4);
    rows.check(&[("ask", Some("answer"), Completed)]);
}

#[test]
fn a_repeated_row_counts_once_and_has_an_index() {
    let mut rows = rows().ask("ask").say("m", "answer");
    rows.text = rows.text.repeat(2);
    let rows = rows.ask("more").say("n", "again");
    assert_eq!(rows.turns().since(1).unwrap()[0].answer(None).unwrap().index, 5);
    rows.check(&[("ask", Some("answer"), Completed), ("more", Some("again"), Completed)]);
}

#[test]
fn a_marker_is_the_answer_or_its_last_row() {
    let turns = rows().ask("ask").say("m", "one ").say("m", "two\\n").turns().since(0).unwrap();
    let says = |text| turns[0].says(crate::text::Digest::of_body(text));
    assert_eq!(["one two", "two", "one", "ask", ""].map(says), [true, true, false, false, false]);
}

#[test]
fn damage_to_what_was_saved_is_none() {
    let rows = rows().ask("ask").say("m", "answer").ask("more").say("m", "again");
    let mut packer = Packer::default();
    rows.turns().pack(&mut packer);
    let bytes = packer.finish();
    for len in 0..bytes.len() {
        assert!(Turns::unpack(&mut Unpacker::new(&bytes[..len])).is_none(), "cut at {len}");
    }
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x55;
        // It may be another state, but nothing breaks.
        let _other = Turns::unpack(&mut Unpacker::new(&bytes)).and_then(|turns| turns.since(0));
    }
}
