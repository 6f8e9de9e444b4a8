//! How a task wants a lock, and for what: left to the dice.

use std::time::Duration;

use lock_core::LockRequest;

use super::{MAX_TTL, PATIENT};
use lock_support::Dice;

/// One round.
pub(super) struct Round {
    ttl: Duration,
    pub(super) wait: Duration,
    /// When the caller drops the acquisition, if it is not done before.
    pub(super) dropped_after: Duration,
    renew: bool,
    max_hold: Duration,
    pub(super) work: Duration,
    /// Whether the holder writes although it was told that its lease ended, as one does that was paused just before writing.
    pub(super) careless: bool,
}

impl Round {
    /// Half of the rounds are patient, so that there are lines and queues, and the others give up: at once, soon, or dropped.
    /// Most want the same time to live, for a lock is handed over as it is, or not at all.
    ///
    /// One that is `hurried` never works long: such a resource goes from hand to hand, within processes and between them.
    pub(super) fn draw(dice: &mut Dice, hurried: bool) -> Self {
        let mut ms = |from: u64, to: u64| Duration::from_millis(from + dice.roll(to - from));
        let (hurry, short, medium, long) = (ms(0, 8), ms(2, 40), ms(100, 500), MAX_TTL + ms(100, 700));
        let (impatient, soon, odd_ttl) = (ms(5, 60), ms(60, 600), ms(600, 1_000));
        let ttl = if dice.roll(4) == 0 { odd_ttl } else { MAX_TTL };
        let wait = match dice.roll(8) {
            0 => Duration::ZERO,
            1 => impatient,
            2 => soon,
            3 => MAX_TTL,
            _ => PATIENT,
        };
        let dropped_after = if dice.roll(8) == 0 { impatient.max(soon / 2) } else { Duration::MAX };
        let (max_hold, careless) = (Duration::from_secs(20), dice.roll(3) > 0);
        let round = Self { ttl, wait, dropped_after, renew: true, max_hold, work: short, careless };
        match dice.roll(100) {
            _ if hurried => Self { work: hurry, ..round },
            0..78 => round,
            78..90 => Self { work: medium, ..round },
            90..93 => Self { work: long, ..round },
            93..97 => Self { work: long, renew: false, ..round },
            _ => Self { work: long, max_hold: medium, ..round },
        }
    }

    pub(super) fn apply(&self, request: LockRequest) -> LockRequest {
        request.ttl(self.ttl).wait(self.wait).renew(self.renew).max_hold(self.max_hold)
    }
}
