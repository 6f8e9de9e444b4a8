//! Which requests travel together: what one batch of the script carries.

use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use crate::node::{Operation, QueuePosition, Request};

/// What is sent with one batch, in the order in which the script takes it. No two requests have the same fence, and so none the
/// same lock: they have no order among them. But for pairs: a lock is released, and then acquired.
pub(in crate::node::redis) struct Batch<T> {
    /// How many pairs there are: the first of both.
    pub(in crate::node::redis) pairs: usize,
    pub(in crate::node::redis) releases: Vec<T>,
    pub(in crate::node::redis) acquires: Vec<T>,
    pub(in crate::node::redis) others: Vec<T>,
    /// What becomes of the places of those that release: as of the first, for since when is each one's own.
    pub(in crate::node::redis) position: Option<QueuePosition>,
    /// What those that acquire have in common.
    pub(in crate::node::redis) acquire_args: Option<AcquireArgs>,
    fences: Vec<u16>,
}

/// What those that acquire in one batch have in common, as it is told once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::node::redis) struct AcquireArgs {
    pub(in crate::node::redis) ttl: Duration,
    pub(in crate::node::redis) tokens: u32,
}

impl AcquireArgs {
    fn of(request: &Request) -> Option<Self> {
        match request.operation {
            Operation::Acquire { ttl, tokens, .. } => Some(Self { ttl, tokens }),
            _ => None,
        }
    }
}

impl<T: AsRef<Request>> Batch<T> {
    fn new() -> Self {
        let (releases, acquires, others) = (Vec::new(), Vec::new(), Vec::new());
        Self { pairs: 0, releases, acquires, others, position: None, acquire_args: None, fences: Vec::new() }
    }

    pub(in crate::node::redis) fn messages(&self) -> impl Iterator<Item = &T> {
        self.releases.iter().chain(&self.acquires).chain(&self.others)
    }

    pub(in crate::node::redis) fn into_messages(self) -> impl Iterator<Item = T> {
        self.releases.into_iter().chain(self.acquires).chain(self.others)
    }

    /// Whether a request can be added, as far as what is told once goes.
    fn suits(&self, request: &Request) -> bool {
        match request.operation {
            Operation::Release { position, .. } => {
                self.position.is_none_or(|present| discriminant(&present) == discriminant(&position))
            }
            _ => AcquireArgs::of(request).is_none_or(|terms| self.acquire_args.is_none_or(|present| present == terms)),
        }
    }

    /// The release that a request can make a pair with, if it acquires the same lock.
    fn release_before(&self, request: &Request) -> Option<usize> {
        let acquires = AcquireArgs::of(request).is_some() && self.suits(request);
        let mut alone = self.releases.iter().skip(self.pairs);
        let found = alone.position(|release| release.as_ref().keys.lock_key() == request.keys.lock_key());
        found.filter(|_| acquires).map(|found| self.pairs + found)
    }

    /// Adds an acquire that makes a pair with this release.
    fn pair(&mut self, release: usize, acquire: T) {
        self.acquire_args = AcquireArgs::of(acquire.as_ref());
        self.releases.swap(release, self.pairs);
        self.acquires.push(acquire);
        let last = self.acquires.len() - 1;
        self.acquires.swap(last, self.pairs);
        self.pairs += 1;
    }

    /// Adds a message, behind which at most so many come.
    fn add(&mut self, message: T, left: usize) {
        let Request { keys, operation, .. } = message.as_ref();
        let (fence, terms) = (keys.fence(), AcquireArgs::of(message.as_ref()));
        if let Operation::Release { position, .. } = operation {
            self.position = Some(*position);
        }
        let messages = match operation {
            Operation::Release { .. } => &mut self.releases,
            Operation::Acquire { .. } => &mut self.acquires,
            Operation::Confirm { .. }
            | Operation::Extend { .. }
            | Operation::Replace { .. }
            | Operation::LeaveQueue => &mut self.others,
        };
        if messages.is_empty() {
            messages.reserve(1 + left);
        }
        messages.push(message);
        self.acquire_args = self.acquire_args.or(terms);
        self.fences.push(fence);
    }
}

/// Deals requests out to batches, which are to be sent in this order: those of one lock stay in the order in which they came.
pub(in crate::node::redis) fn into_batches<T: AsRef<Request>>(
    messages: impl ExactSizeIterator<Item = T>,
) -> Vec<Batch<T>> {
    let (mut batches, mut left): (Vec<Batch<T>>, _) = (Vec::with_capacity(1), messages.len());
    // The batches before this one have another head.
    let mut from = 0;
    for message in messages {
        left -= 1;
        let request = message.as_ref();
        let same = |batch: &Batch<T>| batch.messages().next().is_none_or(|first| same_head(first.as_ref(), request));
        if !batches.last().is_none_or(same) {
            from = batches.len();
        }
        let fence = request.keys.fence();
        let last = batches[from..].iter().rposition(|batch| batch.fences.contains(&fence)).map(|last| from + last);
        let pair = last.and_then(|last| Some((last, batches[last].release_before(request)?)));
        if let Some((batch, release)) = pair {
            batches[batch].pair(release, message);
            continue;
        }
        let earliest = last.map_or(from, |last| last + 1);
        let place = batches[earliest..].iter().position(|batch| batch.suits(request));
        let place = place.map_or(batches.len(), |place| earliest + place);
        if place == batches.len() {
            batches.push(Batch::new());
        }
        batches[place].add(message, left);
    }
    batches
}

/// Whether what is told once for a batch is the same for both.
fn same_head(one: &Request, other: &Request) -> bool {
    let same_keyspace = Arc::ptr_eq(one.keys.keyspace(), other.keys.keyspace());
    same_keyspace && (one.epoch, one.waiter) == (other.epoch, other.waiter)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::node::{Keyspace, LockKeys};
    use crate::random::{Epoch, OwnerId, WaiterId};

    struct Message(&'static str, Request);

    impl AsRef<Request> for Message {
        fn as_ref(&self) -> &Request {
            &self.1
        }
    }

    const A: Operation =
        Operation::Acquire { owner: OwnerId::from_bits(1), ttl: Duration::ZERO, hint: 0, tokens: 1, since: None };
    const R: Operation = Operation::Release { owner: OwnerId::from_bits(1), position: QueuePosition::None };
    const E: Operation = Operation::Extend { owner: OwnerId::from_bits(1), ttl: Duration::ZERO };

    /// The batches that requests make: resource, request, epoch.
    fn dealt(requests: &[(&'static str, Operation, u128)]) -> Vec<Vec<&'static str>> {
        let keyspace = Arc::new(Keyspace::new(""));
        let message = |(resource, operation, epoch): &(&'static str, Operation, u128)| {
            let (epoch, waiter) = (Epoch::from_bits(*epoch), WaiterId::from_bits(1));
            Message(
                resource,
                Request { keys: LockKeys::new(&keyspace, resource), epoch, waiter, operation: *operation },
            )
        };
        let batches = into_batches(requests.iter().map(message));
        batches.into_iter().map(|batch| batch.into_messages().map(|message| message.0).collect()).collect()
    }

    #[test]
    fn a_lock_comes_once_in_a_call_and_keeps_its_order() {
        let batches =
            dealt(&[("x", A, 1), ("x", R, 1), ("y", A, 1), ("y", R, 1), ("z", E, 1), ("x", E, 1), ("y", E, 1)]);
        assert_eq!(batches, [vec!["x", "y", "z"], vec!["x", "y"], vec!["x", "y"]]);
    }

    #[test]
    fn a_release_and_the_next_acquire_are_a_pair() {
        let batches =
            dealt(&[("v", A, 1), ("w", R, 1), ("x", R, 1), ("x", A, 1), ("w", A, 1), ("y", R, 1), ("x", R, 1)]);
        assert_eq!(batches, [vec!["x", "w", "y", "x", "w", "v"], vec!["x"]]);
        assert_eq!(dealt(&[("x", R, 1), ("x", A, 2)]), [["x"], ["x"]], "not where the epoch changed");
    }

    #[test]
    fn those_that_release_come_first_and_then_those_that_acquire() {
        let batches = dealt(&[("v", E, 1), ("w", R, 1), ("x", A, 1), ("y", R, 1), ("z", A, 1)]);
        assert_eq!(batches, [["w", "y", "x", "z", "v"]]);
    }

    #[test]
    fn what_is_told_once_is_the_same_for_all_of_a_call() {
        let owner = OwnerId::from_bits(2);
        let longer = Operation::Acquire { owner, ttl: Duration::from_secs(1), hint: 0, tokens: 1, since: None };
        let batches = dealt(&[("v", longer, 1), ("w", A, 1), ("x", R, 1), ("y", A, 1), ("z", longer, 1), ("x", A, 1)]);
        assert_eq!(batches, [vec!["x", "v", "z"], vec!["w", "y", "x"]]);
        let leave = Operation::Release { owner, position: QueuePosition::Leave };
        assert_eq!(dealt(&[("x", leave, 1), ("y", R, 1), ("z", leave, 1)]), [vec!["x", "z"], vec!["y"]]);
        let keep = |since| Operation::Release { owner, position: QueuePosition::Keep(NonZeroU64::new(since).unwrap()) };
        assert_eq!(dealt(&[("x", keep(1), 1), ("y", keep(2), 1)]), [["x", "y"]], "since when is told for each");
    }

    #[test]
    fn another_epoch_is_another_call_behind_it() {
        let batches = dealt(&[("x", A, 1), ("y", A, 2), ("x", R, 2), ("z", A, 2), ("y", A, 1)]);
        assert_eq!(batches, [vec!["x"], vec!["x", "y", "z"], vec!["y"]]);
    }
}
