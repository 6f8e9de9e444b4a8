use super::majority;

/// The cluster clock: of the known clocks of `nodes` nodes, in microseconds, the highest that at least one correct clock has
/// reached if a minority of the nodes is wrong; but no more than the lower median. 0 if fewer than a majority are known.
///
/// So a minority of wrong clocks cannot move it ahead of the correct ones, however few are known. It can move it back if not all
/// are known.
pub fn cluster_clock(nodes: usize, known: impl IntoIterator<Item = u64>) -> u64 {
    let mut known: Vec<u64> = known.into_iter().collect();
    if known.len() < majority(nodes) {
        return 0;
    }
    // In order, the wrong ones are at the ends. The highest are left out, as many as may be wrong.
    known.sort_unstable();
    let wrong = nodes - majority(nodes);
    known[((known.len() - 1) / 2).min(known.len() - 1 - wrong)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minority_of_wrong_clocks_does_not_move_it() {
        assert_eq!(cluster_clock(5, [100, 101, 102, 9000, 9001]), 102);
        assert_eq!(cluster_clock(5, [1, 2, 100, 101, 102]), 100);
        assert_eq!(cluster_clock(3, [100, 9000]), 100, "the lower one of two");
        assert_eq!(cluster_clock(5, [100, 9000, 9001]), 100, "two of three may be wrong");
        assert_eq!(cluster_clock(5, [100, 101, 9000, 9001]), 101);
    }

    #[test]
    fn a_minority_of_known_clocks_is_none() {
        assert_eq!(cluster_clock(5, [100, 101]), 0);
        assert_eq!(cluster_clock(1, []), 0);
    }
}
