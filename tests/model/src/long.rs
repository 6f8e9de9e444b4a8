//! The largest settings, which the long run explores.

use super::setting::{Setting, Time};
use super::state::NODES;

impl Setting {
    /// Three attempts, and two while other locks share the fence.
    #[must_use]
    pub fn long_attempts() -> Vec<Self> {
        let three = Self { held_replies: false, duplicates: false, ..Self::attempts(3, [0; NODES], 2) };
        let blocks = Self { tokens: [2, 1, 1, 1], duplicates: false, ..Self::attempts(2, [0, 1, 2], 4) };
        let shared = Self { fence_advances: 1, held_replies: false, ..blocks.clone() };
        let shared = Self { initial_fences: [0; NODES], max_fence: 3, ..shared };
        let in_time = Self::sharing(2, 0, 2, Time { ttl: 2, quarantine: 2, last_tick: 3 });
        vec![Self::attempts(2, [0, 1, 2], 3), blocks, three, shared, in_time]
    }

    /// Two attempts, while nodes lose their data.
    #[must_use]
    pub fn long_forgetting() -> Vec<Self> {
        let twice = Self::forgetting(2, 2, Time { ttl: 2, quarantine: 2, last_tick: 5 });
        vec![twice, Self::sharing(2, 1, 1, Time { ttl: 2, quarantine: 2, last_tick: 3 })]
    }

    /// Leases that are renewed, while nodes lose their data.
    #[must_use]
    pub fn long_renewal() -> Vec<Self> {
        vec![Self::renewal(2, 1, 1, Time { ttl: 2, quarantine: 2, last_tick: 3 })]
    }

    /// Writers and readers.
    #[must_use]
    pub fn long_reading() -> Vec<Self> {
        let time = Time { ttl: 2, quarantine: 2, last_tick: 3 };
        let one_tick = Time { ttl: 1, quarantine: 1, last_tick: 3 };
        let two_readers = Self::shared(1, 2, time);
        vec![
            Self::shared(2, 2, time),
            Self { renewals: 1, ..two_readers.clone() },
            Self { forgets: 1, ..two_readers },
            Self { downgrades: true, ..Self::shared(2, 1, time) },
            Self { ttls: Some([2, 3, 1, 1]), ..Self::shared(1, 2, Time { ttl: 3, ..time }) },
            Self { prompt: true, ..Self::reading(3, 2, 0, one_tick) },
            Self { prompt: true, ..Self::reading(3, 1, 0, one_tick) },
            Self { downgrades: true, ..Self::shared_tokens(1, 1, [0; NODES], 2) },
            Self { evicts: true, ..Self::shared(1, 1, time) },
            Self { readers: 1, prompt: true, ..Self::eviction(1, 2, time) },
            Self { readers: 1, prompt: true, max_fence: 3, ..Self::eviction(2, 0, Time { last_tick: 1, ..time }) },
        ]
    }

    /// Holders that are evicted.
    #[must_use]
    pub fn long_eviction() -> Vec<Self> {
        const TICKS: Time = Time { ttl: 2, quarantine: 2, last_tick: 2 };
        let in_time = Self::eviction(2, 0, TICKS);
        let joined =
            Self { evicts: true, joins: true, renewals: 1, ..Self::shared(2, 0, Time { last_tick: 3, ..TICKS }) };
        vec![Self::eviction(1, 2, Time { last_tick: 4, ..TICKS }), in_time, joined]
    }
}
