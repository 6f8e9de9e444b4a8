use std::time::Duration;

use super::{KeyVote, Tally};

/// What a node says about a lock that was delegated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProofVote {
    /// The key is held by the owner who made the credential, for this much longer.
    Proven(Duration),
    /// The key is free, or held by another owner.
    Refuted,
    /// No reply, or none that counts.
    NoReply,
}

impl KeyVote for ProofVote {
    fn has_key(self) -> Option<bool> {
        match self {
            Self::Proven(_) => Some(true),
            Self::Refuted => Some(false),
            Self::NoReply => None,
        }
    }
}

impl Tally<ProofVote> {
    /// For how long each node that proved the lock has its key, at least. To be asked when a majority has proved it.
    pub fn proven_for(&self) -> Duration {
        let proven = self.votes.iter().flatten().filter_map(|vote| match vote {
            ProofVote::Proven(remaining) => Some(*remaining),
            _ => None,
        });
        proven.min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::ProofVote::{NoReply, Proven, Refuted};
    use super::*;

    #[test]
    fn a_proof_lasts_as_long_as_a_majority_holds_the_key() {
        let proven = |millis| Proven(Duration::from_millis(millis));
        let mut tally = Tally::new(5);
        let votes = [proven(500), proven(300), Refuted, NoReply, proven(900)];
        let verdict = votes.into_iter().enumerate().find_map(|(node, vote)| tally.vote(node, vote));
        assert_eq!((verdict, tally.proven_for()), (Some(Verdict::Held), Duration::from_millis(300)));
    }
}
