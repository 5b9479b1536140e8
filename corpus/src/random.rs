//! Random numbers that are the same everywhere: splitmix64.

/// A source of random numbers.
pub struct Random(u64);

impl Random {
    /// The source of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A source of its own for the part with this number, whatever was drawn before from others.
    pub fn part(seed: u64, number: u64) -> Self {
        let mut random = Self(seed);
        let base = random.bits();
        Self(base ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is above 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `first` to `last`.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// A number from `first` (at least 1) to about `last`: as often between 1 and 10 as between 10 and 100.
    pub fn magnitude(&mut self, first: u64, last: u64) -> u64 {
        let (first, last) = (first as f64, last.max(first) as f64);
        let unit = self.bits() as f64 / u64::MAX as f64;
        (first * (last / first).powf(unit)) as u64
    }

    /// True so many times of a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len() as u64) as usize]
    }

    /// A version 7 UUID of this time in milliseconds.
    pub fn uuid(&mut self, at: i64) -> String {
        let [high, low] = [self.bits(), self.bits()];
        let time = at as u64 & 0xffff_ffff_ffff;
        format!(
            "{:08x}-{:04x}-7{:03x}-{:04x}-{:012x}",
            time >> 16,
            time & 0xffff,
            high & 0xfff,
            0x8000 | (high >> 16 & 0x3fff),
            low & 0xffff_ffff_ffff
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_source() {
        let draw = |mut random: Random| [random.bits(), random.below(10), random.magnitude(1, 1000)];
        assert_eq!(draw(Random::new(1)), draw(Random::new(1)));
        assert_ne!(draw(Random::part(1, 2)), draw(Random::part(1, 3)));
    }

    #[test]
    fn numbers_stay_in_their_bounds() {
        let mut random = Random::new(7);
        for _ in 0..1000 {
            assert!((3..=5).contains(&random.between(3, 5)));
            assert!((10..=1000).contains(&random.magnitude(10, 1000)));
        }
    }

    #[test]
    fn identifiers_are_of_version_7_and_sort_by_time() {
        let mut random = Random::new(7);
        let (early, late) = (random.uuid(1_700_000_000_000), random.uuid(1_800_000_000_000));
        assert_eq!((early.len(), &early[14..15]), (36, "7"));
        assert!(early < late);
    }
}
