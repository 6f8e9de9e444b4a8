/// A counter behind a fence, as a database would keep it. An increment is a read and a write with work in between, and both
/// claim the fence. A claim with a larger token in between makes the write fail; without the claims, the write would overwrite
/// the newer one.
#[derive(Clone, Debug, Default)]
pub struct Register {
    fence: u64,
    value: u64,
    writes: Vec<Write>,
}

/// A write that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The token of its writer.
    pub token: u64,
    /// The value that was written.
    pub value: u64,
}

impl Register {
    /// Claims the fence, and reads the value. `None` if a larger token has claimed the fence.
    pub fn read(&mut self, token: u64) -> Option<u64> {
        self.claim(token).then_some(self.value)
    }

    /// Claims the fence again, and overwrites the value. False if a larger token has claimed the fence.
    pub fn write(&mut self, token: u64, value: u64) -> bool {
        let accepted = self.claim(token);
        if accepted {
            self.value = value;
            self.writes.push(Write { token, value });
        }
        accepted
    }

    /// The violations, if every writer added one to the value that it had read.
    #[must_use]
    pub fn violations(&self, resource: &str) -> Vec<String> {
        no_update_is_lost(resource, self.value, &self.writes)
    }

    fn claim(&mut self, token: u64) -> bool {
        let accepted = token >= self.fence;
        if accepted {
            self.fence = token;
        }
        accepted
    }
}

/// No update of a counter is lost: each write adds one to the value before it, with a larger token than the write before it.
#[must_use]
pub fn no_update_is_lost(resource: &str, value: u64, writes: &[Write]) -> Vec<String> {
    let mut violations = Vec::new();
    if usize::try_from(value) != Ok(writes.len()) {
        violations.push(format!("updates of {resource} are lost: it is {value} after {} writes", writes.len()));
    }
    let before = std::iter::once(0).chain(writes.iter().map(|write| write.value));
    for (before, write) in before.zip(writes).filter(|(before, write)| write.value != before + 1) {
        violations.push(format!("an update was lost: {write:?} of {resource} overwrote {before}"));
    }
    for pair in writes.windows(2).filter(|pair| pair[0].token >= pair[1].token) {
        violations.push(format!(
            "{resource} was written with a token that is not larger than the one before: {:?}, {:?}",
            pair[0], pair[1]
        ));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_holders_with_the_same_token_lose_an_update() {
        let mut register = Register::default();
        let (one, other) = (register.read(7).unwrap(), register.read(7).unwrap());
        assert!(register.write(7, one + 1) && register.write(7, other + 1));
        assert_eq!(register.violations("r").len(), 3, "the count, the overwritten value, and the token");
    }

    #[test]
    fn a_stale_holder_is_refused() {
        let mut register = Register::default();
        assert_eq!((register.read(7), register.read(8)), (Some(0), Some(0)));
        assert_eq!(register.read(7), None);
        assert!(!register.write(7, 1));
        assert!(register.write(8, 1));
        assert_eq!(register.violations("r"), Vec::<String>::new());
    }

    #[test]
    fn a_lost_update_is_found() {
        let lost = |value, writes: &[(u64, u64)]| {
            let writes: Vec<_> = writes.iter().map(|(token, value)| Write { token: *token, value: *value }).collect();
            no_update_is_lost("r", value, &writes).len()
        };
        assert_eq!(lost(2, &[(1, 1), (2, 2)]), 0);
        assert_eq!(lost(1, &[(1, 1), (2, 1)]), 2, "the count, and the overwritten value");
        assert_eq!(lost(2, &[(2, 1), (1, 2)]), 1, "the smaller token came later");
        assert_eq!(lost(2, &[(1, 1), (1, 2)]), 1, "one token wrote twice");
        assert_eq!(lost(1, &[]), 1, "the value changed without a write");
    }
}
