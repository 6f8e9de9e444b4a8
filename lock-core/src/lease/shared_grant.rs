use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;

use super::delegations::Delegations;
use super::term::expires;
use crate::engine::{Grant, Release};
use crate::mutex::Mutex;
use crate::node::{LockKeys, QueuePosition};
use crate::observer::Reporter;
use crate::random::OwnerId;
use crate::task::OnDrop;
use crate::token::FencingToken;

/// A question that all readers await that want to share the grant.
pub(super) type Question = Shared<BoxFuture<'static, ()>>;

/// The grant of a lease, which the leases of one process share that read the same lock. The last of them releases it.
pub(crate) struct SharedGrant {
    pub(super) keys: LockKeys,
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    pub(super) token: FencingToken,
    pub(super) reporter: Arc<Reporter>,
    pub(super) delegations: Delegations,
    /// `None` once it is being released. Held locked while a key is put back, so that a release can only come after it.
    grant: Mutex<Option<Box<Grant>>>,
    /// How many leases share it, or may soon. Changes while the grant is locked.
    leases: AtomicUsize,
    /// Whether the nodes lost the lock.
    is_lost: AtomicBool,
    /// Whether the nodes said last that a writer waits.
    is_barred: AtomicBool,
    /// When the last round of renewal began.
    round_began: Mutex<Option<Instant>>,
    /// The present question to the nodes, which all readers await that want to share the grant, and when it was asked. It has no
    /// timer: a timer would belong to the runtime that polls it first.
    asking: Mutex<Option<(Instant, Question)>>,
}

impl SharedGrant {
    /// The grant of one lease, with its next token.
    pub(crate) fn new(mut grant: Box<Grant>) -> Arc<Self> {
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
            is_lost: AtomicBool::new(false),
            is_barred: AtomicBool::new(false),
            round_began: Mutex::new(None),
            asking: Mutex::new(None),
        })
    }

    pub(super) fn grant(&self) -> MutexGuard<'_, Option<Box<Grant>>> {
        self.grant.lock()
    }

    /// When the requests were sent from which the validity counts; `None` once it is being released.
    pub(super) fn sent(&self) -> Option<Instant> {
        self.grant().as_ref().map(|grant| grant.sent)
    }

    /// Shares it with one lease more. Returns false if it is being released, or was lost.
    pub(super) fn join(&self) -> bool {
        let grant = self.grant();
        // Decided while the grant is locked: the last lease takes the grant under the same lock, so that nobody joins what is
        // being released.
        let may_join = grant.is_some() && !self.is_lost();
        self.leases.fetch_add(usize::from(may_join), Ordering::AcqRel);
        may_join
    }

    /// The nodes lost the lock: no lease joins the others from now on.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Shares it with one lease less. Returns what the nodes hold if that was the last.
    pub(super) fn leave(&self) -> Option<Box<Grant>> {
        let mut grant = self.grant();
        let last = self.leases.fetch_sub(1, Ordering::AcqRel) == 1;
        // Taken under the lock, so that what is put back by a renewal is sent either before the release or not at all.
        let left = if last { grant.take() } else { None };
        drop(grant);
        if last {
            // It refers to this.
            drop(self.asking.lock().take());
        }
        left
    }

    /// Sends the release of what the last lease [left](Self::leave). `None` if the lock is another service's, or if another service may
    /// still work under it: the key is then left to expire, or the next holder would work beside that service.
    pub(super) fn release(&self, grant: &mut Grant, position: QueuePosition) -> Option<Release> {
        if grant.is_adopted {
            return None;
        }
        if self.delegations.unfinished() {
            grant.leave_to_expire();
            return None;
        }
        Some(grant.release(position))
    }

    /// A majority extended the key by requests sent at this time, and says whether a writer waits.
    pub(super) fn renewed(&self, sent: Instant, is_barred: bool) {
        if let Some(grant) = &mut *self.grant()
            // An answer that comes after the end of validity extends nothing: the holder may have been told that the lock is
            // lost.
            && Instant::now() < expires(grant.sent, self.ttl)
        {
            // A reply that comes late says nothing about now.
            if sent >= grant.sent {
                self.is_barred.store(is_barred, Ordering::Release);
            }
            grant.renewed(sent);
        }
    }

    /// Begins a round of renewal, which ends when what is returned is dropped. `None` if another lease is in one; not for longer than
    /// `timeout`, in case its runtime stalls.
    pub(super) fn begin_round(self: &Arc<Self>, now: Instant, timeout: Duration) -> Option<OnDrop<impl Fn() + use<>>> {
        // A time and no flag: a round whose runtime stalls is never dropped, and would keep all others from renewing.
        let mut began = self.round_began.lock();
        if began.is_some_and(|began| now < began + timeout) {
            return None;
        }
        *began = Some(now);
        let grant = Arc::clone(self);
        // Another one may have begun meanwhile.
        Some(OnDrop(move || _ = grant.round_began.lock().take_if(|began| *began == now)))
    }

    /// Whether the nodes said last that a writer waits.
    pub(super) fn is_barred(&self) -> bool {
        self.is_barred.load(Ordering::Acquire)
    }

    /// The question that the nodes are being asked; or another one, if there is none, or it was asked too long ago.
    pub(super) fn question(&self, longest: Duration, ask: impl FnOnce() -> BoxFuture<'static, ()>) -> Question {
        let (mut asking, now) = (self.asking.lock(), Instant::now());
        match &*asking {
            Some((asked, question)) if question.peek().is_none() && now < *asked + longest => question.clone(),
            // Asked again also if the answer is long in coming: who polls it may be on a runtime that does not run.
            _ => asking.insert((now, ask().shared())).1.clone(),
        }
    }
}
