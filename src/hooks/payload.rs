//! What a host tells its hooks, as JSON on stdin.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};

use throughline_parsers::json::{self, Value};

/// A payload: an object with the host's fields, of which those count that are texts or flags, and the command of a tool.
///
/// The other fields hold what tools said, of any depth and with halves of characters where a text was cut: what a
/// transcript may hold must not keep a hook from its work.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    texts: BTreeMap<String, String>,
    flags: BTreeMap<String, bool>,
    /// `tool_input.command`
    command: Option<String>,
}

impl Payload {
    /// Reads a payload whole. A host that keeps its end open is not waited for once the object is complete. `None` when it
    /// is no object.
    ///
    /// # Errors
    /// The stream's.
    pub fn read(mut from: impl Read) -> io::Result<Option<Self>> {
        let (mut bytes, mut block) = (Vec::new(), [0; 64 << 10]);
        loop {
            match from.read(&mut block) {
                Ok(0) => return Ok(Self::parse(&bytes)),
                Ok(read) => bytes.extend_from_slice(&block[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if bytes.trim_ascii_end().ends_with(b"}")
                && let Some(payload) = Self::parse(&bytes)
            {
                return Ok(Some(payload));
            }
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let object = json::document(bytes).ok()?.object()?;
        let mut payload = Self::default();
        for (key, value) in object.members() {
            payload.take(key.decode().into_owned(), value);
        }
        Some(payload)
    }

    /// Takes a field. Of equal keys the last counts, whatever its value is.
    fn take(&mut self, key: String, value: Value<'_>) {
        if key == "tool_input" {
            let command = value.object().and_then(|input| input.fields(["command"])[0]);
            self.command = command.and_then(Value::text).map(Cow::into_owned);
        }
        self.texts.remove(&key);
        self.flags.remove(&key);
        match value {
            Value::String(text) => drop(self.texts.insert(key, text.decode().into_owned())),
            Value::Bool(flag) => drop(self.flags.insert(key, flag)),
            _ => {}
        }
    }

    /// A field that is a text and not empty.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.texts.get(field).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// A field that is true or false.
    pub fn flag(&self, field: &str) -> Option<bool> {
        self.flags.get(field).copied()
    }

    /// The command that a tool is to run, if that is what it does.
    pub fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Gives its parts one by one, and then waits for ever.
    struct KeptOpen(Vec<&'static [u8]>);

    impl Read for KeptOpen {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(!self.0.is_empty(), "nobody writes any more");
            self.0.remove(0).read(buffer)
        }
    }

    #[test]
    fn a_complete_object_is_not_waited_behind() {
        let parts: [&[u8]; 4] = [b"{\"session_id\": \"a\", \"x\": {}", b"", b"}", b""];
        let payload = Payload::read(KeptOpen([parts[0], parts[2]].to_vec())).unwrap().unwrap();
        assert_eq!(payload.text("session_id"), Some("a"));
        assert_eq!((payload.text("x"), payload.text("y")), (None, None));
    }

    #[test]
    fn what_other_fields_hold_does_not_matter() {
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        for other in [r#""\ud83d""#, r#""\udc00x""#, "1e999", &"9".repeat(400), &deep] {
            let payload = Payload::read(format!(r#"{{"session_id":"a","x":{other}}}"#).as_bytes()).unwrap();
            assert_eq!(payload.unwrap().text("session_id"), Some("a"), "{other}");
        }
        let payload =
            Payload::read(r#"{"x":"cut \ud83d","y":"a","y":"b","z":"a","z":null}"#.as_bytes()).unwrap().unwrap();
        assert_eq!(["x", "y", "z"].map(|field| payload.text(field)), [Some("cut \u{fffd}"), Some("b"), None]);
    }

    #[test]
    fn flags_and_the_command_of_a_tool_are_told() {
        let parse = |text: &str| Payload::parse(text.as_bytes()).unwrap();
        let payload = parse(
            r#"{"stop_hook_active":false,"a":true,"b":true,"b":"text","c":"text","c":false,"tool_input":{"command":"l\u0073","x":{"command":"y"}}}"#,
        );
        assert_eq!(
            ["stop_hook_active", "a", "b", "c", "d"].map(|field| payload.flag(field)),
            [Some(false), Some(true), None, Some(false), None]
        );
        assert_eq!((payload.text("b"), payload.text("c"), payload.command()), (Some("text"), None, Some("ls")));
        for none in [
            r#"{"command":"ls"}"#,
            r#"{"tool_input":{"command":1}}"#,
            r#"{"tool_input":{"command":"ls"},"tool_input":[]}"#,
        ] {
            assert_eq!(parse(none).command(), None, "{none}");
        }
    }

    #[test]
    fn what_is_no_object_is_no_payload() {
        for text in ["", "[]", "{", "\"x\"", "{} {}"] {
            assert!(Payload::read(text.as_bytes()).unwrap().is_none(), "{text}");
        }
        let large = format!("{{\"session_id\":\"a\",\"prompt\":\"{}\"}}", "x}".repeat(200_000));
        assert!(Payload::read(large.as_bytes()).unwrap().is_some());
    }
}
