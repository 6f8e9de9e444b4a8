use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::Moment;

/// One grant of a lock, from its acquisition to its end.
#[derive(Clone, Debug)]
pub struct Grant<H> {
    /// What was locked.
    pub resource: String,
    /// The fencing token.
    pub token: u64,
    /// Who held it, and what else the history recorded about it.
    pub holder: H,
    /// When its acquisition began, at the latest.
    pub began: Moment,
    /// When it was granted, at the latest.
    pub granted: Moment,
    /// The last end of validity that its holder claimed.
    pub claimed: Moment,
    /// When the holder released it, or when it was last seen to be valid before the holder noticed its loss.
    pub ended: Option<Moment>,
    /// When the holder released it.
    pub released: Option<Moment>,
}

impl<H> Grant<H> {
    /// A grant whose end is not known. The moments are those of `began`, `granted` and `claimed`.
    #[must_use]
    pub fn new((resource, token): (impl Into<String>, u64), holder: H, [began, granted, claimed]: [Moment; 3]) -> Self {
        Self { resource: resource.into(), token, holder, began, granted, claimed, ended: None, released: None }
    }

    /// When the holder stopped relying on the lock: it released the lock, noticed the loss, or its claimed validity ended.
    ///
    /// A stopped process notices nothing, but its claim still counts: the shared clock goes on, and nobody else may be granted
    /// the lock before the claim ends. The same holds for a process that was killed, whose keys live at least as long.
    #[must_use]
    pub fn ends(&self) -> Moment {
        self.ended.map_or(self.claimed, |ended| ended.min(self.claimed))
    }

    /// Whether the holder ever saw it valid. A grant can end before its holder sees it.
    #[must_use]
    pub fn was_held(&self) -> bool {
        self.granted < self.ends()
    }

    /// Whether the holder relied on it at a moment.
    #[must_use]
    pub fn is_held_at(&self, moment: Moment) -> bool {
        self.granted <= moment && moment < self.ends()
    }

    /// The latest moment at which a node can still have its key: its release, or `max_ttl` after its end. Where
    /// `max_hold` ends a lease, its key lives on until then.
    #[must_use]
    pub fn gone_by(&self, max_ttl: Duration) -> Moment {
        let expired = self.ends().plus(max_ttl);
        self.released.map_or(expired, |released| released.min(expired))
    }
}

impl<H: fmt::Display> fmt::Display for Grant<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, token, holder, began, granted, .. } = self;
        write!(f, "token {token} of {resource} ({holder}: began {began}, granted {granted}, ended {})", self.ends())
    }
}

/// The grants of each resource, sorted by a key.
pub fn by_resource<'a, H, K: Ord>(
    grants: impl IntoIterator<Item = &'a Grant<H>>,
    key: impl Fn(&Grant<H>) -> K,
) -> BTreeMap<&'a str, Vec<&'a Grant<H>>> {
    let mut resources: BTreeMap<&str, Vec<&Grant<H>>> = BTreeMap::new();
    for grant in grants {
        resources.entry(&grant.resource).or_default().push(grant);
    }
    resources.values_mut().for_each(|grants| grants.sort_by_key(|grant| key(grant)));
    resources
}
