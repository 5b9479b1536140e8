//! The ids of threads, turns and rows.

use std::fmt;
use std::str::FromStr;

use crate::json::Bad;
use crate::pack::{Pack, Packer, Unpacker};

/// A UUID in lowercase hex with hyphens; ordered as its text is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub(crate) u128);

impl Uuid {
    /// Length of its text in bytes.
    pub const TEXT_LEN: usize = 36;

    /// The UUID of version 7 of a moment, in milliseconds since the epoch, with these low bits (62 of them count).
    ///
    /// ```
    /// use throughline_parsers::uuid::Uuid;
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
        let mut text = [b'-'; 36];
        let digits = text.iter_mut().enumerate().filter(|(at, _)| !matches!(at, 8 | 13 | 18 | 23));
        for (n, (_, digit)) in digits.enumerate() {
            *digit = b"0123456789abcdef"[(self.0 >> (124 - 4 * n)) as usize & 15];
        }
        // Hex digits and hyphens are ASCII.
        f.write_str(str::from_utf8(&text).map_err(|_| fmt::Error)?)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const A: &str = "019c0000-0000-7000-8000-00000000000a";
    const B: &str = "019c0000-0000-4000-8000-00000000000b";

    #[test]
    fn uuids() {
        let id: Uuid = A.parse().unwrap();
        assert_eq!(id.to_string(), A);
        assert!(id.is_v7() && !B.parse::<Uuid>().unwrap().is_v7());
        assert_eq!("019c0000x0000-7000-8000-00000000000a".parse::<Uuid>(), Err(Bad));
        assert_eq!("019c0000-0000-7000-8000-00000000000-".parse::<Uuid>(), Err(Bad));
    }
}
