//! A figure over several rounds.

use std::time::Duration;

use serde::Serialize;

/// The median, minimum and maximum of the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// The spread of the rounds, if there are any.
    #[must_use]
    pub fn of(rounds: &[f64]) -> Option<Self> {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
        Some(Self { median, min, max })
    }

    /// The spread of the ratios, round by round: what disturbed one of a pair has probably disturbed the other.
    #[must_use]
    pub fn of_ratios(rounds: &[f64], against: &[f64]) -> Option<Self> {
        let ratios: Vec<f64> = rounds.iter().zip(against).map(|(one, other)| one / other).collect();
        Self::of(&ratios).filter(|_| ratios.iter().all(|ratio| ratio.is_finite()))
    }
}

/// The median, in seconds.
pub(super) fn p50(times: Vec<Duration>) -> f64 {
    lock_support::median(times).as_secs_f64()
}

/// The 99th percentile, in seconds.
pub(super) fn p99(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() - 1 - times.len() / 100].as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_rounds_lies_between_two() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(spread, Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn one_in_a_hundred_is_beyond_the_99th_percentile() {
        let times: Vec<_> = (1..=200).rev().map(Duration::from_secs).collect();
        assert_eq!(p99(times), 198.0);
        assert_eq!(p99(vec![Duration::from_secs(3)]), 3.0);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let ratios = Spread::of_ratios(&[1.0, 20.0, 3.0], &[2.0, 40.0, 6.0]);
        assert_eq!(ratios, Some(Spread { median: 0.5, min: 0.5, max: 0.5 }));
        assert_eq!(Spread::of_ratios(&[1.0], &[0.0]), None);
        assert_eq!(Spread::of_ratios(&[0.0, 0.0], &[0.0, 1.0]), None);
    }
}
