//! Steps of a master's clock while it votes.
//!
//! A step forward expires keys early, and the master goes on voting at once. So it may only be taken while a majority
//! keeps each lock without this master; the nemesis makes sure of that with all services stopped. A step back makes
//! keys live for too long, which the nemesis mends where nobody deletes them.

use std::collections::HashMap;
use std::time::Duration;

use redis::RedisResult;
use tokio::time::sleep;

use super::super::history::Event;
use super::super::{MAX_TTL, PREFIX, SERVERS};
use super::arena::Arena;
use super::master::Master;
use lock_support::Dice;

/// The largest step.
const MOST: i64 = 3 * 3_600;
/// How long the requests of stopped services may take to arrive.
const IN_FLIGHT: Duration = Duration::from_millis(20);
/// How often it tries to find a moment at which a majority keeps each lock: for a step that need not be, and for one
/// that sets a clock right.
const TRIES: usize = 60;
const MANY_TRIES: usize = 500;
/// After a step, everything that it may have shortened is over: locks, and entries about quarantines.
const SETTLED: Duration = MAX_TTL.saturating_mul(2);
/// What the key of a lock contains while readers hold it.
const SHARED: &str = "lock-shared";

/// From a second to hours.
pub(super) fn seconds(dice: &mut Dice) -> i64 {
    let most = [2, 60, 3_600, MOST][dice.index(4)];
    1 + i64::try_from(dice.roll(most.unsigned_abs())).unwrap()
}

/// A step forward, and one back beyond the right time or only to it.
pub(super) async fn step(arena: &Arena<'_>, master: &Master, dice: &mut Dice) {
    if !forward(arena, master, seconds(dice), TRIES).await {
        return;
    }
    let offset = if dice.roll(2) == 0 { -seconds(dice) } else { 0 };
    master.server.step_clock(offset);
    mend(arena, master).await;
    set_right(arena, master, offset).await;
}

/// Steps the clock of a master far ahead if it does not vote. Returns the offset.
pub(super) async fn jump_in_quarantine(arena: &Arena<'_>, seat: usize, master: &Master) -> Option<i64> {
    // If it begins to vote only now, nobody has locked anything on it.
    let _frozen = arena.fleet.freeze().await;
    sleep(IN_FLIGHT).await;
    if arena.observer.votes().await[seat] {
        return None;
    }
    // Later than any other wrong clock.
    let offset = 2 * MOST;
    master.server.step_clock(offset);
    Some(offset)
}

/// Steps the clock forward to this offset, if there is a moment at which it may be done.
async fn forward(arena: &Arena<'_>, master: &Master, offset: i64, tries: usize) -> bool {
    for _ in 0..tries {
        let frozen = arena.fleet.freeze().await;
        sleep(IN_FLIGHT).await;
        let kept = others_keep_each_lock(arena, master).await;
        if kept {
            master.server.step_clock(offset);
        }
        drop(frozen);
        if kept {
            arena.journal.write(Event::ClockStepped { seconds: offset });
            sleep(SETTLED).await;
            return true;
        }
        sleep(IN_FLIGHT).await;
    }
    false
}

/// Whether a majority of the masters has each lock of this master, without it, and votes.
async fn others_keep_each_lock(arena: &Arena<'_>, master: &Master) -> bool {
    let votes = arena.observer.votes().await;
    let mut kept: HashMap<(String, String), usize> = HashMap::new();
    for (address, votes) in arena.addresses().iter().zip(votes) {
        if !votes || *address == master.server.url() {
            continue;
        }
        let Ok(locks) = locks(address).await else { return false };
        locks.into_iter().for_each(|lock| *kept.entry(lock).or_default() += 1);
    }
    let Ok(own) = locks(&master.server.url()).await else { return false };
    own.into_iter().all(|lock| kept.get(&lock).is_some_and(|kept| *kept > SERVERS / 2))
}

/// The locks on a master, with their holders: for one that is read, the marker and the readers.
async fn locks(address: &str) -> RedisResult<Vec<(String, String)>> {
    let mut connection = redis::Client::open(address)?.get_multiplexed_async_connection().await?;
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("{PREFIX}[^{{]*")).query_async(&mut connection).await?;
    let (probes, mut locks) = (format!("{PREFIX}probe-"), Vec::new());
    // Nobody else wants what probes lock.
    for key in keys.into_iter().filter(|key| !key.starts_with(&probes)) {
        let holder: Option<String> = redis::cmd("GET").arg(&key).query_async(&mut connection).await?;
        let Some(holder) = holder else { continue };
        if holder == SHARED {
            // Each reader has an entry of its own, which a step forward ends as it does a key.
            let readers = format!("{PREFIX}{{{}}}:readers", key.strip_prefix(PREFIX).unwrap_or_default());
            let now: (u64, u64) = redis::cmd("TIME").query_async(&mut connection).await?;
            let command = redis::cmd("ZRANGEBYSCORE").arg(readers).arg(now.0 * 1_000).arg("+inf").clone();
            let alive: Vec<String> = command.query_async(&mut connection).await?;
            locks.extend(alive.into_iter().map(|reader| (key.clone(), reader)));
        }
        locks.push((key, holder));
    }
    Ok(locks)
}

/// Sets the clock of a master that votes right, which is wrong by this offset.
pub(super) async fn set_right(arena: &Arena<'_>, master: &Master, offset: i64) {
    if offset > 0 {
        master.server.step_clock(0);
        mend(arena, master).await;
    } else if offset < 0 && !forward(arena, master, 0, MANY_TRIES).await {
        arena.problem("at no moment did a majority keep each lock, so a clock could not be set right".to_owned());
    }
}

/// After a step back, or a start with a clock that is behind, gives the clients time to delete what lives for too long,
/// and then shortens what they left. No lock that may be valid ends by that.
pub(super) async fn mend(arena: &Arena<'_>, master: &Master) {
    sleep(MAX_TTL).await;
    let shortened = shorten(master).await.unwrap_or_default();
    arena.journal.write(Event::KeysShortened { count: shortened });
}

async fn shorten(master: &Master) -> RedisResult<usize> {
    let mut connection = master.server.connect().await?;
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("{PREFIX}*")).query_async(&mut connection).await?;
    let (most, mut shortened) = (i64::try_from(MAX_TTL.as_millis()).unwrap(), 0);
    for key in keys {
        let left: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut connection).await?;
        if left > 2 * most {
            shortened += 1;
            redis::cmd("PEXPIRE").arg(&key).arg(most).query_async::<()>(&mut connection).await?;
        }
    }
    Ok(shortened)
}
