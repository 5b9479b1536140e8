//! Names of rollout files.

use crate::uuid::Uuid;

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
}
