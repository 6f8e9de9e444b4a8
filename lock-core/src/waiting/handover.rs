use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Grant;
use crate::kind::Kind;
use crate::node::SlotOffer;
use crate::options::LockOptions;
use crate::quorum::{validity, word_is_good};

/// How many holders a grant has at most, one after the other. Then the lock is released, so that waiters of other processes have
/// their turn.
pub(super) const MAX_HOLDERS: u32 = 16;
/// For how long after the grant a lock may be handed over: the sixteen may hold it for long, and other processes wait. `docs/decisions/005`
/// has the figures of both limits.
const HANDOVER_PERIOD: Duration = Duration::from_millis(20);

/// What a caller requires of a lock that is handed over to it.
#[derive(Clone, Copy)]
pub(crate) struct HandoverTerms {
    pub(crate) ttl: Duration,
    pub(crate) min_validity: Duration,
    pub(crate) renew: bool,
    pub(crate) kind: Kind,
}

impl HandoverTerms {
    /// Whether a grant that another caller won, to write or of a slot, can be used as it is.
    pub(crate) fn accept(&self, grant: &Grant) -> bool {
        !self.kind.is_read() && self.fit(grant)
    }

    /// Whether a grant has the time to live that was asked for, enough of it is left, and the nodes' word is recent enough for another
    /// caller. A caller that does not renew wants all of its time to live.
    pub(crate) fn fit(&self, grant: &Grant) -> bool {
        let age = grant.sent.elapsed();
        // Not by the age of the lease: what the nodes said is as old as their question, and an eviction may have come since.
        let left = validity(grant.ttl(), age).filter(|_| word_is_good(age));
        // Of the slots, one below the number of its permits: another caller may ask for more of them.
        let fits = self.renew && self.ttl == grant.ttl() && self.kind.allows_slot(grant.keys().slot());
        fits && left.is_some_and(|left| left >= self.min_validity)
    }

    /// What is left of an offer without the slots that the caller may not have.
    pub(super) fn limit(&self, offer: SlotOffer) -> Option<SlotOffer> {
        match self.kind {
            Kind::Write | Kind::Read => None,
            Kind::Permit { of } => (offer.proposed < of).then(|| SlotOffer { free: offer.free.below(of), ..offer }),
        }
    }
}

impl From<&LockOptions> for HandoverTerms {
    fn from(options: &LockOptions) -> Self {
        let LockOptions { ttl, min_validity, renew, kind, .. } = *options;
        Self { ttl, min_validity, renew, kind }
    }
}

/// Whether a lock may be handed over to a caller with these terms: not if it has been in this process for long enough, or the tokens that
/// came with it are used up.
pub(super) fn may_hand_over(terms: &HandoverTerms, grant: &Grant) -> bool {
    let is_recent = |granted: Instant| granted.elapsed() < HANDOVER_PERIOD;
    grant.has_token() && grant.granted_at.is_some_and(is_recent) && terms.accept(grant)
}
