/// Which seats were asked in one round of requests, and by which roster their votes count.
///
/// A vote belongs to a seat of a roster, not to an address: however many addresses of a list lead to one master, now or one after the
/// other, its seat is asked once. So counting the replies of a round counts seats, and a majority of the nodes is a majority of the
/// seats. The first node that is asked decides by which roster the others have to vote.
///
/// # Examples
///
/// ```
/// use lock_core::quorum::{NotCalled, RollCall};
///
/// let mut round = RollCall::default();
/// assert_eq!(round.call(7, 0), Ok(()));
/// assert_eq!(round.call(7, 2), Ok(()));
/// assert_eq!(round.call(7, 0), Err(NotCalled::AskedBefore)); // over another address
/// assert_eq!(round.call(8, 1), Err(NotCalled::OtherRoster));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RollCall {
    roster: Counted,
    /// A bit for each seat.
    asked: u64,
}

/// By which roster the nodes have to vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Counted {
    /// By the roster of the first node that is asked.
    #[default]
    First,
    /// By this one.
    This(u64),
    /// By any: nothing is decided that others have to know of.
    Any,
}

/// Why a node is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotCalled {
    /// It votes by another roster.
    OtherRoster,
    /// Its seat was asked in this round, over another address.
    AskedBefore,
}

impl RollCall {
    /// A round that also asks nodes that vote by another roster than the first one.
    pub const fn by_any_roster() -> Self {
        Self { roster: Counted::Any, asked: 0 }
    }

    /// Another round by the same roster.
    pub const fn another(self) -> Self {
        Self { asked: 0, ..self }
    }

    /// By which roster the nodes have to vote, once one was asked.
    pub const fn roster(self) -> Option<u64> {
        match self.roster {
            Counted::This(roster) => Some(roster),
            Counted::First | Counted::Any => None,
        }
    }

    /// Notes that a seat is asked, by the number that this client gave the roster.
    ///
    /// # Errors
    ///
    /// [`NotCalled`] if it must not be asked, or its vote would count twice.
    pub fn call(&mut self, roster: u64, seat: usize) -> Result<(), NotCalled> {
        match self.roster {
            Counted::This(counted) if counted != roster => return Err(NotCalled::OtherRoster),
            Counted::First => self.roster = Counted::This(roster),
            Counted::This(_) | Counted::Any => {}
        }
        let seat = 1_u64.checked_shl(u32::try_from(seat).unwrap_or(u32::MAX)).unwrap_or_default();
        // One that has no bit is not counted at all. There are fewer seats than bits.
        if self.asked | seat == self.asked {
            return Err(NotCalled::AskedBefore);
        }
        self.asked |= seat;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_has_one_vote_in_a_round() {
        let mut round = RollCall::default();
        assert_eq!(round.roster(), None);
        assert_eq!([0, 1, 0, 62].map(|seat| round.call(3, seat).is_ok()), [true, true, false, true]);
        assert_eq!(round.roster(), Some(3));
        assert_eq!(round.call(4, 2), Err(NotCalled::OtherRoster));
        let mut next = round.another();
        assert_eq!([next.call(3, 0), next.call(4, 1)], [Ok(()), Err(NotCalled::OtherRoster)]);
    }

    #[test]
    fn a_seat_has_one_vote_whatever_the_roster() {
        let mut round = RollCall::by_any_roster();
        assert_eq!([round.call(1, 0), round.call(2, 1)], [Ok(()), Ok(())]);
        assert_eq!(round.call(2, 0), Err(NotCalled::AskedBefore));
        assert_eq!(round.roster(), None);
    }
}
