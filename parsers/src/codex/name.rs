//! Names of rollout files and the ids in them.

use std::fmt;
use std::str::FromStr;

use crate::json::Bad;
use crate::pack::{Pack, Packer, Unpacker};

/// A UUID in lowercase hex with hyphens; ordered as its text is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(u128);

impl Uuid {
    /// Length of its text in bytes.
    pub const TEXT_LEN: usize = 36;

    /// The UUID of version 7 of a moment, in milliseconds since the epoch, with these low bits (62 of them count).
    ///
    /// ```
    /// use throughline_parsers::codex::Uuid;
    /// assert_eq!(Uuid::v7(0x019c_0000_0000, 10).to_string(), "019c0000-0000-7000-8000-00000000000a");
    /// ```
    pub fn v7(ms: i64, low: u64) -> Self {
        let ms = u128::from(ms.unsigned_abs()) & 0xFFFF_FFFF_FFFF;
        Self(ms << 80 | 7 << 76 | 2 << 62 | u128::from(low & ((1 << 62) - 1)))
    }

    /// Whether it is of version 7: made from a time, so that of two the lesser is the older.
    pub fn is_v7(self) -> bool {
        self.0 >> 76 & 0xF == 7
    }
}

impl FromStr for Uuid {
    type Err = Bad;

    fn from_str(text: &str) -> Result<Self, Bad> {
        let text: &[u8; Self::TEXT_LEN] = text.as_bytes().try_into().map_err(|_| Bad)?;
        let mut id = 0;
        for (n, byte) in text.iter().enumerate() {
            let digit = match byte {
                b'-' if matches!(n, 8 | 13 | 18 | 23) => continue,
                _ if matches!(n, 8 | 13 | 18 | 23) => return Err(Bad),
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return Err(Bad),
            };
            id = id << 4 | u128::from(digit);
        }
        Ok(Self(id))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0;
        let group = |shift: u32, bits: u32| id >> shift & ((1 << bits) - 1);
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            group(96, 32),
            group(80, 16),
            group(64, 16),
            group(48, 16),
            group(0, 48)
        )
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Pack for Uuid {
    fn pack(&self, packer: &mut Packer) {
        packer.raw(&self.0.to_be_bytes());
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self(u128::from_be_bytes(unpacker.raw(16)?.try_into().ok()?)))
    }
}

/// What the name of a rollout file says: `rollout-YYYY-MM-DDThh-mm-ss-<thread>[_<rollout>].jsonl[.zst]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutName {
    /// The first UUID: the thread, unless the file itself says otherwise.
    pub thread: Uuid,
    /// The last UUID: this file among the files of its thread.
    pub rollout: Uuid,
    /// Whether it is a zstd stream.
    pub packed: bool,
}

impl RolloutName {
    /// Reads a file name; `None` for every other name. The time in it proves nothing and is not looked at.
    ///
    /// ```
    /// use throughline_parsers::codex::RolloutName;
    /// let name = RolloutName::parse("rollout-2026-01-05T10-00-00-019c0000-0000-7000-8000-000000000001.jsonl.zst").unwrap();
    /// assert!(name.packed && name.thread == name.rollout);
    /// assert_eq!(RolloutName::parse("rollout-2026-01-05T10-00-00-x.jsonl"), None);
    /// ```
    pub fn parse(name: &str) -> Option<Self> {
        let (plain, packed) = match name.strip_suffix(".zst") {
            Some(plain) => (plain, true),
            None => (name, false),
        };
        let stem = plain.strip_suffix(".jsonl")?.strip_prefix("rollout-")?;
        let (time, ids) = stem.split_at_checked("YYYY-MM-DDThh-mm-ss-".len())?;
        if !time
            .bytes()
            .zip("0000-00-00T00-00-00-".bytes())
            .all(|(byte, like)| if like == b'0' { byte.is_ascii_digit() } else { byte == like })
        {
            return None;
        }
        let (thread, rollout) = match ids.split_once('_') {
            Some((thread, rollout)) => (thread.parse().ok()?, rollout.parse().ok()?),
            None => (ids.parse().ok()?, ids.parse().ok()?),
        };
        Some(Self { thread, rollout, packed })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const A: &str = "019c0000-0000-7000-8000-00000000000a";
    const B: &str = "019c0000-0000-4000-8000-00000000000b";

    #[test]
    fn names() {
        let one = RolloutName::parse(&format!("rollout-2026-13-40T99-00-00-{A}.jsonl")).unwrap();
        assert_eq!((one.thread, one.rollout, one.packed), (A.parse().unwrap(), A.parse().unwrap(), false));
        let two = RolloutName::parse(&format!("rollout-2026-01-05T10-00-00-{A}_{B}.jsonl.zst")).unwrap();
        assert_eq!((two.rollout, two.packed), (B.parse().unwrap(), true));
        for odd in [
            format!("rollout-2026-01-05T10-00-00-{}.jsonl", A.to_uppercase()),
            format!("rollout-2026-01-05T10-00-00-{A}.jsonl~"),
            format!("rollout-2026-01-05T10-00-00-{A}_.jsonl"),
            format!("rollout-2026-01-05T10-00-00-123Z-{A}.jsonl"),
            format!("rollout-2026-01-05 10-00-00-{A}.jsonl"),
            format!(".rollout-2026-01-05T10-00-00-{A}.jsonl"),
            format!("{A}.jsonl"),
            "rollout-é".to_owned(),
        ] {
            assert_eq!(RolloutName::parse(&odd), None, "{odd}");
        }
    }

    #[test]
    fn uuids() {
        let id: Uuid = A.parse().unwrap();
        assert_eq!(id.to_string(), A);
        assert!(id.is_v7() && !B.parse::<Uuid>().unwrap().is_v7());
        assert_eq!("019c0000x0000-7000-8000-00000000000a".parse::<Uuid>(), Err(Bad));
        assert_eq!("019c0000-0000-7000-8000-00000000000-".parse::<Uuid>(), Err(Bad));
    }
}
