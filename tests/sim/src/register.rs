/// A resource that checks fencing tokens, as a database does. It counts what was added to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Register {
    highest: u64,
    value: u64,
    /// How many writes it took. Each adds one to what its writer had read: a difference to `value` is a lost update.
    writes: u64,
}

impl Register {
    /// Takes the resource over, from all holders with smaller tokens.
    pub(super) fn claim(&mut self, token: u64) -> bool {
        let accepted = token >= self.highest;
        if accepted {
            self.highest = token;
        }
        accepted
    }

    pub(super) fn read(&self, token: u64) -> Option<u64> {
        (token >= self.highest).then_some(self.value)
    }

    pub(super) fn write(&mut self, token: u64, value: u64) -> bool {
        let accepted = token >= self.highest;
        if accepted {
            self.value = value;
            self.writes += 1;
        }
        accepted
    }

    pub(super) fn lost_updates(&self) -> u64 {
        self.writes.abs_diff(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_token_for_two_holders_loses_an_update() {
        let mut register = Register::default();
        assert!(register.claim(7) && register.claim(7));
        let (one, other) = (register.read(7).unwrap(), register.read(7).unwrap());
        assert!(register.write(7, one + 1) && register.write(7, other + 1));
        assert_eq!(register.lost_updates(), 1);
    }

    #[test]
    fn a_holder_of_the_past_is_refused() {
        let mut register = Register::default();
        assert!(register.claim(7) && register.claim(8));
        assert_eq!(register.read(7), None);
        assert!(!register.write(7, 1) && !register.claim(7));
        assert_eq!(register.lost_updates(), 0);
    }
}
