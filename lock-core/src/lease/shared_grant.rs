use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::{Instant, timeout_at};

use super::delegations::Delegations;
use super::renew::ask_nodes;
use crate::engine::{Engine, Grant};
use crate::node::LockKeys;
use crate::observer::Reporter;
use crate::quorum::drift;
use crate::random::OwnerId;
use crate::token::FencingToken;

/// How old the nodes' last word is at most when another reader shares a grant. Without asking anew, the readers of one busy process
/// would keep a writer out for ever.
const WORD_TTL: Duration = Duration::from_millis(20);

/// The grant of a lease, which the leases of one process share that read the same lock. The last of them releases it.
pub(crate) struct SharedGrant {
    pub(super) keys: LockKeys,
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    pub(super) token: FencingToken,
    pub(super) reporter: Arc<Reporter>,
    pub(super) delegations: Delegations,
    /// `None` once it is being released. Held locked while a key is put back, so that a release can only come after it.
    grant: Mutex<Option<Grant>>,
    /// How many leases share it. Changes while the grant is locked.
    leases: AtomicUsize,
    /// Whether the nodes said last that a writer waits.
    is_barred: AtomicBool,
    /// When the last round of renewal began.
    round_began: Mutex<Option<Instant>>,
    /// The present question to the nodes, which all readers await that want to share the grant.
    asking: Mutex<Option<Shared<BoxFuture<'static, ()>>>>,
}

impl SharedGrant {
    /// The grant of one lease, with its next token.
    pub(super) fn new(mut grant: Grant) -> Arc<Self> {
        // A grant that is handed out has a token; 0 is below every other and would be refused.
        let token = FencingToken::new(grant.next_token().unwrap_or_default());
        Arc::new(Self {
            keys: grant.keys().clone(),
            owner: grant.owner(),
            ttl: grant.ttl(),
            token,
            reporter: Arc::clone(grant.reporter()),
            delegations: Delegations::default(),
            grant: Mutex::new(Some(grant)),
            leases: AtomicUsize::new(1),
            is_barred: AtomicBool::new(false),
            round_began: Mutex::new(None),
            asking: Mutex::new(None),
        })
    }

    pub(super) fn grant(&self) -> MutexGuard<'_, Option<Grant>> {
        lock(&self.grant)
    }

    /// When the requests were sent from which the validity counts; `None` once it is being released.
    pub(super) fn sent(&self) -> Option<Instant> {
        self.grant().as_ref().map(Grant::sent)
    }

    /// Shares it with one lease more. Returns false if it is being released.
    pub(super) fn join(&self) -> bool {
        let grant = self.grant();
        self.leases.fetch_add(usize::from(grant.is_some()), Ordering::AcqRel);
        grant.is_some()
    }

    /// Shares it with one lease less. Returns what the nodes hold if that was the last.
    pub(super) fn leave(&self) -> Option<Grant> {
        let mut grant = self.grant();
        let last = self.leases.fetch_sub(1, Ordering::AcqRel) == 1;
        let left = if last { grant.take() } else { None };
        drop(grant);
        if last {
            // It refers to this.
            drop(lock(&self.asking).take());
        }
        left
    }

    /// A majority extended the key by requests sent at this time, and says whether a writer waits.
    pub(super) fn renewed(&self, sent: Instant, is_barred: bool) {
        if let Some(grant) = &mut *self.grant()
            && Instant::now() < grant.sent() + (self.ttl - drift(self.ttl))
        {
            self.is_barred.store(is_barred, Ordering::Release);
            grant.renewed(sent);
        }
    }

    /// Begins a round of renewal. Returns false if another lease began one that may not have ended.
    pub(super) fn begin_round(&self, now: Instant, timeout: Duration) -> bool {
        let mut began = lock(&self.round_began);
        let is_free = began.is_none_or(|began| began + timeout <= now);
        if is_free {
            *began = Some(now);
        }
        is_free
    }

    /// Whether another reader may share it, for which no writer has to wait longer. Asks the nodes, if their last word is too old.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    pub(super) async fn may_be_shared(self: &Arc<Self>, engine: &Arc<Engine>) -> bool {
        let arrived = Instant::now();
        let until = arrived + 2 * engine.node_timeout(self.ttl);
        loop {
            let Some(word) = self.sent() else { return false };
            if arrived.saturating_duration_since(word) <= WORD_TTL {
                return !self.is_barred.load(Ordering::Acquire);
            }
            if timeout_at(until, self.ask(engine)).await.is_err() || self.sent() == Some(word) {
                return false;
            }
        }
    }

    /// The question that is being asked, or a new one.
    fn ask(self: &Arc<Self>, engine: &Arc<Engine>) -> Shared<BoxFuture<'static, ()>> {
        let mut asking = lock(&self.asking);
        match &*asking {
            Some(present) if present.peek().is_none() => present.clone(),
            _ => asking.insert(ask_nodes(Arc::clone(engine), Arc::clone(self)).boxed().shared()).clone(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
