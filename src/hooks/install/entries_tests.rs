#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;

fn wanted(program: &str) -> Vec<Wanted> {
    vec![Wanted { event: "Stop", word: "stop", command: format!("{program} hook claude stop") }]
}

fn registered(text: &str) -> String {
    let changed = register(text, Host::Claude, &wanted("/bin/throughline"), &[]).unwrap();
    assert!(!changed.lines.is_empty());
    let again = register(&changed.text, Host::Claude, &wanted("/bin/throughline"), &[]).unwrap();
    assert_eq!((again.text, again.lines), (changed.text.clone(), Vec::<String>::new()));
    changed.text
}

fn unregistered(text: &str) -> String {
    unregister(text, Host::Claude).unwrap().text
}

const GROUP: &str = r#"{"hooks":[{"type":"command","command":"/bin/throughline hook claude stop","timeout":10}]}"#;

#[test]
fn a_document_without_hooks_gets_them_and_gives_them_back() {
    let entry = |indent: &str, unit: &str, newline: &str| {
        let lines = [
            (0, "\"hooks\": {"),
            (1, "\"Stop\": ["),
            (2, "{"),
            (3, "\"hooks\": ["),
            (4, "{"),
            (5, "\"type\": \"command\","),
            (5, "\"command\": \"/bin/throughline hook claude stop\","),
            (5, "\"timeout\": 10"),
            (4, "}"),
            (3, "]"),
            (2, "}"),
            (1, "]"),
            (0, "}"),
        ];
        lines.map(|(depth, line)| format!("{indent}{}{line}", unit.repeat(depth))).join(newline)
    };
    let (two, four, tab, crlf) =
        (entry("  ", "  ", "\n"), entry("    ", "    ", "\n"), entry("\t", "\t", "\n"), entry("  ", "  ", "\r\n"));
    let cases = [
        ("{}", format!("{{\n{two}\n}}")),
        ("{}\n", format!("{{\n{two}\n}}\n")),
        ("{\n  \"a\": 1\n}\n", format!("{{\n  \"a\": 1,\n{two}\n}}\n")),
        ("{\n    \"a\": [ 1,2 ]}", format!("{{\n    \"a\": [ 1,2 ],\n{four}}}")),
        (
            "{\n\t\"a\": 1, // one\n\t\"b\": 2 // two\n\t// three\n}",
            format!("{{\n\t\"a\": 1, // one\n\t\"b\": 2, // two\n\t// three\n{tab}\n}}"),
        ),
        ("{\r\n  \"a\": 1\r\n}\r\n", format!("{{\r\n  \"a\": 1,\r\n{crlf}\r\n}}\r\n")),
        ("{\n  \"a\": 1,\n}\n", format!("{{\n  \"a\": 1,\n{two},\n}}\n")),
        ("// c\n{\n  \"a\": 1, /* x */\n}\n// d", format!("// c\n{{\n  \"a\": 1, /* x */\n{two},\n}}\n// d")),
        ("{\n  // nothing yet\n}", format!("{{\n  // nothing yet\n{two}\n}}")),
        (r#"{"a":1}"#, format!(r#"{{"a":1,"hooks":{{"Stop":[{GROUP}]}}}}"#)),
        (r#"{ "a": 1 }"#, format!(r#"{{ "a": 1, "hooks":{{"Stop":[{GROUP}]}} }}"#)),
    ];
    for (old, new) in cases {
        assert_eq!(registered(old), new);
        assert_eq!(unregistered(&new), old);
    }
    for empty in ["", "\n", "  \n\n"] {
        assert_eq!(registered(empty), format!("{empty}{{\n{two}\n}}\n"));
        assert_eq!(unregistered(&registered(empty)), format!("{empty}{{}}\n"));
    }
    assert_eq!(registered("// only this"), format!("// only this\n{{\n{two}\n}}\n"));
}

#[test]
fn hooks_of_others_stay_and_come_first() {
    let other = r#"{"matcher": "", "hooks": [{"type": "command", "command": "say done"}]}"#;
    let cases = [
        (format!(r#"{{"hooks":{{"Stop":[{other}]}}}}"#), format!(r#"{{"hooks":{{"Stop":[{other}, {GROUP}]}}}}"#)),
        (
            format!("{{\n  \"hooks\": {{\n    \"Stop\": [{other}] // mine\n  }}\n}}"),
            format!("{{\n  \"hooks\": {{\n    \"Stop\": [{other}, {GROUP}] // mine\n  }}\n}}"),
        ),
        (
            format!("{{\"hooks\": {{\"PreToolUse\": [{other}]}}, \"z\": 1}}"),
            format!("{{\"hooks\": {{\"PreToolUse\": [{other}], \"Stop\":[{GROUP}]}}, \"z\": 1}}"),
        ),
    ];
    for (old, new) in cases {
        assert_eq!(registered(&old), new);
        assert_eq!(unregistered(&new), old);
    }
}

#[test]
fn an_entry_of_ours_is_brought_up_to_date_in_its_place() {
    let before = r#"{"hooks": {"Stop": [{"hooks": [
        {"type": "command", "command": "/old/throughline hook claude stop", "timeout": 30, "statusMessage": "…"}, // ours
        {"type": "command", "command": "say done"}
    ]}]}}"#;
    assert_eq!(registered(before), before.replace("/old/", "/bin/"));
    let asynchronous = before.replace("\"timeout\": 30", "\"async\": true");
    let synchronous = registered(&asynchronous);
    assert!(synchronous.contains("\"async\": false") && synchronous.contains("\"timeout\":10"), "{synchronous}");
    let twice = before.replace("say done", "'/b b/throughline' hook claude stop");
    let once = registered(&twice);
    assert_eq!(once.matches("hook claude stop").count(), 1);
    assert!(json::parse(&once).unwrap().is_some());
    let without = unregistered(before);
    assert!(without.contains("// ours\n") && without.contains("say done") && !without.contains("throughline"));
    json::parse(&without).unwrap();
}

#[test]
fn what_is_taken_out_leaves_what_is_somebody_s() {
    let ours = r#"{"type":"command","command":"/bin/throughline hook claude stop"}"#;
    let cases = [
        // A group with a matcher, or with a comment in it, is somebody's.
        (
            format!(r#"{{"hooks":{{"Stop":[{{"matcher":"x","hooks":[{ours}]}}]}}}}"#),
            r#"{"hooks":{"Stop":[{"matcher":"x","hooks":[]}]}}"#,
        ),
        (
            format!("{{\"hooks\":{{\"Stop\":[{{\"hooks\":[{ours} // mine\n]}}]}}}}"),
            "{\"hooks\":{\"Stop\":[{\"hooks\":[ // mine\n]}]}}",
        ),
        (format!("{{\"hooks\":{{\"Stop\":[// mine\n{{\"hooks\":[{ours}]}}]}}}}"), "{\"hooks\":{\"Stop\":[// mine\n]}}"),
        (format!(r#"{{"hooks":{{"Odd":5,"Stop":[7,{{"hooks":[{ours}]}}]}}}}"#), r#"{"hooks":{"Odd":5,"Stop":[7]}}"#),
        (format!(r#"{{"hooks":{{"Stop":[{{"hooks":[{ours},{ours}]}}],"X":[]}}}}"#), r#"{"hooks":{"X":[]}}"#),
    ];
    for (old, new) in cases {
        assert_eq!(unregistered(&old), new);
    }
    for nothing in ["", "{}", "// x", r#"{"hooks":{"Stop":[]}}"#] {
        assert_eq!(unregistered(nothing), nothing);
    }
}

#[test]
fn what_does_not_parse_or_has_another_shape_is_told() {
    for (text, why) in [
        ("{", "line 1"),
        ("{\n'a': 1}", "line 2"),
        ("{} {}", "line 1"),
        ("{\"a\": 1 \"b\": 2}", "line 1"),
        ("[]", "no object"),
        ("{\"hooks\": []}", "no object"),
        ("{\"hooks\": null}", "no object"),
        ("{\"hooks\": {}, \"hooks\": {}}", "twice"),
        ("{\"hooks\": {\"Stop\": {}}}", "no array"),
        ("{\"hooks\": {\"Stop\": [1]}}", "groups"),
        ("{\"hooks\": {\"Stop\": [{\"command\": \"x\"}]}}", "groups"),
        ("{\"hooks\": {\"Stop\": [{\"hooks\": [\"x\"]}]}}", "groups"),
    ] {
        let error = register(text, Host::Claude, &wanted("/t"), &[]).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn the_older_tool_is_found_for_the_events_asked_for() {
    let text = r#"{"hooks": {"Stop": [{"hooks": [
        {"type": "prompt", "prompt": "throughline process-turn"},
        {"type": "command", "command": "node", "args": ["/x/throughline.mjs", "process-turn"]}]}]}}"#;
    assert_eq!(older_tool(text, &["Stop"]), Ok(Some(("Stop", "process-turn"))));
    assert_eq!(older_tool(text, &["PostToolUse"]), Ok(None));
    assert_eq!(older_tool(&registered("{}"), &["Stop"]), Ok(None));
}

/// Documents with hooks of others, as text with space and comments wherever they may stand.
fn document() -> impl Strategy<Value = String> {
    let space =
        || prop_oneof![Just(""), Just(" "), Just("\n"), Just("\r\n  "), Just(" /* , } */ "), Just("// ] \"\n\t")];
    let entry = prop_oneof![
        Just(r#"{"command":"say done"}"#.to_owned()),
        Just(r#"{"type":"command","command":"/old/throughline hook claude stop"}"#.to_owned()),
        Just(r#"{"type":"prompt"}"#.to_owned()),
    ];
    let list = move |items: Vec<String>, spaces: Vec<&str>, last: bool, brackets: (char, char)| {
        let mut out = String::from(brackets.0);
        for (n, item) in items.iter().enumerate() {
            let comma = if n + 1 < items.len() || last { "," } else { "" };
            out += &format!("{}{item}{}{comma}", spaces[n % spaces.len()], spaces[(n + 1) % spaces.len()]);
        }
        format!("{out}{}{}", spaces[items.len() % spaces.len()], brackets.1)
    };
    let spaces = || prop::collection::vec(space(), 4);
    let group = (prop::collection::vec(entry, 0..3), spaces(), any::<bool>(), any::<bool>()).prop_map(
        move |(entries, spaces, last, matcher)| {
            let last = last && !entries.is_empty();
            let hooks = format!("\"hooks\":{}", list(entries, spaces.clone(), last, ('[', ']')));
            let members = if matcher { vec!["\"matcher\":\"\"".to_owned(), hooks] } else { vec![hooks] };
            list(members, spaces, last, ('{', '}'))
        },
    );
    (prop::collection::vec(group, 0..3), spaces(), any::<bool>(), 0..4).prop_map(move |(groups, spaces, last, kind)| {
        let stop = format!("\"Stop\":{}", list(groups.clone(), spaces.clone(), last && !groups.is_empty(), ('[', ']')));
        let events = match kind {
            0 => vec![],
            1 => vec![stop],
            2 => vec!["\"X\":[]".to_owned(), stop],
            _ => vec![stop, "\"X\":[]".to_owned()],
        };
        let hooks =
            format!("\"hooks\":{}", list(events.clone(), spaces.clone(), last && !events.is_empty(), ('{', '}')));
        let root = if kind == 3 { vec![hooks, "\"z\":1".to_owned()] } else { vec!["\"a\":{}".to_owned(), hooks] };
        format!("{}{}\n", spaces[0], list(root, spaces.clone(), last, ('{', '}')))
    })
}

/// What a document says, without our entries and without containers that are empty.
fn others(text: &str) -> Option<Json> {
    fn of(value: &Value<'_>) -> Option<Json> {
        match value {
            Value::Object(object) => {
                if command_of(object).is_some_and(|command| command::event_of_ours(command, Host::Claude).is_some()) {
                    return None;
                }
                let members = object.properties.iter();
                let members: serde_json::Map<_, _> =
                    members.filter_map(|member| Some((member.name.as_str().to_owned(), of(&member.value)?))).collect();
                (!members.is_empty()).then_some(Json::Object(members))
            }
            Value::Array(array) => {
                let elements: Vec<Json> = array.elements.iter().filter_map(of).collect();
                (!elements.is_empty()).then_some(Json::Array(elements))
            }
            Value::StringLit(text) => Some(text.value.as_ref().into()),
            _ => Some(Json::Null),
        }
    }
    of(&json::parse(text).unwrap().unwrap())
}

fn comments(text: &str) -> usize {
    text.matches("/* , } */").count() + text.matches("// ] \"").count()
}

proptest! {
    #[test]
    fn the_rest_of_any_document_stays(text in document()) {
        let new = registered_if_need_be(&text);
        prop_assert_eq!(others(&new), others(&text));
        prop_assert!(new.matches("/bin/throughline hook claude stop").count() == 1);
        let without = unregistered(&new);
        prop_assert_eq!(others(&without), others(&text));
        prop_assert!(!without.contains("throughline"));
        prop_assert_eq!(&unregistered(&without), &without);
        if !text.contains("throughline") {
            prop_assert_eq!(comments(&new), comments(&text));
            prop_assert_eq!(comments(&without), comments(&text));
        }
    }
}

fn registered_if_need_be(text: &str) -> String {
    register(text, Host::Claude, &wanted("/bin/throughline"), &[]).unwrap().text
}
