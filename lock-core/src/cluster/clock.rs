//! The cluster clock: what a majority of the nodes' clocks show.

use tokio::time::Instant;

use super::Cluster;
use crate::quorum::cluster_clock;

/// The latest clock reading that is accepted; it will be reached in the year 2112. Tokens have room above it, up to 2^53 - 1.
const LATEST_CLOCK: u64 = 1 << 52;

impl Cluster {
    /// The cluster clock, carried forward from when the nodes' clocks were read. 0 if a majority of them is not known.
    pub(crate) fn clock(&self) -> u64 {
        self.clock_at(Instant::now())
    }

    /// The same, at a time that is not far from now.
    pub(crate) fn clock_at(&self, now: Instant) -> u64 {
        let read = *self.clock.lock();
        read.filter(|(micros, _)| *micros > 0).map_or(0, |read| carried_forward(read, now)).min(LATEST_CLOCK)
    }

    /// Sets the cluster clock by the nodes' clocks, one of which was read. That of a server counts once, whatever addresses it has: otherwise
    /// a wrong one could be a majority.
    pub(super) fn set_clock(&self) {
        let membership = self.membership();
        let is_first: Vec<bool> = (0..self.size()).map(|node| membership.now_at(node) == node).collect();
        drop(membership);
        let (mut clock, now) = (self.clock.lock(), Instant::now());
        let firsts = self.members.iter().zip(is_first).filter(|(_, is_first)| *is_first);
        let clocks = firsts.filter_map(|(member, _)| member.last_inspection.lock().clock);
        *clock = Some((cluster_clock(self.size(), clocks.map(|read| carried_forward(read, now))), now));
    }
}

/// A clock that showed some microseconds at a time, as it is now.
fn carried_forward((micros, at): (u64, Instant), now: Instant) -> u64 {
    let since = now.saturating_duration_since(at);
    micros.saturating_add(u64::try_from(since.as_micros()).unwrap_or_default())
}
