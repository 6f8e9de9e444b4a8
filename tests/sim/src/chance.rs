use std::time::Duration;

use lock_support::Dice;

/// Everything that is left to chance in a run, from its seed. Streams for different purposes do not disturb each other.
pub(super) struct Chance(Dice);

impl Chance {
    /// The stream of a seed for one purpose.
    pub(super) fn new(seed: u64, purpose: &[u64]) -> Self {
        Self(Dice::new(purpose.iter().fold(mix(seed), |seed, part| mix(seed ^ part.wrapping_add(1)))))
    }

    /// A whole number from `least` to `most`.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.roll(most - least + 1)
    }

    /// A whole number from `-most` to `most`.
    pub(super) fn around(&mut self, most: i64) -> i64 {
        let sides = most.unsigned_abs() * 2;
        i64::try_from(self.between(0, sides)).unwrap_or_default() - most
    }

    /// A time from `least` to `most` milliseconds.
    pub(super) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    /// True so many times in a hundred.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.0.roll(100) < percent
    }

    /// One of these.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.0.index(from.len())]
    }
}

/// A number that has nothing to see with `number`, and is the same every time (splitmix64).
pub(super) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
