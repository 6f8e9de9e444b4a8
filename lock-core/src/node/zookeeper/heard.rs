//! A part of the ledger: how long the session is sure to live. Must be right: a lock ends with its session.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Whether the leader is known to have heard of the session so lately that it lives for another `ttl`.
///
/// A session ends when the leader has not heard of it for its timeout. What a client sends to the leader counts at once. What it
/// sends to another server does not: that server tells the leader which sessions it heard of when the leader pings it, each half tick,
/// and a write that it forwards says nothing. If it dies right after it forwarded one, the leader goes by what it was told last.
///
/// So a sign of life counts only when a round trip to the leader, a `sync`, follows it twice. The first is sent more than half a tick after
/// the sign was answered. When it is answered, a ping has come to the server after the sign, because what the leader sends to a server
/// arrives in order. The second is sent after that. When it is answered, the reply to this ping has come to the leader, because
/// what a server sends to the leader arrives in order as well. Each `sync` is a sign of life itself, for those before it. A server that
/// was cut off from its leader answers none.
///
/// A process that was stopped for a while, and goes on, finds the last of them too old, and grants nothing for a tick or a little more.
pub(super) struct Heard {
    timeout: Duration,
    tick: Duration,
    /// When the last sign of life was sent that the leader knows of.
    known: Instant,
    /// Those after that which were answered, in order. Few: after a tick and a half, each is known.
    pending: VecDeque<Sign>,
}

struct Sign {
    sent: Instant,
    answered: Instant,
    /// When the first round trip was over that shows that the server was pinged after this sign.
    pinged: Option<Instant>,
}

impl Heard {
    /// A session of this timeout, which was asked for at this time. The leader opened it, so it knows.
    pub(super) fn new(timeout: Duration, tick: Duration, asked: Instant) -> Self {
        Self { timeout, tick, known: asked, pending: VecDeque::new() }
    }

    /// A sign of life was answered just now that was sent at this time.
    pub(super) fn answered(&mut self, sent: Instant) {
        let now = Instant::now();
        while let Some(sign) = self.pending.front().filter(|sign| sign.pinged.is_some_and(|pinged| pinged <= sent)) {
            self.known = sign.sent;
            self.pending.pop_front();
        }
        // Half a tick, and an eighth for a leader that pings late.
        let between_pings = self.tick * 5 / 8;
        for sign in self.pending.iter_mut().filter(|sign| sign.answered + between_pings <= sent) {
            sign.pinged.get_or_insert(now);
        }
        self.pending.push_back(Sign { sent, answered: now, pinged: None });
    }

    /// Whether what is sent now, and carried out, lives for this long.
    pub(super) fn outlives(&self, ttl: Duration) -> bool {
        self.known.elapsed() + ttl <= self.timeout
    }

    /// How often a sign of life has to be sent.
    pub(super) fn interval(tick: Duration) -> Duration {
        tick / 4
    }

    /// How long a session has to be for locks that live this long. Besides them, for one and a quarter ticks: that old is the last known
    /// sign of life when the next one is known. The rest is for timers and replies that are late.
    pub(super) fn timeout_for(max_ttl: Duration, tick: Duration) -> Duration {
        max_ttl + tick * 2
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep_until};

    use super::*;

    const TICK: Duration = Duration::from_secs(2);
    const TTL: Duration = Duration::from_secs(10);

    fn heard() -> Heard {
        Heard::new(Heard::timeout_for(TTL, TICK), TICK, Instant::now())
    }

    /// Gives signs of life for a time, with replies that take so long.
    async fn give_signs(heard: &mut Heard, time: Duration, reply: Duration, mut check: impl FnMut(&Heard)) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let sent = Instant::now();
            advance(reply).await;
            check(heard);
            heard.answered(sent);
            sleep_until(sent + Heard::interval(TICK)).await;
            check(heard);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_whose_signs_of_life_are_answered_outlives_its_locks() {
        for reply in [TICK / 1000, TICK / 8] {
            let mut heard = heard();
            // With half a tick to spare for a timer that is late.
            give_signs(&mut heard, TICK * 100, reply, |heard| assert!(heard.outlives(TTL + TICK / 2))).await;
            assert!(heard.pending.len() < 8);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn replies_that_are_slow_once_in_a_while_cost_nothing() {
        let mut heard = heard();
        for _ in 0..20 {
            give_signs(&mut heard, TICK * 2, TICK / 20, |heard| assert!(heard.outlives(TTL))).await;
            give_signs(&mut heard, TICK / 4, TICK / 2, |heard| assert!(heard.outlives(TTL))).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sign_of_life_counts_when_two_round_trips_to_the_leader_followed_it() {
        let mut heard = heard();
        advance(TICK * 3).await;
        assert!(!heard.outlives(TTL));
        let sign = Instant::now();
        // Slow: the server may have heard of it at the end only, however old the request is.
        advance(TICK).await;
        heard.answered(sign);
        let early = Instant::now() + TICK / 2;
        advance(TICK / 2).await;
        heard.answered(early);
        let first = early + TICK / 4;
        advance(TICK / 4).await;
        assert!(heard.known < sign, "no ping is known to have come after it");
        heard.answered(first);
        heard.answered(first - Duration::from_millis(1));
        assert!(heard.known < sign, "the reply to the ping may not have come");
        heard.answered(Instant::now());
        assert_eq!(heard.known, sign);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_stop_nothing_is_granted_for_a_tick_or_a_little_more() {
        let mut heard = heard();
        advance(TICK * 3).await;
        let (went_on, mut votes_again) = (Instant::now(), None);
        give_signs(&mut heard, TICK * 2, TICK / 100, |heard| {
            if heard.outlives(TTL) {
                votes_again.get_or_insert(Instant::now());
            }
        })
        .await;
        let after = votes_again.unwrap() - went_on;
        assert!(after >= TICK && after <= TICK * 5 / 4, "{after:?}");
    }
}
