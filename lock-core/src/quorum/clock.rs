use super::majority;

/// The cluster clock: the lower median of the known clocks of `nodes` nodes, in microseconds, or 0 if fewer than a majority of
/// them are known.
///
/// If all clocks are known, a minority of wrong ones cannot move it beyond the correct ones.
#[must_use]
pub fn cluster_clock(nodes: usize, known: impl IntoIterator<Item = u64>) -> u64 {
    let mut known: Vec<u64> = known.into_iter().collect();
    if known.len() < majority(nodes) {
        return 0;
    }
    known.sort_unstable();
    known[(known.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minority_of_wrong_clocks_does_not_move_it() {
        assert_eq!(cluster_clock(5, [100, 101, 102, 9000, 9001]), 102);
        assert_eq!(cluster_clock(5, [1, 2, 100, 101, 102]), 100);
        assert_eq!(cluster_clock(3, [100, 9000]), 100, "the lower one of two");
    }

    #[test]
    fn a_minority_of_known_clocks_is_none() {
        assert_eq!(cluster_clock(5, [100, 101]), 0);
        assert_eq!(cluster_clock(1, []), 0);
    }
}
