//! The settings that take longer than a test may.
//!
//! # Bounds
//!
//! Three nodes in each list, except where it says five; up to three clients that change something; two or three generations;
//! one or two rounds of proposals by each client, and three when a set is formed; one or two faults.
//!
//! What was given up so that they can be explored completely:
//!
//! - The choice of a roster is explored message by message, without locks. Beside a lock, a client does it in one step, or
//!   ([`Pace::Everything`]) all that can be done at that time. Two proposers that overtake each other, renewals over two
//!   changes, five nodes, and a lower `max_ttl` are explored only like that beside a lock.
//! - Clients that are [`fresh`](MembershipSetting::fresh) know what the nodes know; no other client has an old picture of
//!   them. A write is a compare-and-set, so an old picture mostly makes it fail.
//! - In most settings a client reads all nodes of its list in one step.
//! - Three proposers have one round each.
//! - Ticks are few: a lease takes one or two of them, and there are at most three.

use super::setting::{Locks, MembershipSetting, Pace};

/// One client.
const ALONE: &[&[usize]] = &[&[0, 1, 2]];
/// Node 3 takes the place of node 2.
const ONCE: &[&[usize]] = &[&[0, 1, 2], &[0, 1, 3]];
/// Node 3 takes the place of node 2, and then node 4 that of node 1. Nodes that missed the first change install the second.
const TWICE: &[&[usize]] = &[&[0, 1, 2], &[0, 1, 3], &[0, 3, 4]];
/// Two clients, each with a node of its own for the place of one.
const RIVALS: &[&[usize]] = &[&[0, 1, 2], &[0, 1, 3], &[1, 2, 4]];
/// Three of them.
const THREE_RIVALS: &[&[usize]] = &[&[0, 1, 2], &[0, 1, 3], &[1, 2, 4], &[0, 2, 5]];

impl MembershipSetting {
    /// Choices and the forming of sets, message by message and without locks; and then changes beside a lock.
    #[must_use]
    pub fn long() -> Vec<Self> {
        [Self::long_choices(), Self::long_forming(), Self::long_locks()].concat()
    }

    fn long_choices() -> Vec<Self> {
        let rivals = |name, lists| Self { passive: &[0], reads_all: true, ..Self::new(name, lists) };
        let late = |name, lists| Self { late_reads: 1, late_writes: 1, reads_all: true, ..Self::new(name, lists) };
        vec![
            rivals("two proposers", RIVALS),
            Self { max_round: 1, fresh: &[1, 2, 3], ..rivals("three proposers", THREE_RIVALS) },
            Self { forgets: 1, faulty: &[0, 1, 2, 3], max_generation: 3, ..Self::new("two generations", ONCE) },
            Self { fresh: &[0], ..late("late messages", ONCE) },
            Self { forgets: 1, faulty: &[2], ..late("late messages to a node that forgets", ALONE) },
        ]
    }

    fn long_forming() -> Vec<Self> {
        let form = |name, lists| Self { formed: false, max_round: 3, ..Self::new(name, lists) };
        let names = Self { forgets: 1, faulty: &[2], reads_all: true, ..form("forming with equal names", ONCE) };
        vec![
            Self { forgets: 2, faulty: &[0, 1, 2], deadlocks: true, ..form("forming", ALONE) },
            Self { same_name: Some((2, 3)), max_generation: 1, ..names },
        ]
    }

    fn long_locks() -> Vec<Self> {
        let timed = |ttl, last_tick, of: Self| Self { locks: Locks::Timed { ttl }, last_tick, reads_all: true, ..of };
        let choices = |of: Self| Self { pace: Pace::Choice, ..of };
        let whole = |of: Self| Self { pace: Pace::Everything, ..of };
        let alone = |name| Self { attempts: &[0, 0], forgets: 1, faulty: &[0, 1, 2], ..Self::new(name, ALONE) };
        let returns = Self { attempts: &[0, 1], restarts: 1, faulty: &[2], ..Self::new("one that left returns", ONCE) };
        let twice = |name| Self { attempts: &[0, 2], passive: &[0], max_generation: 3, ..Self::new(name, TWICE) };
        let rivals = Self { attempts: &[0, 0], passive: &[0], ..Self::new("two proposers beside a lock", RIVALS) };
        let five = Self { lists: &[&[0, 1, 2, 3, 4]], faulty: &[4], ..alone("five nodes") };
        let lower = Self { lowering: Some(0), max_generation: 4, faulty: &[2], ..alone("a lower max_ttl") };
        vec![
            timed(2, 3, choices(Self { fresh: &[0], ..alone("any node forgets") })),
            timed(1, 2, choices(Self { jumps: 1, fresh: &[0], ..alone("a wrong clock as well") })),
            timed(1, 1, choices(Self { fresh: &[1], ..returns })),
            timed(1, 1, choices(Self { fresh: &[1, 2], ..twice("two changes") })),
            timed(1, 2, whole(Self { renewals: 1, ..twice("renewals over two changes") })),
            timed(1, 1, whole(rivals)),
            timed(1, 1, whole(five)),
            timed(2, 3, whole(lower)),
        ]
    }
}
