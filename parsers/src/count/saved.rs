//! A [`Tally`] as bytes. The numbers of types mean something only beside the table that they are of.

use super::{Count, Counting, NAME_CHARS, NAMES, Tally};
use crate::pack::{Pack, Packer, Unpacker};

impl Tally {
    /// Writes it.
    pub fn pack(&self, packer: &mut Packer) {
        let known: Vec<(usize, Count)> = self.known().collect();
        packer.number(known.len() as u64);
        for (n, count) in known {
            packer.number(n as u64);
            count.pack(packer);
        }
        let unknown: Vec<(&str, Count)> = self.unknown().collect();
        packer.number(unknown.len() as u64);
        for (name, count) in unknown {
            packer.counted(name.as_bytes());
            count.pack(packer);
        }
        self.unreadable.iter().for_each(|count| count.pack(packer));
    }

    /// Takes it up again, with the same table; `None` when it is none of this host.
    pub fn unpack<H: Counting>(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        let mut tally = Self::of::<H>();
        for _ in 0..unpacker.number()? {
            let n = unpacker.index().filter(|n| *n < tally.table.names.len())?;
            tally.counts[n] = Count::unpack(unpacker)?;
        }
        for _ in 0..unpacker.number().filter(|names| *names <= NAMES as u64 + 1)? {
            let name = String::unpack(unpacker).filter(|name| name.chars().count() <= NAME_CHARS)?;
            let index = tally.index_of_unknown(name.as_bytes());
            tally.counts[index] = Count::unpack(unpacker)?;
        }
        for count in &mut tally.unreadable {
            *count = Count::unpack(unpacker)?;
        }
        Some(tally)
    }

    /// Whether there were so many unknown types that not each of them has its name: which ones have one then depends on how
    /// the rows were read.
    pub fn is_full(&self) -> bool {
        self.unknown.len() >= NAMES
    }
}

impl Pack for Count {
    fn pack(&self, packer: &mut Packer) {
        packer.number(self.rows);
        packer.number(self.bytes);
    }

    fn unpack(unpacker: &mut Unpacker<'_>) -> Option<Self> {
        Some(Self { rows: unpacker.number()?, bytes: unpacker.number()? })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Name, Seen, Unreadable};
    use super::*;
    use crate::claude::Transcript;
    use crate::codex::EveryRow;
    use crate::row::RowRef;

    fn told(tally: &Tally) -> String {
        let (known, unknown): (Vec<_>, Vec<_>) = (tally.known().collect(), tally.unknown().collect());
        format!("{known:?} {unknown:?} {:?}", tally.unreadable())
    }

    fn see(tally: &mut Tally, row: &str, bytes: u64) {
        let at = RowRef { offset: 0, len: bytes };
        tally.see(&Seen::Row { name: Name { row: row.as_bytes(), inner: b"" }, at, row: () });
    }

    #[test]
    fn a_tally_that_was_saved_goes_on() {
        let mut tally = Tally::of::<EveryRow>();
        for (row, bytes) in [("turn_context", 7), ("compacted", 9), ("future", 3), ("", 5), ("turn_context", 2)] {
            see(&mut tally, row, bytes);
        }
        tally.see::<()>(&Seen::Unreadable(Unreadable::Spliced, 11));
        let mut packer = Packer::default();
        tally.pack(&mut packer);
        let bytes = packer.finish();
        let mut saved = Tally::unpack::<EveryRow>(&mut Unpacker::new(&bytes)).unwrap();
        assert_eq!(told(&saved), told(&tally));
        for tally in [&mut saved, &mut tally] {
            see(tally, "future", 1);
            see(tally, "another", 2);
        }
        assert_eq!(told(&saved), told(&tally));
        assert!((0..bytes.len()).all(|len| Tally::unpack::<EveryRow>(&mut Unpacker::new(&bytes[..len])).is_none()));
        // A number that the table of this host does not have.
        let beyond = [1, EveryRow::table().names().len() as u8 - 1, 1, 1, 0, 0, 0, 0, 0, 0, 0];
        assert!(Tally::unpack::<EveryRow>(&mut Unpacker::new(&beyond)).is_some());
        assert!(Tally::unpack::<Transcript>(&mut Unpacker::new(&beyond)).is_none());
    }

    #[test]
    fn a_tally_of_noise_says_so() {
        let mut tally = Tally::of::<EveryRow>();
        for n in 0..NAMES {
            assert!(!tally.is_full());
            see(&mut tally, &format!("noise {n}"), 1);
        }
        assert!(tally.is_full());
    }
}
