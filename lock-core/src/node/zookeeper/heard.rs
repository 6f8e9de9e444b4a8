use std::time::Duration;

use tokio::time::Instant;

/// Whether the leader is known to have heard of the session so lately that it lives for another `ttl`.
///
/// A session ends when the leader has not heard of it for its timeout. What a client sends to the leader counts at once. What it
/// sends to another server does not: that server tells the leader which sessions it heard of when the leader pings it, each half tick,
/// and a write that it forwards says nothing. If it dies right after it forwarded one, the leader goes by what it was told last. So
/// a sign of life counts here only when it is a tick old. It is by such a one that a lock is known to outlive its `ttl`.
///
/// A process that was stopped for a while, and goes on, finds the last of them too old, and grants nothing for a tick.
pub(super) struct Heard {
    timeout: Duration,
    tick: Duration,
    /// When the last sign of life was sent that the leader knows of.
    known: Instant,
    /// When the first one after that was sent, if it was answered.
    next: Option<Instant>,
}

impl Heard {
    /// A session of this timeout, which was asked for at this time. The leader opened it, so it knows.
    pub(super) fn new(timeout: Duration, tick: Duration, asked: Instant) -> Self {
        Self { timeout, tick, known: asked, next: None }
    }

    /// A sign of life was answered that was sent at this time.
    pub(super) fn answered(&mut self, sent: Instant) {
        self.settle(Instant::now());
        self.next.get_or_insert(sent);
    }

    /// Whether what is sent now, and carried out, lives for this long.
    pub(super) fn outlives(&mut self, ttl: Duration) -> bool {
        let now = Instant::now();
        self.settle(now);
        now.saturating_duration_since(self.known) + ttl <= self.timeout
    }

    fn settle(&mut self, now: Instant) {
        if let Some(next) = self.next.filter(|next| *next + self.tick <= now) {
            (self.known, self.next) = (next, None);
        }
    }

    /// How often a sign of life has to be sent.
    pub(super) fn interval(tick: Duration) -> Duration {
        tick / 2
    }

    /// How long a session has to be for locks that live this long: besides them, for the tick that it takes until a sign of life
    /// counts, the time until the next one, and a slow reply.
    pub(super) fn timeout_for(max_ttl: Duration, tick: Duration) -> Duration {
        max_ttl + tick * 2
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const TICK: Duration = Duration::from_secs(2);
    const TTL: Duration = Duration::from_secs(10);

    fn heard() -> Heard {
        Heard::new(Heard::timeout_for(TTL, TICK), TICK, Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_whose_signs_of_life_are_answered_outlives_its_locks() {
        let mut heard = heard();
        for _ in 0..100 {
            let sent = Instant::now();
            advance(TICK / 4).await;
            heard.answered(sent);
            assert!(heard.outlives(TTL));
            advance(Heard::interval(TICK)).await;
            assert!(heard.outlives(TTL));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_stop_a_sign_of_life_counts_when_it_is_a_tick_old() {
        let mut heard = heard();
        advance(TICK * 3).await;
        assert!(!heard.outlives(TTL));
        heard.answered(Instant::now());
        assert!(!heard.outlives(TTL));
        advance(TICK - Duration::from_millis(1)).await;
        assert!(!heard.outlives(TTL));
        advance(Duration::from_millis(1)).await;
        assert!(heard.outlives(TTL));
        assert!(!heard.outlives(TTL + TICK * 2), "a longer lock needs a longer session");
    }
}
