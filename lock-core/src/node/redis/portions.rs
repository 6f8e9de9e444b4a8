//! How many requests travel together when many callers wait for replies of an only node.
//!
//! A caller submits its next request as soon as it has a reply. If all callers got theirs at once, all requests would travel together
//! again, and client and server would take turns. So the worker writes what was submitted after each portion of the replies, and the
//! server executes one portion while the callers of another run. Of several nodes, only the last one of a majority to reply wakes the
//! callers, and the others have work until then: portions would only cost processor time.

use futures_util::poll;
use std::time::Duration;
use tokio::time::Instant;

use super::batch::Batch;
use super::worker::Worker;
use crate::node::{NodeError, Reply};
use crate::task::let_others_run;

/// The requests of a portion, unless half of what is in flight is less. The more travel together, the less processor time each takes; but
/// an idle server waits for the first of them, and of many callers that run at once, other threads take some, which then share with this
/// one what all locks share.
const PORTION: usize = 12;
/// The fewest in any case.
const LEAST_PORTION: usize = 2;

/// Replies that come later than this are distributed at once. The server is busy or on another machine, so that nothing is gained, and a
/// caller that ran in between could find that its time is over, although the reply is there.
const FRESH: Duration = Duration::from_micros(500);

impl Worker {
    /// Gives each message of a batch its reply. While the replies are fresh, what is submitted meanwhile is written after each portion.
    pub(super) async fn reply_in_portions(
        &mut self,
        mut batch: Batch,
        replies: impl Iterator<Item = Result<Reply, NodeError>>,
        in_flight: usize,
        is_only_node: bool,
        due_since: Instant,
    ) {
        let portion = portion(in_flight, is_only_node);
        let (mut left, mut replied) = (batch.len(), 0);
        for (message, reply) in batch.messages_mut().zip(replies) {
            message.reply_to.answer(reply);
            (left, replied) = (left - 1, replied + 1);
            let is_portion = replied == portion || left == 0 && is_worth_a_write(replied, portion);
            if is_portion && self.may_write_in_portions() && due_since.elapsed() < FRESH {
                replied = 0;
                let_others_run().await;
                if self.inbox.len() >= portion.div_ceil(2) && self.may_write_in_portions() {
                    self.write_waiting().await;
                    // The bytes, too: before the other callers run.
                    if poll!(&mut self.driver).is_ready() {
                        self.pushes.gone().cancel();
                    }
                }
            }
        }
        self.inbox.give_back(batch.into_messages());
    }

    /// Where votes wait for replicas, there is one write at a time: all other portions would wait for its replicas.
    fn may_write_in_portions(&self) -> bool {
        self.max_in_flight() > 1 && self.has_room() && !self.pushes.gone().is_cancelled()
    }
}

/// How many requests are a portion while this many are in flight.
fn portion(in_flight: usize, is_only_node: bool) -> usize {
    if is_only_node { PORTION.min(in_flight / 2).max(LEAST_PORTION) } else { usize::MAX }
}

/// Whether the last replies of a batch are worth a write of what their callers submit, although they are no whole portion.
fn is_worth_a_write(replies: usize, portion: usize) -> bool {
    replies > 1 && replies >= portion.div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_to_an_only_node_travel_in_halves_and_many_in_portions() {
        let portions = [1, 2, 4, 8, 16, 24, 32, 64, 128].map(|in_flight| portion(in_flight, true));
        assert_eq!(portions, [2, 2, 2, 4, 8, 12, 12, 12, 12]);
    }

    #[test]
    fn requests_to_several_nodes_travel_together() {
        assert!([1, 12, 128, 10_000].iter().all(|in_flight| portion(*in_flight, false) > *in_flight));
    }

    #[test]
    fn a_lone_reply_is_not_worth_a_write() {
        let worth = [(1, 2), (1, 8), (2, 2), (2, 4), (3, 8), (4, 8), (8, 8)].map(|(n, of)| is_worth_a_write(n, of));
        assert_eq!(worth, [false, false, true, true, false, true, true]);
    }
}
