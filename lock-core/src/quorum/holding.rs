use super::majority;

/// What one node says about the holder of a lock. Only nodes that vote by the roster of the count say anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldingVote<H> {
    /// It has no key.
    Free,
    /// It has the key of this holder.
    Held(H),
    /// No reply, or none that counts.
    NoReply,
}

/// The holder of a lock, as the nodes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Holding<H> {
    /// Nobody: a majority has no key.
    Free,
    /// The holder whose key a majority has.
    Held(H),
    /// A majority replied, but agrees on nothing: an attempt or a release is in progress or was cut short, or the nodes that did
    /// not reply would decide.
    Split,
    /// Fewer than a majority of the nodes replied.
    NoQuorum,
}

/// Counts the votes of all nodes about the holder of a lock.
pub fn holding<H: Eq + Copy>(votes: &[HoldingVote<H>]) -> Holding<H> {
    let quorum = majority(votes.len());
    let count = |wanted: HoldingVote<H>| votes.iter().filter(|vote| **vote == wanted).count();
    // A majority of all: one of those that replied may be a minority, and another owner may have the rest.
    let mut decisive = votes.iter().filter(|vote| count(**vote) >= quorum);
    match decisive.next() {
        Some(HoldingVote::Free) => Holding::Free,
        Some(HoldingVote::Held(holder)) => Holding::Held(*holder),
        Some(HoldingVote::NoReply) => Holding::NoQuorum,
        None if votes.len() - count(HoldingVote::NoReply) < quorum => Holding::NoQuorum,
        // Several owners have some nodes each, and none a majority: their attempts are under way, or one of them died in the
        // middle.
        None => Holding::Split,
    }
}

#[cfg(test)]
mod tests {
    use super::HoldingVote::{Free, Held, NoReply};
    use super::*;

    #[test]
    fn a_majority_of_all_nodes_says_who_holds_a_lock() {
        assert_eq!(holding(&[Held(1), Held(1), NoReply]), Holding::Held(1));
        assert_eq!(holding(&[Free, Free, Held(1)]), Holding::Free);
        assert_eq!(holding(&[Held(1), Free, NoReply]), Holding::Split);
        assert_eq!(holding(&[Held(1), Held(1), Held(2), Held(2), Free]), Holding::Split);
        assert_eq!(holding(&[Held(1), NoReply, NoReply]), Holding::NoQuorum);
        assert_eq!(holding(&[Held(1), Held(1), NoReply, NoReply]), Holding::NoQuorum, "half is no majority");
        assert_eq!(holding::<u8>(&[]), Holding::NoQuorum);
    }
}
