use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Engine;
use super::release::{Footprint, Release};
use crate::cluster::NodeSet;
use crate::node::{LockKeys, QueuePosition};
use crate::observer::Reporter;
use crate::quorum::{renewal_pause, word_is_good};
use crate::random::OwnerId;

/// When a slot is put on the nodes that refused it, after the attempt began: until then, they show it as free, and let others try it
/// before those that have waited longer.
const PUT_BACK_AFTER: Duration = Duration::from_millis(3);

/// What an attempt may have left on the nodes, and the lock that it won.
///
/// A grant exists before the first request of its attempt is sent, and travels with the lock from there: to the lease, and from
/// one local holder to the next. Dropping it releases the lock, in the background.
///
/// It is boxed, because it is moved some twenty times on the way.
pub(crate) struct Grant {
    pub(crate) engine: Arc<Engine>,
    pub(super) footprint: Footprint,
    /// The reserved tokens that are left; the first is the next holder's. Empty until the lock is granted.
    tokens: Range<u64>,
    /// When the requests were sent from which the present validity counts. The nodes hold the key for at least a time to live
    /// from then on.
    pub(crate) sent: Instant,
    /// When a majority granted the lock, if it did.
    pub(crate) granted_at: Option<Instant>,
    /// While a node may lack the key that it could have by now: how many renewals there were since the grant.
    bare: Option<u32>,
    /// Whether another process holds the lock, and delegated it.
    pub(crate) is_adopted: bool,
    /// A shutdown waits for the release. Held from the beginning, so that it finds a grant or its release at any time.
    tracked: Option<TaskTrackerToken>,
}

impl Grant {
    /// The grant of an attempt that is about to be sent to `nodes`.
    pub(super) fn tentative(
        engine: &Arc<Engine>,
        keys: &LockKeys,
        ttl: Duration,
        nodes: NodeSet,
        position: QueuePosition,
    ) -> Box<Self> {
        let (engine, keys, tracked) = (Arc::clone(engine), keys.clone(), engine.background.tracker.token());
        // A new owner id for each attempt. With one that is used again, a late release of the last attempt would delete the key
        // of this one.
        let (owner, sent) = (engine.cluster.random.owner(), Instant::now());
        Box::new(Self {
            engine,
            footprint: Footprint { keys, owner, ttl, nodes, position },
            tokens: 0..0,
            sent,
            granted_at: None,
            bare: None,
            is_adopted: false,
            tracked: Some(tracked),
        })
    }

    /// What stands for a lock that another process holds and delegated to this one: there is nothing to release. The nodes that
    /// were asked at `sent` have it for `ttl` from then on.
    pub(crate) fn adopted(
        engine: &Arc<Engine>,
        keys: &LockKeys,
        owner: OwnerId,
        sent: Instant,
        ttl: Duration,
        token: u64,
    ) -> Box<Self> {
        let mut grant = Self::tentative(engine, keys, ttl, NodeSet::default(), QueuePosition::None);
        (grant.footprint.owner, grant.sent, grant.tokens) = (owner, sent, token..token + 1);
        grant.is_adopted = true;
        grant
    }

    /// A majority granted the lock, with these tokens. It is bare if a node refused, or may have. It is renewed as early if the nodes'
    /// word is old, because the lock may have been taken away since.
    pub(super) fn won(&mut self, tokens: Range<u64>, is_bare: bool) {
        let now = Instant::now();
        let is_bare = is_bare || !word_is_good(now.saturating_duration_since(self.sent));
        (self.tokens, self.granted_at, self.bare) = (tokens, Some(now), is_bare.then_some(0));
    }

    /// Takes the token of the next holder. There is one for the first holder; further ones as far as they were reserved.
    pub(crate) fn next_token(&mut self) -> Option<u64> {
        self.tokens.next()
    }

    pub(crate) fn has_token(&self) -> bool {
        !self.tokens.is_empty()
    }

    pub(crate) fn keys(&self) -> &LockKeys {
        &self.footprint.keys
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.footprint.owner
    }

    pub(crate) fn reporter(&self) -> &Arc<Reporter> {
        &self.engine.cluster.reporter
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.footprint.ttl
    }

    pub(crate) fn nodes(&self) -> NodeSet {
        self.footprint.nodes
    }

    /// How long after the last requests they are repeated, for this time to live.
    pub(crate) fn renewal_pause(&self, ttl: Duration) -> Duration {
        let pause = renewal_pause(ttl, self.bare);
        let is_first = self.bare == Some(0) && self.keys().slot().is_some();
        if is_first { pause.min(PUT_BACK_AFTER) } else { pause }
    }

    /// A majority extended the key by requests sent at this time. What was sent later stays.
    pub(crate) fn renewed(&mut self, sent: Instant) {
        // The later of the two: renewals of several readers overtake each other, and validity must not shrink.
        (self.sent, self.bare) = (self.sent.max(sent), self.bare.map(|renewals| renewals.saturating_add(1)));
    }

    /// Each node has the key.
    pub(crate) fn is_everywhere(&mut self) {
        self.bare = None;
    }

    /// The positions in the nodes' queues belong to another caller from now on.
    pub(crate) fn give_up_position(&mut self) {
        self.footprint.position = QueuePosition::None;
    }

    /// Gives the lock up without a release: its key is on the nodes until it expires.
    pub(crate) fn leave_to_expire(&mut self) {
        self.footprint.nodes = NodeSet::default();
    }

    /// The key may be on this node from now on, too.
    pub(crate) fn may_be_on(&mut self, node: usize) {
        self.footprint.nodes.insert(node);
    }

    /// Releases the lock on every node that may hold it. When this returns, the requests are sent.
    pub(crate) fn release(&mut self, position: QueuePosition) -> Release {
        self.footprint.position = position;
        let release = self.send_release();
        // Nothing is left for `drop`.
        self.footprint.nodes = NodeSet::default();
        release
    }

    fn send_release(&mut self) -> Release {
        Release::send(&self.engine, &self.footprint, self.granted_at.is_some(), self.tracked.take())
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if !self.footprint.nodes.is_empty() {
            // The release is sent by now; dropping it leaves the rest of it to the background.
            drop(self.send_release());
        }
    }
}
