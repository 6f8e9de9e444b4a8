//! Locks that are taken by force from permits, sets and readers of two processes while these pass them on. In virtual time.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::{join, join_all};
use lock_core::inspection::ForcedRelease;
use lock_core::node::EVICTION_GAP;
use lock_core::{Lease, LockError, LockGuard, LockManager, SetGuard};
use lock_history::Referee;
use lock_support::{MemoryCluster, eventually};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(60);
const MS: Duration = Duration::from_millis(1);
/// For how long the locks are taken from their holders.
const FORCED_FOR: Duration = Duration::from_secs(5);
/// Of each process.
const CALLERS: usize = 6;

/// Who held each lock, which was the last token that it was taken with, and how often each caller had something.
#[derive(Default)]
struct Record {
    referees: HashMap<String, Referee>,
    forced: HashMap<String, u64>,
    turns: [usize; CALLERS * 2],
}

impl Record {
    fn enter(&mut self, lease: &Lease) {
        let (name, token) = (lease.resource(), lease.token().get());
        if self.referees.entry(name.to_owned()).or_default().enter(lease) {
            assert!(self.forced.get(name).is_none_or(|forced| token > *forced), "{lease:?} was evicted");
        }
    }

    fn taken(&mut self, name: &str, forced: Result<ForcedRelease, LockError>) {
        match forced {
            Ok(forced) => _ = self.forced.insert(name.to_owned(), forced.token.get()),
            // The holder that was seen has lost it; the next one keeps it.
            Err(LockError::Contended { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Takes turns until the time is over, and then one more.
async fn take_turns(
    caller: usize,
    record: &Mutex<Record>,
    until: Instant,
    acquire: impl AsyncFn() -> Result<Held, LockError>,
) {
    loop {
        let is_last = Instant::now() >= until;
        match acquire().await {
            Ok((leases, guard)) => {
                record.lock().unwrap().turns[caller] += 1;
                leases.iter().for_each(|lease| record.lock().unwrap().enter(lease));
                sleep(MS * 3).await;
                leases.iter().for_each(|lease| record.lock().unwrap().referees[lease.resource()].leave(lease));
                drop(guard);
                if is_last {
                    return;
                }
                // Others have their turn.
                sleep(MS).await;
            }
            // The lock was evicted while it was acquired.
            Err(LockError::Expired { .. } | LockError::Lost { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The leases, and what holds them.
type Held = (Vec<Lease>, Box<dyn Any>);

fn one(guard: LockGuard) -> Held {
    (vec![guard.lease()], Box::new(guard))
}

fn all(set: SetGuard) -> Held {
    (set.iter().cloned().collect(), Box::new(set))
}

/// Takes these locks from whoever has them, one after another.
async fn force(locks: &LockManager, names: &[&str], pause: Duration, record: &Mutex<Record>, until: Instant) {
    while Instant::now() < until {
        for name in names {
            let forced = locks.force_release(name).await;
            record.lock().unwrap().taken(name, forced);
            sleep(pause).await;
        }
    }
}

/// Two processes take turns with what they acquire, while it is taken from them by a third one or by the first.
async fn is_sound(names: &[&str], acquire: impl AsyncFn(&LockManager, usize) -> Result<Held, LockError>) {
    for (by_ours, delay, pause) in [(false, 0, 40), (true, 0, 40), (false, 4, 7), (true, 4, 250), (false, 30, 100)] {
        let (cluster, [ours, theirs]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
        let third = cluster.builder().ttl(TTL).max_ttl(TTL).connect().await.unwrap();
        cluster.nodes.iter().for_each(|node| node.set_delay(MS * delay));
        let record = Mutex::new(Record::default());
        let until = Instant::now() + FORCED_FOR;
        let callers = join_all((0..CALLERS * 2).map(|caller| {
            let locks = if caller < CALLERS { &ours } else { &theirs };
            let (record, acquire) = (&record, &acquire);
            take_turns(caller, record, until, async move || acquire(locks, caller).await)
        }));
        let forcing = force(if by_ours { &ours } else { &third }, names, MS * pause, &record, until);
        let ended = timeout(FORCED_FOR + TTL * 4, join(callers, forcing)).await;
        let Record { turns, referees, .. } = record.into_inner().unwrap();
        assert!(ended.is_ok(), "{by_ours} {delay} {pause}: somebody waits for ever: {turns:?}");
        // One while locks are taken, and the last one.
        assert!(turns.iter().all(|turns| *turns >= 2), "{by_ours} {delay} {pause}: {turns:?}");
        referees.values().for_each(Referee::assert_no_violations);
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
        sleep(EVICTION_GAP).await;
        eventually("nothing is left", || cluster.holding() == 0).await;
        for name in names {
            let report = third.inspect(name).await.unwrap();
            assert!(report.nodes.iter().all(|node| node.waiters == 0), "{report:?}");
        }
    }
}

// promise: forced-release, permits
#[tokio::test(start_paused = true)]
async fn permits_that_are_taken_while_they_are_passed_on_are_held_by_no_more_than_there_are() {
    is_sound(&["p{0}", "p{1}"], async |locks, _| Ok(one(locks.permits("p", 2).acquire().await?))).await;
}

// promise: forced-release, several-locks, readers
#[tokio::test(start_paused = true)]
async fn sets_one_of_whose_locks_is_taken_at_any_moment_go_on_and_leave_nothing() {
    is_sound(&["a", "b", "c"], async |locks, caller| {
        let request = match caller % 3 {
            0 => locks.lock_all(["a", "b"]).read(["c"]),
            1 => locks.lock_all(["c", "b"]),
            _ => locks.lock_all(["a"]).read(["b", "c"]),
        };
        Ok(all(request.acquire().await?))
    })
    .await;
}

// promise: forced-release, several-locks, permits, readers
#[tokio::test(start_paused = true)]
async fn what_is_taken_from_sets_readers_and_permits_of_the_same_names_is_had_by_their_waiters() {
    is_sound(&["a", "a{0}", "b"], async |locks, caller| {
        Ok(match caller % 6 {
            0 | 1 => one(locks.read("a").acquire().await?),
            2 => one(locks.lock("a").acquire().await?),
            3 | 4 => one(locks.permits("a", 1).acquire().await?),
            _ => all(locks.lock_all(["b"]).read(["a"]).acquire().await?),
        })
    })
    .await;
}
