use std::time::{Duration, Instant};

use lock_core::node::RESERVATION_TTL;
use redis::RedisResult;

use super::commands::{LOCKS, words};
use super::servers::Pair;

/// For whom each key is reserved, and for how much longer this is known; of a slot, what each of the waiters was told that may take it, and
/// for how much longer it may.
const READ: &str = "local all, time = {}, redis.call('TIME') \
    for _, key in ipairs(KEYS) do \
      local waiters, fields = redis.pcall('GET', key), redis.pcall('HGETALL', key) \
      if type(waiters) == 'string' then all[#all + 1] = {waiters, redis.call('PTTL', key)} end \
      local called = {} \
      for n = 2, #fields, 2 do \
        local at, told = string.match(fields[n], ' (%d+) (.+)$') \
        if at then called[#called + 1] = {'called ' .. fields[n - 1] .. ' ' .. told, at} end \
      end \
      table.sort(called, function(one, other) return one[1] < other[1] end) \
      for _, waiter in ipairs(called) do \
        all[#all + 1] = {waiter[1], waiter[2] + 100 - time[1] * 1000 - math.floor(time[2] / 1000)} \
      end \
    end \
    return all";
/// How long it is known for whom a key was reserved.
const RESERVED_TTL: Duration = Duration::from_secs(10);
/// The servers' clocks show whole milliseconds.
const SLACK: Duration = Duration::from_millis(3);

/// When the reservations of the locks pass, and the times of those that may take a slot, at the earliest and at the latest: on the two
/// servers they began at slightly different times.
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
        let (real, fake) = (reserved(real), reserved(fake));
        if real.len() != fake.len() {
            return Err(format!("the real server has {real:?}, the simulated one {fake:?}"));
        }
        let mut passing = Vec::new();
        for ((real, real_left), (fake, fake_left)) in real.into_iter().zip(fake) {
            if real != fake {
                return Err(format!("the real server reserves a key for {real:?}, the simulated one for {fake:?}"));
            }
            let [one, other] = [real_left, fake_left].map(|left| Duration::from_millis(left.try_into().unwrap_or(0)));
            if real.starts_with("called ") {
                passing.push((earliest + one.min(other).saturating_sub(SLACK), latest + one.max(other) + SLACK));
                continue;
            }
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
