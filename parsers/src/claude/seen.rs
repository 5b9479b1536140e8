//! The uuids of a file's rows.

use std::collections::HashSet;

use super::key::Key;
use crate::pack::{Pack, Packer, Unpacker};

/// A set of uuids. What was saved stays as it was, sorted bytes: a transcript of hundreds of MB has so many that to take
/// them apart for a few new rows would cost more than the rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    saved: Vec<u8>,
    fresh: HashSet<Key>,
}

impl Seen {
    /// Adds one; false when it was there.
    pub(super) fn insert(&mut self, key: Key) -> bool {
        self.find(key).is_err() && self.fresh.insert(key)
    }

    /// Where it stands among those that were saved, or would.
    fn find(&self, key: Key) -> Result<usize, usize> {
        self.saved.as_chunks::<{ Key::LEN }>().0.binary_search(&key.0.to_be_bytes())
    }
}

impl Pack for Seen {
    fn pack(&self, packer: &mut Packer) {
        let mut fresh: Vec<_> = self.fresh.iter().copied().collect();
        fresh.sort_unstable();
        packer.number((self.saved.len() / Key::LEN + fresh.len()) as u64);
        let mut from = 0;
        for key in fresh {
            let to = self.find(key).unwrap_or_else(|place| place) * Key::LEN;
            packer.raw(&self.saved[from..to]);
            key.pack(packer);
            from = to;
        }
        packer.raw(&self.saved[from..]);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let bytes = unpacker.index()?.checked_mul(Key::LEN)?;
        let saved = unpacker.raw(bytes)?;
        let sorted = saved.as_chunks::<{ Key::LEN }>().0.is_sorted_by(|one, next| one < next);
        sorted.then(|| Self { saved: saved.to_vec(), fresh: HashSet::new() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn packed(seen: &Seen) -> Vec<u8> {
        let mut packer = Packer::default();
        seen.pack(&mut packer);
        packer.finish()
    }

    #[test]
    fn what_was_saved_is_still_there() {
        let (mut whole, mut resumed) = (Seen::default(), Seen::default());
        for n in 0..200_u128 {
            let key = Key(n.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835) % 128);
            assert_eq!(whole.insert(key), resumed.insert(key));
            assert_eq!(packed(&whole), packed(&resumed));
            if n % 7 == 0 {
                resumed = Seen::unpack(&mut Unpacker::new(&packed(&resumed))).unwrap();
            }
        }
    }

    #[test]
    fn what_is_no_set_is_none() {
        assert!(Seen::unpack(&mut Unpacker::new(&[1, 0])).is_none());
        assert!(Seen::unpack(&mut Unpacker::new(&[&[2][..], &[0; 32]].concat())).is_none());
        assert!(
            Seen::unpack(&mut Unpacker::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01])).is_none()
        );
    }
}
