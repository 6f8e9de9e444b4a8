use tokio::time::Instant;

use super::Lease;
use super::term::expires;

/// When a lease is to be renewed, and how renewals extend it.
impl Lease {
    /// Counts a renewal by another lease of this process that shares the grant.
    pub(super) fn catch_up(&self) {
        if self.0.options.renew
            && self.kind().is_read()
            && let Some(sent) = self.0.grant.sent()
        {
            self.extend(sent);
        }
    }

    /// When the next renewal is due: see [`renewal_pause`](crate::quorum::renewal_pause). `None` once the lock is being released.
    pub(super) fn renewal_due(&self) -> Option<Instant> {
        self.grant().as_ref().map(|grant| grant.sent() + grant.renewal_pause(self.0.options.ttl))
    }

    pub(super) fn renewal_is_due(&self) -> bool {
        self.renewal_due().is_some_and(|due| due <= Instant::now())
    }

    /// When the renewer has to deal with the lease: renew it, or end it.
    pub(crate) fn due(&self) -> Instant {
        let ends = self.0.term.ends();
        // One that is not renewed is due at its end all the same: somebody has to end it in time, and pass its turn on.
        self.renewal_due().filter(|_| self.renews()).map_or(ends, |due| due.min(ends))
    }

    /// Whether there is something to renew: validity does not reach the end of `max_hold`.
    pub(super) fn renews(&self) -> bool {
        self.0.options.renew && !self.0.term.is_complete()
    }

    /// Extends validity after a renewal whose requests were sent at `sent`; validity that ends later stays. Returns false if
    /// the lease has ended.
    pub(super) fn extend(&self, sent: Instant) -> bool {
        self.extend_to(expires(sent, self.0.options.ttl))
    }

    /// Extends validity to a time; validity that ends later stays. Returns false if the lease has ended.
    pub(crate) fn extend_to(&self, end: Instant) -> bool {
        self.0.term.extend_to(end)
    }
}
