use std::collections::BTreeSet;

/// What the caller of a set of locks saw of it.
#[derive(Clone, Debug, Default)]
pub struct SetSeen {
    /// Who it was.
    pub caller: String,
    /// The names that it asked for.
    pub wanted: BTreeSet<String>,
    /// Those that it was granted, if it was granted any.
    pub granted: BTreeSet<String>,
    /// Whether the lock that it looked at was valid, in the order in which it looked at them, one after another and again.
    pub valid: Vec<bool>,
}

/// A set is granted whole or not at all, and the loss of one lock is the loss of all, at once.
#[must_use]
pub fn sets_are_all_or_nothing<'a>(sets: impl IntoIterator<Item = &'a SetSeen>) -> Vec<String> {
    let mut violations = Vec::new();
    for SetSeen { caller, wanted, granted, valid } in sets {
        if !granted.is_empty() && granted != wanted {
            violations.push(format!("a set was granted in part: {granted:?} of {wanted:?} ({caller})"));
        }
        if !valid.is_sorted_by(|earlier, later| *earlier || !later) {
            violations.push(format!("a set was lost in part: {wanted:?} were valid like this: {valid:?} ({caller})"));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(granted: &[&str], valid: &[bool]) -> usize {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let set = SetSeen {
            caller: "a test".into(),
            wanted: names(&["a", "b"]),
            granted: names(granted),
            valid: valid.to_vec(),
        };
        sets_are_all_or_nothing([&set]).len()
    }

    // mutant: several-locks
    #[test]
    fn a_set_that_is_granted_in_part_is_found() {
        assert_eq!(found(&["a", "b"], &[]), 0);
        assert_eq!(found(&[], &[]), 0, "not granted");
        assert_eq!(found(&["a"], &[]), 1);
        assert_eq!(found(&["a", "c"], &[]), 1, "another one");
    }

    // mutant: several-locks
    #[test]
    fn a_set_that_is_lost_in_part_is_found() {
        let both = ["a", "b"];
        assert_eq!(found(&both, &[true, true, true, false, false, false]), 0, "it was lost between two looks");
        assert_eq!(found(&both, &[false, true]), 1, "the other one is still valid");
        assert_eq!(found(&both, &[true, false, true, false]), 1);
    }
}
