//! What a process does: the rules of `LocalPermit` and `Wakeups` in lock-core.

use super::node::{TurnsPosition, TurnsReply, TurnsRequest};
use super::state::{TurnsAttempt, TurnsPhase, TurnsProcess};
use crate::nodes::Nodes;
use crate::state::NODES;

/// The longest pause, in ticks of half a reservation.
const MAX_PAUSE: u8 = 4;
/// The longest pause of a process that no majority can wake, and that is alone.
const MAX_POLL_PAUSE: u8 = 3;

impl TurnsProcess {
    /// Begins an attempt. Wake-ups from before do not count for it.
    pub(super) fn begin(&mut self, waits: bool) {
        self.phase = TurnsPhase::Acquiring(TurnsAttempt { waits, ..TurnsAttempt::default() });
        let acquire = TurnsRequest::Acquire(waits.then_some(self.since));
        self.requests.iter_mut().for_each(|requests| requests.push(acquire));
    }

    /// A reply to the acquire. Returns whether it made the process the holder.
    pub(super) fn reply(&mut self, node: usize, reply: TurnsReply) -> bool {
        let TurnsPhase::Acquiring(attempt) = &mut self.phase else {
            return false;
        };
        match reply {
            TurnsReply::Granted => attempt.granted.insert(node),
            TurnsReply::Held { remaining, stranger, position } => {
                attempt.held.insert(node);
                attempt.remaining[node] = remaining;
                self.positions.remove(node);
                if let Some(TurnsPosition { first, alone }) = position {
                    self.positions.insert(node);
                    attempt.behind_stranger |= stranger && first;
                    attempt.others |= !alone;
                }
            }
        }
        if attempt.granted.are_majority() {
            self.phase = TurnsPhase::Holding { held: attempt.held };
            return true;
        }
        if attempt.held.are_majority() {
            let failed = *attempt;
            self.fail(failed);
        }
        false
    }

    /// Undoes an attempt, and waits for the next if this is one that waits.
    fn fail(&mut self, attempt: TurnsAttempt) {
        let keeps = attempt.waits.then_some(self.since);
        for node in (0..NODES).filter(|node| !attempt.held.contains(*node)) {
            self.requests[node].push(TurnsRequest::Release(keeps));
            if attempt.waits {
                self.positions.insert(node);
            }
        }
        if !attempt.waits {
            self.phase = TurnsPhase::Idle;
            return;
        }
        let polls = !self.is_woken_by_majority();
        let mut timer = self.pause(&attempt, polls);
        if let Some(next_in) = attempt.next_in {
            timer = timer.min(next_in);
        }
        self.phase = TurnsPhase::Waiting { timer, polls, reserved: attempt.reserved };
        self.count_reservations();
    }

    /// How long to wait for a wake-up.
    fn pause(&self, attempt: &TurnsAttempt, polls: bool) -> u8 {
        if attempt.behind_stranger || polls && attempt.others {
            return 1;
        }
        let replied = (0..NODES).filter(|node| attempt.held.contains(*node) || attempt.granted.contains(*node));
        let mut times = replied.map(|node| attempt.remaining[node]).collect::<Vec<_>>();
        times.sort_unstable();
        times[NODES / 2].clamp(1, if polls { MAX_POLL_PAUSE } else { MAX_PAUSE })
    }

    /// A reservation that a majority told of is used at once, that of a minority soon.
    fn count_reservations(&mut self) {
        if let TurnsPhase::Waiting { timer, reserved, .. } = &mut self.phase {
            if reserved.are_majority() {
                *timer = 0;
            } else if *reserved != Nodes::default() {
                *timer = (*timer).min(2);
            }
        }
    }

    fn is_woken_by_majority(&self) -> bool {
        let mut waking = self.positions;
        (0..NODES).filter(|node| !self.hears.contains(*node)).for_each(|node| waking.remove(node));
        waking.are_majority()
    }

    /// A wake-up arrives. A process that does not wait says so.
    pub(super) fn wake(&mut self, node: usize, before: u8, answers: bool) {
        match &mut self.phase {
            TurnsPhase::Waiting { reserved, .. } if before == 0 => {
                reserved.insert(node);
                self.count_reservations();
            }
            TurnsPhase::Waiting { timer, .. } => *timer = (*timer).min(2 * before),
            TurnsPhase::Acquiring(attempt) if attempt.waits && before == 0 => attempt.reserved.insert(node),
            TurnsPhase::Acquiring(attempt) if attempt.waits => attempt.next_in = Some(2 * before),
            TurnsPhase::Holding { .. } | TurnsPhase::Dead => {}
            TurnsPhase::Idle | TurnsPhase::Acquiring(_) => {
                if before == 0 && answers {
                    self.requests[node].push(TurnsRequest::Leave);
                }
            }
        }
    }

    /// A node can wake it again.
    pub(super) fn reconnect(&mut self, node: usize) {
        self.hears.insert(node);
        let is_woken = self.is_woken_by_majority();
        if let TurnsPhase::Waiting { timer, polls: true, .. } = &mut self.phase
            && is_woken
        {
            *timer = 0;
        }
    }

    /// Releases the lock, or gives up, and leaves the queues.
    pub(super) fn leave(&mut self) {
        if let TurnsPhase::Holding { held } = self.phase {
            for node in (0..NODES).filter(|node| !held.contains(*node)) {
                self.requests[node].push(TurnsRequest::Release(None));
                self.positions.remove(node);
            }
        }
        for node in (0..NODES).filter(|node| self.positions.contains(*node)) {
            self.requests[node].push(TurnsRequest::Leave);
        }
        self.stop(TurnsPhase::Idle);
    }

    /// Neither holds the lock nor waits for it any more.
    pub(super) fn stop(&mut self, phase: TurnsPhase) {
        self.phase = phase;
        (self.since, self.began, self.passed) = (0, 0, 0);
        (self.positions, self.placed) = (Nodes::default(), Nodes::default());
    }

    /// A tick passes.
    pub(super) fn tick(&mut self) {
        if let TurnsPhase::Waiting { timer, .. } = &mut self.phase {
            *timer = timer.saturating_sub(1);
        }
    }
}
