use std::time::Duration;

use lock_support::Dice;

/// The random numbers of a run, derived from its seed. Each purpose has a stream of its own, so that draws for one do not
/// change those for another.
pub(super) struct Rng(Dice);

impl Rng {
    /// The stream of a seed for one purpose.
    pub(super) fn new(seed: u64, purpose: &[u64]) -> Self {
        Self(Dice::new(purpose.iter().fold(splitmix64(seed), |seed, part| splitmix64(seed ^ part.wrapping_add(1)))))
    }

    /// A whole number from `min` to `max`.
    pub(super) fn between(&mut self, min: u64, max: u64) -> u64 {
        min + self.0.roll(max - min + 1)
    }

    /// A whole number from `-max` to `max`.
    pub(super) fn within(&mut self, max: i64) -> i64 {
        let sides = max.unsigned_abs() * 2;
        i64::try_from(self.between(0, sides)).unwrap_or_default() - max
    }

    /// A time from `min` to `max` milliseconds.
    pub(super) fn millis(&mut self, min: u64, max: u64) -> Duration {
        Duration::from_millis(self.between(min, max))
    }

    /// Whether an event occurs that has this probability in percent.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.0.roll(100) < percent
    }

    /// One of these values.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.0.index(from.len())]
    }
}

/// The output of splitmix64 for a state: unrelated to its input for all practical purposes, and always the same.
pub(super) fn splitmix64(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
