use std::time::{Duration, Instant};

use lock_core::node::RESERVATION_TTL;
use redis::RedisResult;

use super::commands::{LOCKS, words};
use super::servers::Pair;

/// For whom each key is reserved, and for how much longer this is known.
const READ: &str = "local all = {} \
    for n, key in ipairs(KEYS) do \
      local waiters = redis.pcall('GET', key) \
      all[n] = {type(waiters) == 'string' and waiters or '', redis.call('PTTL', key)} \
    end \
    return all";
/// How long it is known for whom a key was reserved.
const RESERVED_TTL: Duration = Duration::from_secs(10);
/// The servers' clocks show whole milliseconds.
const SLACK: Duration = Duration::from_millis(3);

/// When the reservations of the locks pass, at the earliest and at the latest: on the two servers they began at slightly different
/// times.
#[derive(Default)]
pub(crate) struct Reservations(Vec<(Instant, Instant)>);

impl Reservations {
    /// Reads them. `Err` names the difference if they are not the same on both servers.
    pub(crate) async fn read(pair: &mut Pair) -> Result<Self, String> {
        let keys = LOCKS.iter().map(|lock| lock.reserved.as_str());
        let count = LOCKS.len().to_string();
        let read = words(&["EVAL", READ, &count].into_iter().chain(keys).collect::<Vec<_>>());
        let earliest = Instant::now();
        let (real, fake) = pair.ask(&read).await;
        let latest = Instant::now();
        let reserved = |answer: RedisResult<_>| redis::from_redis_value::<Vec<(String, i64)>>(answer.unwrap()).unwrap();
        let mut passing = Vec::new();
        for ((real, real_left), (fake, fake_left)) in reserved(real).into_iter().zip(reserved(fake)) {
            if real != fake {
                return Err(format!("the real server reserves a key for {real:?}, the simulated one for {fake:?}"));
            }
            let [one, other] = [real_left, fake_left].map(|left| Duration::from_millis(left.try_into().unwrap_or(0)));
            for n in 1..=u32::try_from(real.split_whitespace().count()).unwrap() {
                // The n-th passes when this much is left.
                let then = RESERVED_TTL.saturating_sub(RESERVATION_TTL * n);
                passing.push((earliest + one.min(other) - then - SLACK, latest + one.max(other) - then + SLACK));
            }
        }
        Ok(Self(passing))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a reservation may have passed on one server and not on the other when a command was executed.
    pub(crate) fn may_differ(&self, (began, ended): (Instant, Instant)) -> bool {
        self.0.iter().any(|(earliest, latest)| ended > *earliest && began < *latest)
    }

    /// Waits until all have passed on both.
    pub(crate) async fn outlast(&self) {
        let soon = Instant::now() + RESERVED_TTL / 5;
        if let Some(latest) = self.0.iter().map(|(_, latest)| *latest).filter(|latest| *latest < soon).max() {
            tokio::time::sleep_until(latest.into()).await;
        }
    }
}
