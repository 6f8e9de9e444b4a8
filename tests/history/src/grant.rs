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
    /// Whether it was acquired to read.
    pub reads: bool,
    /// Whether it is the lock of another holder, who delegated it, with that holder's token.
    pub is_adopted: bool,
    /// Who held it, and what else the history recorded about it.
    pub holder: H,
    /// When the nodes were asked for it, at the earliest, if its holder got it from another one of the same process: handed over,
    /// or shared with other readers.
    pub inherited: Option<Moment>,
    /// When its acquisition began, at the latest.
    pub began: Moment,
    /// When it was granted, at the latest.
    pub granted: Moment,
    /// The last end of validity that its holder claimed.
    pub claimed: Moment,
    /// From when on its holder, who acquired it to write, only read.
    pub downgraded: Option<Moment>,
    /// When the holder released it, or when it was last seen to be valid before the holder noticed its loss.
    pub ended: Option<Moment>,
    /// When the holder released it. `None` if its key was left to expire.
    pub released: Option<Moment>,
    /// When the holder knew that a majority of the nodes had deleted it.
    pub deleted: Option<Moment>,
}

/// A time for which a holder relied on a lock to write, or on one to read.
#[derive(Debug)]
pub struct Span<'a, H> {
    /// The grant of which it is a part.
    pub grant: &'a Grant<H>,
    /// Whether other readers may hold the lock, too.
    pub reads: bool,
    /// Since when.
    pub from: Moment,
    /// Until when.
    pub to: Moment,
}

impl<H> Grant<H> {
    /// A grant to write whose end is not known. The moments are those of `began`, `granted` and `claimed`.
    #[must_use]
    pub fn new((resource, token): (impl Into<String>, u64), holder: H, [began, granted, claimed]: [Moment; 3]) -> Self {
        let (resource, reads, is_adopted) = (resource.into(), false, false);
        let (inherited, downgraded, ended, released, deleted) = (None, None, None, None, None);
        Self {
            resource,
            token,
            reads,
            is_adopted,
            holder,
            inherited,
            began,
            granted,
            claimed,
            downgraded,
            ended,
            released,
            deleted,
        }
    }

    /// A grant to read whose end is not known.
    #[must_use]
    pub fn to_read(grant: (impl Into<String>, u64), holder: H, moments: [Moment; 3]) -> Self {
        Self { reads: true, ..Self::new(grant, holder, moments) }
    }

    /// When the nodes were asked for it, at the earliest.
    #[must_use]
    pub fn taken(&self) -> Moment {
        self.inherited.map_or(self.began, |inherited| inherited.min(self.began))
    }

    /// For how long its holder relied on it to write, and for how long to read.
    pub fn spans(&self) -> impl Iterator<Item = Span<'_, H>> {
        let (from, to) = (self.granted, self.ends());
        let changes = if self.reads { from } else { self.downgraded.unwrap_or(Moment::MAX) };
        let writes = Span { grant: self, reads: false, from, to: to.min(changes) };
        let reads = Span { grant: self, reads: true, from: changes, to };
        let is_part = move |span: &Span<'_, H>| if span.reads { changes <= to } else { !self.reads };
        [writes, reads].into_iter().filter(is_part)
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
        let Self { resource, token, reads, holder, began, granted, .. } = self;
        let purpose = if *reads { "read" } else { "write" };
        let adopted = if self.is_adopted { "adopted, " } else { "" };
        write!(f, "token {token} of {resource} (to {purpose}, {adopted}{holder}: began {began}, granted {granted}, ")?;
        if let Some(downgraded) = self.downgraded {
            write!(f, "downgraded {downgraded}, ")?;
        }
        write!(f, "ended {})", self.ends())
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
