/// The order in which the locks of a set are taken, however they are written: by name, each once.
///
/// While a caller waits for a lock, all that it holds of its set comes before it in this order. So no two sets wait for each
/// other: of the callers in such a circle, the one that waits for the last name would have to hold a later one.
pub fn set_order<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<_> = names.into_iter().collect();
    // One order for everybody: of callers that wait for each other in a circle, one would wait for a name before one that it holds.
    names.sort_unstable();
    names.dedup();
    names
}

/// How many locks are kept of a batch that asked for them at once, in [`set_order`]: those before the first that was not granted.
/// That one is waited for. All behind it are released: a caller that waits for a lock must hold none that comes after it.
pub fn kept_of_batch(granted: impl IntoIterator<Item = bool>) -> usize {
    granted.into_iter().take_while(|granted| *granted).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_by_name_and_each_once() {
        assert_eq!(set_order(["user:7", "stock:42", "user:7", "stock:4"]), ["stock:4", "stock:42", "user:7"]);
    }

    #[test]
    fn locks_behind_the_first_that_was_not_granted_are_not_kept() {
        assert_eq!(kept_of_batch([true, true, false, true]), 2);
        assert_eq!(kept_of_batch([false, true]), 0);
        assert_eq!(kept_of_batch([true, true]), 2);
    }
}
