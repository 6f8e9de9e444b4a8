//! One lock-and-unlock cycle of a service's task, with random parameters.

use std::time::Duration;

use lock_core::{LockRequest, SetRequest};

use super::kind::Kind;
use super::{LONG_WAIT, MAX_TTL};
use lock_support::Dice;

/// The parameters of one cycle.
pub(super) struct Cycle {
    /// Never one that is not acquired.
    pub(super) kind: Kind,
    ttl: Duration,
    pub(super) wait: Duration,
    /// When the caller drops the acquisition if it has not completed.
    pub(super) dropped_after: Duration,
    renew: bool,
    max_hold: Duration,
    pub(super) work: Duration,
    /// Whether the holder writes although it has noticed a loss, like one that is paused just before the write.
    pub(super) ignores_loss: bool,
}

impl Cycle {
    /// Half of the cycles wait for long, so that there are queues. The others do not wait, wait briefly, or are
    /// dropped. Most use the same time to live, because a lock is only handed over to a caller that asks for the same.
    ///
    /// A `quick` cycle never holds for long: such a lock is passed on often, within processes and between them.
    pub(super) fn draw(dice: &mut Dice, kind: Kind, quick: bool) -> Self {
        let mut ms = |from: u64, to: u64| Duration::from_millis(from + dice.roll(to - from));
        let (tiny, short, medium, long) = (ms(0, 8), ms(2, 40), ms(100, 500), MAX_TTL + ms(100, 700));
        let (brief, soon, odd_ttl) = (ms(5, 60), ms(60, 600), ms(600, 1_000));
        let ttl = if dice.roll(4) == 0 { odd_ttl } else { MAX_TTL };
        let wait = match dice.roll(8) {
            0 => Duration::ZERO,
            1 => brief,
            2 => soon,
            3 => MAX_TTL,
            _ => LONG_WAIT,
        };
        let dropped_after = if dice.roll(8) == 0 { brief.max(soon / 2) } else { Duration::MAX };
        let (max_hold, ignores_loss) = (Duration::from_secs(20), dice.roll(3) > 0);
        let cycle = Self { kind, ttl, wait, dropped_after, renew: true, max_hold, work: short, ignores_loss };
        match dice.roll(100) {
            _ if quick => Self { work: tiny, ..cycle },
            0..82 => cycle,
            // These take longer in any case.
            82..94 if matches!(kind, Kind::Set | Kind::Delegate) => cycle,
            82..92 => Self { work: medium, ..cycle },
            92..94 => Self { work: long, ..cycle },
            94..97 => Self { work: long, renew: false, ..cycle },
            _ => Self { work: long, max_hold: medium, ..cycle },
        }
    }

    /// Everybody in the crowd waits for long. A third of them hold for so long that others can be hit meanwhile.
    pub(super) fn draw_in_crowd(dice: &mut Dice) -> Self {
        let (from, to) = if dice.roll(3) == 0 { (250, 400) } else { (0, 10) };
        Self {
            kind: Kind::Write,
            ttl: MAX_TTL,
            wait: LONG_WAIT,
            dropped_after: Duration::MAX,
            renew: true,
            max_hold: Duration::from_secs(20),
            work: Duration::from_millis(from + dice.roll(to - from)),
            ignores_loss: false,
        }
    }

    /// Whether it only reads. One that delegates does so now and then.
    pub(super) fn reads(&self) -> bool {
        match self.kind {
            Kind::Read => true,
            Kind::Delegate => !self.ignores_loss,
            Kind::Write | Kind::Downgrade | Kind::Set | Kind::Permit | Kind::Adopt | Kind::Force => false,
        }
    }

    pub(super) fn apply(&self, request: LockRequest) -> LockRequest {
        request.ttl(self.ttl).wait(self.wait).renew(self.renew).max_hold(self.max_hold)
    }

    pub(super) fn apply_to_set(&self, request: SetRequest) -> SetRequest {
        request.ttl(self.ttl).wait(self.wait).renew(self.renew).max_hold(self.max_hold)
    }
}
