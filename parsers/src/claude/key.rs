//! Ids in sixteen bytes.

use crate::json::Value;
use crate::pack::{Pack, Packer, Unpacker};
use crate::text::Digest;
use crate::uuid::Uuid;

/// What an id is told by: a UUID is itself, of any other text there are sixteen bytes of its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(pub(super) u128);

impl Key {
    pub(super) const LEN: usize = 16;

    pub(super) fn of(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::digest(text), |uuid: Uuid| Self(uuid.0))
    }

    /// That of any value; none of `null`.
    pub(super) fn of_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::String(text) => Some(Self::of(&text.decode())),
            // Another text than any string has that tells an id.
            other => Some(Self::digest(&format!("\0{}", other.spelled()))),
        }
    }

    fn digest(text: &str) -> Self {
        let Digest(bytes) = Digest::of(text);
        Self(bytes[..Self::LEN].iter().fold(0, |key, byte| key << 8 | u128::from(*byte)))
    }
}

impl Pack for Key {
    fn pack(&self, packer: &mut Packer) {
        packer.raw(&self.0.to_be_bytes());
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self(u128::from_be_bytes(unpacker.raw(Self::LEN)?.try_into().ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::document;

    #[test]
    fn ids_are_told_apart() {
        let values = ["\"\"", "\"a\"", "\"7\"", "7", "true", "\"019c0000-0000-7000-8000-00000000000a\"", "{}"];
        let mut keys: Vec<_> =
            values.map(|value| Key::of_value(document(value.as_bytes()).unwrap_or(Value::Null))).into();
        assert!(keys.iter().all(Option::is_some));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), values.len());
        assert_eq!(Key::of("019c0000-0000-7000-8000-00000000000a").0 & 0xFF, 0xA);
        assert_ne!(Key::of("019C0000-0000-7000-8000-00000000000A"), Key::of("019c0000-0000-7000-8000-00000000000a"));
        assert_eq!(Key::of_value(Value::Null), None);
    }
}
