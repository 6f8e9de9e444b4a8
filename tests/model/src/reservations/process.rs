//! What a process does: the rules of `Turn` and `Wakeups` in lock-core.

use super::node::{ReservationsPosition, ReservationsReply, ReservationsRequest};
use super::state::{ReservationsAttempt, ReservationsPhase, ReservationsProcess};
use crate::nodes::Nodes;
use crate::state::NODES;

/// The longest pause, in ticks of half a reservation.
const MAX_PAUSE: u8 = 4;
/// The longest pause of a process that no majority can wake: less than two ticks, so that it has its reservation.
const POLL_PAUSE: u8 = 1;

impl ReservationsProcess {
    /// Begins an attempt. Wake-ups from before do not count for it.
    pub(super) fn begin(&mut self, waits: bool) {
        self.phase = ReservationsPhase::Acquiring(ReservationsAttempt { waits, ..ReservationsAttempt::default() });
        self.waking = self.hears;
        let acquire = ReservationsRequest::Acquire(waits.then_some(self.since));
        self.requests.iter_mut().for_each(|requests| requests.push(acquire));
    }

    /// A reply to the acquire. Returns whether it made the process the holder.
    pub(super) fn reply(&mut self, node: usize, reply: ReservationsReply) -> bool {
        let ReservationsPhase::Acquiring(attempt) = &mut self.phase else {
            return false;
        };
        match reply {
            ReservationsReply::Granted => attempt.granted.insert(node),
            ReservationsReply::Held { remaining, stranger, position } => {
                attempt.held.insert(node);
                attempt.remaining[node] = remaining;
                self.positions.remove(node);
                if let Some(ReservationsPosition { first }) = position {
                    self.positions.insert(node);
                    attempt.behind_stranger |= stranger && first;
                }
            }
        }
        if attempt.granted.are_majority() {
            self.phase = ReservationsPhase::Holding { held: attempt.held };
            return true;
        }
        if attempt.held.are_majority() {
            let failed = *attempt;
            self.fail(failed);
        }
        false
    }

    /// Undoes an attempt, and waits for the next if this is one that waits.
    fn fail(&mut self, attempt: ReservationsAttempt) {
        let keeps = attempt.waits.then_some(self.since);
        for node in (0..NODES).filter(|node| !attempt.held.contains(*node)) {
            self.requests[node].push(ReservationsRequest::Release(keeps));
            if attempt.waits {
                self.positions.insert(node);
            }
        }
        if !attempt.waits {
            self.phase = ReservationsPhase::Idle;
            return;
        }
        let mut timer = self.pause(&attempt);
        if let Some(next_in) = attempt.next_in {
            timer = timer.min(next_in);
        }
        self.phase = ReservationsPhase::Waiting { timer, reserved: attempt.reserved };
        self.count_reservations();
        self.tell_change();
    }

    /// How long to wait for a wake-up.
    fn pause(&self, attempt: &ReservationsAttempt) -> u8 {
        if attempt.behind_stranger {
            return 1;
        }
        if !self.waking.are_majority() && self.positions != Nodes::default() {
            return POLL_PAUSE;
        }
        let replied = (0..NODES).filter(|node| attempt.held.contains(*node) || attempt.granted.contains(*node));
        let mut times = replied.map(|node| attempt.remaining[node]).collect::<Vec<_>>();
        times.sort_unstable();
        times[NODES / 2].clamp(1, MAX_PAUSE)
    }

    /// A reservation that a majority told of is used at once, that of a minority soon.
    fn count_reservations(&mut self) {
        if let ReservationsPhase::Waiting { timer, reserved, .. } = &mut self.phase {
            if reserved.are_majority() {
                *timer = 0;
            } else if *reserved != Nodes::default() {
                *timer = (*timer).min(1);
            }
        }
    }

    /// The next attempt tells each node whether it can wake the process.
    pub(super) fn tell_change(&mut self) {
        let has_changed = self.hears != self.waking;
        if let ReservationsPhase::Waiting { timer, .. } = &mut self.phase
            && has_changed
        {
            *timer = (*timer).min(1);
        }
    }

    /// A wake-up arrives. A process that does not wait says so.
    pub(super) fn wake(&mut self, node: usize, before: u8, answers: bool) {
        match &mut self.phase {
            ReservationsPhase::Waiting { reserved, .. } if before == 0 => {
                reserved.insert(node);
                self.count_reservations();
            }
            ReservationsPhase::Waiting { timer, .. } => *timer = (*timer).min(2 * before),
            ReservationsPhase::Acquiring(attempt) if attempt.waits && before == 0 => attempt.reserved.insert(node),
            ReservationsPhase::Acquiring(attempt) if attempt.waits => attempt.next_in = Some(2 * before),
            ReservationsPhase::Holding { .. } | ReservationsPhase::Dead => {}
            ReservationsPhase::Idle | ReservationsPhase::Acquiring(_) => {
                if answers {
                    self.requests[node].push(ReservationsRequest::Leave);
                }
            }
        }
    }

    /// Releases the lock, or gives up, and leaves the queues.
    pub(super) fn leave(&mut self) {
        if let ReservationsPhase::Holding { held } = self.phase {
            for node in (0..NODES).filter(|node| !held.contains(*node)) {
                self.requests[node].push(ReservationsRequest::Release(None));
                self.positions.remove(node);
            }
        }
        for node in (0..NODES).filter(|node| self.positions.contains(*node)) {
            self.requests[node].push(ReservationsRequest::Leave);
        }
        self.stop(ReservationsPhase::Idle);
    }

    /// Neither holds the lock nor waits for it any more.
    pub(super) fn stop(&mut self, phase: ReservationsPhase) {
        self.phase = phase;
        (self.since, self.began, self.passed) = (0, 0, 0);
        (self.positions, self.placed) = (Nodes::default(), Nodes::default());
    }

    /// A tick passes.
    pub(super) fn tick(&mut self) {
        if let ReservationsPhase::Waiting { timer, .. } = &mut self.phase {
            *timer = timer.saturating_sub(1);
        }
    }
}
