//! Values as compact bytes, for states that are saved and taken up again.
//!
//! What is written so is read back only in the same order. Reading never trusts a byte: where what stands there cannot be
//! the value that is asked for, the answer is `None`.
//!
//! ```
//! use throughline_parsers::pack::{Pack, Packer, Unpacker};
//! let mut packer = Packer::default();
//! packer.number(300);
//! Some("text".to_owned()).pack(&mut packer);
//! let bytes = packer.finish();
//! let mut unpacker = Unpacker::new(&bytes);
//! assert_eq!(unpacker.number(), Some(300));
//! assert_eq!(Option::unpack(&mut unpacker), Some(Some("text".to_owned())));
//! assert!(unpacker.is_at_end());
//! ```

use crate::text::Digest;

/// A value that can be saved.
pub trait Pack: Sized {
    /// Writes it.
    fn pack(&self, packer: &mut Packer);
    /// Reads it; `None` when no such value stands there.
    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self>;
}

/// Bytes that are written.
#[derive(Debug, Default)]
pub struct Packer {
    bytes: Vec<u8>,
}

impl Packer {
    /// A packer with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// A number: small ones take few bytes.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// A number that can be negative.
    pub fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63).cast_unsigned());
    }

    /// Bytes, as many as whoever reads them will ask for.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes with their count in front.
    pub fn counted(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.raw(bytes);
    }

    /// Values with their count in front.
    pub fn all<T: Pack>(&mut self, values: &[T]) {
        self.number(values.len() as u64);
        values.iter().for_each(|value| value.pack(self));
    }

    /// What was written.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Bytes that are read.
#[derive(Clone, Debug)]
pub struct Unpacker<'b> {
    bytes: &'b [u8],
}

impl<'b> Unpacker<'b> {
    /// Reads these bytes.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    /// A number.
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if *byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A number that can be negative.
    pub fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// So many bytes.
    pub fn raw(&mut self, count: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(bytes)
    }

    /// Bytes with their count in front.
    pub fn counted(&mut self) -> Option<&'b [u8]> {
        let count = usize::try_from(self.number()?).ok()?;
        self.raw(count)
    }

    /// A place in memory: a number that one can have.
    pub fn index(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    /// Values with their count in front.
    pub fn all<T: Pack>(&mut self) -> Option<Vec<T>> {
        let count = self.index()?;
        // A count that is damaged must not ask for memory: every value takes a byte at least.
        let mut values = Vec::with_capacity(count.min(self.bytes.len()));
        for _ in 0..count {
            values.push(T::unpack(self)?);
        }
        Some(values)
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    /// Whether everything has been read.
    pub fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl Pack for u64 {
    fn pack(&self, packer: &mut Packer) {
        packer.number(*self);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        unpacker.number()
    }
}

impl Pack for i64 {
    fn pack(&self, packer: &mut Packer) {
        packer.signed(*self);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        unpacker.signed()
    }
}

impl Pack for bool {
    fn pack(&self, packer: &mut Packer) {
        packer.number(u64::from(*self));
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        match unpacker.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Pack for String {
    fn pack(&self, packer: &mut Packer) {
        packer.counted(self.as_bytes());
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(str::from_utf8(unpacker.counted()?).ok()?.to_owned())
    }
}

impl Pack for Digest {
    fn pack(&self, packer: &mut Packer) {
        packer.raw(&self.0);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self(unpacker.raw(32)?.try_into().ok()?))
    }
}

impl<T: Pack> Pack for Option<T> {
    fn pack(&self, packer: &mut Packer) {
        self.is_some().pack(packer);
        if let Some(value) = self {
            value.pack(packer);
        }
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(match bool::unpack(unpacker)? {
            true => Some(T::unpack(unpacker)?),
            false => None,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let signed = [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN];
        let mut packer = Packer::default();
        packer.all(&numbers);
        packer.all(&signed);
        let bytes = packer.finish();
        let mut unpacker = Unpacker::new(&bytes);
        assert_eq!(unpacker.all::<u64>().unwrap(), numbers);
        assert_eq!(unpacker.all::<i64>().unwrap(), signed);
        assert!(unpacker.is_at_end());
    }

    #[test]
    fn what_cannot_be_the_value_is_none() {
        assert_eq!(Unpacker::new(&[0x80]).number(), None);
        assert_eq!(Unpacker::new(&[0xFF; 9]).number(), None);
        let mut too_large = [0xFF; 10];
        too_large[9] = 0x02;
        assert_eq!(Unpacker::new(&too_large).number(), None);
        assert_eq!(bool::unpack(&mut Unpacker::new(&[2])), None);
        assert_eq!(String::unpack(&mut Unpacker::new(&[2, 0xC3, 0x28])), None);
        assert_eq!(String::unpack(&mut Unpacker::new(&[5, b'a'])), None);
        // A count of which there cannot be so many takes no memory.
        assert_eq!(Unpacker::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]).all::<u64>(), None);
    }
}
