//! Handover chains: one grant that a process took from the servers, and those that followed by handover inside the
//! process. What readers of a process share counts as one grant.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_history::by_resource;

use super::grants::{Grant, Process};
use super::kind::Kind;

/// The engine's limits: the most holders of one chain, and how long after its first grant the lock may be handed over.
const MAX_HOLDERS: usize = 16;
const HANDOVER_PERIOD: Duration = Duration::from_millis(20);

/// A chain of one process, in the order of its holders. There is always a first.
pub(super) struct HandoverChain<'a> {
    pub(super) first: &'a Grant,
    /// Those to whom the lock was handed over to write, each by the one before.
    pub(super) handed_over: Vec<&'a Grant>,
}

impl HandoverChain<'_> {
    pub(super) fn process(&self) -> Process {
        self.first.holder.process
    }

    pub(super) fn last(&self) -> &Grant {
        self.handed_over.last().unwrap_or(&self.first)
    }

    /// Whether a grant was handed over by the last holder of this chain. Then it has the next token, which was reserved
    /// for that: the servers continue after the reserved tokens, or at the time of day if that is larger.
    fn continues_with(&self, next: &Grant) -> bool {
        let last = self.last();
        let may_wait = last.holder.may_wait && next.holder.may_wait;
        let writes = |grant: &Grant| !grant.reads && grant.downgraded.is_none();
        last.holder.process == next.holder.process
            && may_wait
            && writes(last)
            && !next.reads
            && last.token + 1 == next.token
    }

    /// Whether a reader shares what the last holder of this chain reads.
    fn shares_with(&self, next: &Grant) -> bool {
        let last = self.last();
        last.holder.process == next.holder.process && last.token == next.token && next.reads
    }
}

/// The chains of each resource, in the order of their tokens.
pub(super) fn chains(grants: &[Grant]) -> BTreeMap<&str, Vec<HandoverChain<'_>>> {
    // An adopted lock is its holder's, and a forced release is no grant.
    let acquired = grants.iter().filter(|grant| !matches!(grant.holder.kind, Kind::Adopt | Kind::Force));
    let resources = by_resource(acquired, |grant| (grant.token, grant.holder.process, grant.granted));
    let chains = resources.into_iter().map(|(resource, grants)| {
        let mut chains: Vec<HandoverChain<'_>> = Vec::new();
        for grant in grants {
            match chains.last_mut().filter(|chain| chain.continues_with(grant) || chain.shares_with(grant)) {
                Some(chain) if chain.shares_with(grant) => {}
                Some(chain) => chain.handed_over.push(grant),
                None => chains.push(HandoverChain { first: grant, handed_over: Vec::new() }),
            }
        }
        (resource, chains)
    });
    chains.collect()
}

/// A process does not keep the lock to itself for longer than it may.
pub(super) fn handovers_are_bounded(grants: &[Grant]) -> Vec<String> {
    let mut violations = Vec::new();
    for chain in chains(grants).into_values().flatten() {
        let (first, holders) = (chain.first, 1 + chain.handed_over.len());
        if holders > MAX_HOLDERS {
            violations.push(format!("a lock had {holders} holders in one process without a release: {first:?}"));
        }
        let holders = std::iter::once(first).chain(chain.handed_over.iter().copied());
        for (holder, next) in holders.zip(&chain.handed_over) {
            // The history has the release before it begins, and the grant after it was made.
            if let Some(late) = holder.ended.filter(|ended| ended.since(first.granted) >= HANDOVER_PERIOD) {
                let after = late.since(first.granted);
                violations.push(format!("a lock was handed over {after:?} after it was granted: {first:?}, {next:?}"));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::grants::Holder;
    use super::*;
    use lock_history::Moment;

    /// A grant with these times in milliseconds.
    fn grant(token: u64, service: usize, granted: u64, ended: u64) -> Grant {
        let moment = |millis| Moment(millis * 1_000);
        let times = [0, granted, granted + 900].map(moment);
        let ended = Some(moment(ended));
        Grant { ended, released: ended, ..Grant::new(("r", token), Holder::of((service, 0)), times) }
    }

    fn lengths(grants: &[Grant]) -> Vec<usize> {
        chains(grants)["r"].iter().map(|chain| 1 + chain.handed_over.len()).collect()
    }

    #[test]
    fn the_next_token_in_the_same_process_is_a_handover() {
        assert_eq!(lengths(&[grant(7, 0, 10, 12), grant(9, 1, 30, 40), grant(8, 0, 12, 15)]), [2, 1]);
        assert_eq!(lengths(&[grant(7, 0, 10, 12), grant(8, 1, 12, 15)]), [1, 1], "another process");
        assert_eq!(lengths(&[grant(7, 0, 10, 12), grant(9, 0, 12, 15)]), [1, 1], "not the next token");
        let mut without_wait = grant(8, 0, 12, 15);
        without_wait.holder.may_wait = false;
        assert_eq!(lengths(&[grant(7, 0, 10, 12), without_wait]), [1, 1]);
    }

    #[test]
    fn readers_of_one_process_with_one_token_are_one_grant() {
        let read = |token, service, granted| Grant { reads: true, ..grant(token, service, granted, granted + 90) };
        assert_eq!(lengths(&[read(7, 0, 10), read(7, 1, 11), read(7, 0, 12)]), [1, 1], "another process joins");
        assert_eq!(lengths(&[read(7, 0, 10), grant(8, 0, 110, 115)]), [1, 1], "a reader reserves no tokens");
        let downgraded = Grant { downgraded: Some(Moment(11_000)), ..grant(7, 0, 10, 90) };
        assert_eq!(lengths(&[downgraded, read(7, 0, 12), grant(8, 0, 110, 115)]), [1, 1], "nor does who downgraded");
    }

    #[test]
    fn a_chain_without_an_end_is_found() {
        let chain = |holders: u64| (0..holders).map(|n| grant(n, 0, 10 + n, 11 + n)).collect::<Vec<_>>();
        assert_eq!(handovers_are_bounded(&chain(16)), Vec::<String>::new());
        assert_eq!(handovers_are_bounded(&chain(17)).len(), 1);
        assert_eq!(handovers_are_bounded(&[grant(7, 0, 10, 29), grant(8, 0, 30, 99)]), Vec::<String>::new());
        assert_eq!(handovers_are_bounded(&[grant(7, 0, 10, 30), grant(8, 0, 31, 35)]).len(), 1);
    }
}
