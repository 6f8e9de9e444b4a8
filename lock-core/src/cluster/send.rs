//! How an operation reaches a node: in which epoch, over which address, and once for each seat.

use super::{Cluster, Member, MemberState};
use crate::error::{NodeError, Refusal};
use crate::node::{LockKeys, Operation, ReplySender, Request};
use crate::quorum::{NotCalled, RollCall};
use crate::random::Epoch;

/// Requests that are submitted together, by node: those about several locks. Nothing may be awaited while it is filled: until it is
/// submitted, other requests would overtake those in it.
pub(crate) type Outbox = Vec<Vec<(Request, ReplySender)>>;

impl Cluster {
    /// Submits an operation to a node, or puts it into the outbox, if there is one. When this returns, the request has either been
    /// submitted, or it never will be and the reply says why. If another address leads to the same server, it may go there.
    pub(crate) fn send(
        &self,
        node: usize,
        roll: &mut RollCall,
        keys: &LockKeys,
        operation: Operation,
        reply_to: ReplySender,
        outbox: Option<&mut Outbox>,
    ) {
        // What may be on a server is released there, although the address that it was asked over is not used any more.
        let asked = &self.members[node];
        let now_at = asked.now_at();
        let to = if now_at == node || asked.state.borrow().accepts_requests() { node } else { now_at };
        let epoch = match self.epoch_for(to, roll) {
            Ok(epoch) => epoch,
            Err(error) => return reply_to.send(Err(error)),
        };
        let member = &self.members[to];
        let (keys, waiter, polls) = (keys.clone(), self.waiter, !member.wakes());
        let request = Request { keys, epoch, waiter, polls, operation };
        let reply_to = reply_to.reported(&member.votes, &request);
        match outbox {
            Some(outbox) => outbox[to].push((request, reply_to)),
            None => member.node.submit(request, reply_to),
        }
    }

    /// The epoch in which a round asks a node over its own address, or what keeps it from asking.
    pub(super) fn epoch_for(&self, node: usize, roll: &mut RollCall) -> Result<Epoch, NodeError> {
        // Not cloned: every request asks.
        let admitted = match &*self.members[node].state.borrow() {
            MemberState::Admitted { epoch, roster, seat } => Some((*epoch, *roster, *seat)),
            _ => None,
        };
        let Some((epoch, roster, seat)) = admitted else {
            return Err(self.no_vote(node).unwrap_or(NodeError::Unadmitted));
        };
        match roll.call(roster, seat) {
            Ok(()) => Ok(epoch),
            // The votes of one round are those of one roster: two majorities of different rosters need not have a node in common.
            Err(NotCalled::OtherRoster) => Err(NodeError::Unadmitted),
            Err(NotCalled::AskedBefore) => Err(self.asked_before(node, seat)),
        }
    }

    /// What keeps a node from being asked whose seat was asked over another address.
    fn asked_before(&self, node: usize, seat: usize) -> NodeError {
        let has_seat =
            |member: &Member| matches!(*member.state.borrow(), MemberState::Admitted { seat: own, .. } if own == seat);
        let mut others = self.members.iter().enumerate().filter(|(other, _)| *other != node);
        let other = others.find(|(_, other)| other.now_at() == node || has_seat(other));
        // It may lead elsewhere by now.
        let other = other.map_or("another address of the list", |(_, other)| other.node.name());
        Refusal::Duplicate { other: other.to_owned() }.into()
    }
}
