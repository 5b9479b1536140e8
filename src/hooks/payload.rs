//! What a host tells its hooks, as JSON on stdin.

use std::io::{self, ErrorKind, Read};

use serde_json::{Map, Value};

/// A payload: an object with the host's fields.
#[derive(Clone, Debug)]
pub struct Payload(Map<String, Value>);

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
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => Some(Self(fields)),
            _ => None,
        }
    }

    /// A field that is a text and not empty.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field)?.as_str().filter(|text| !text.is_empty())
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
    fn what_is_no_object_is_no_payload() {
        for text in ["", "[]", "{", "\"x\"", "{} {}"] {
            assert!(Payload::read(text.as_bytes()).unwrap().is_none(), "{text}");
        }
        let large = format!("{{\"session_id\":\"a\",\"prompt\":\"{}\"}}", "x}".repeat(200_000));
        assert!(Payload::read(large.as_bytes()).unwrap().is_some());
    }
}
