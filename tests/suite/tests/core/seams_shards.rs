//! Locks in several shards, one of which is in trouble. In virtual time.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{FencingToken, LockError, LockManager, LockManagerBuilder, MemoryNode, NodeError, SetRequest, Vote};
use lock_support::{Kind, ShardedMaster, eventually};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(60);
/// How long the masters are given to reply, and how long those of a slow shard take.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);
const SLOW: Duration = Duration::from_millis(40);
/// The most attempts of a shard that are in progress at once on three nodes.
const MAX_ATTEMPTS: usize = 213;

/// How many locks there are, so that each shard has more than it has attempts in three rounds.
const NAMES: usize = 1600;

/// Three masters, each with two shards.
struct Masters(Vec<ShardedMaster>);

impl Masters {
    fn new() -> Self {
        Self((0..3).map(|_| ShardedMaster::new(2)).collect())
    }

    fn builder(&self) -> LockManagerBuilder {
        LockManager::builder().nodes(self.0.clone()).shards(2).ttl(TTL).max_ttl(TTL).node_timeout(NODE_TIMEOUT)
    }

    async fn manager(&self) -> LockManager {
        self.builder().connect().await.unwrap()
    }

    /// The nodes of a shard.
    fn of_shard(&self, shard: usize) -> impl Iterator<Item = &MemoryNode> {
        self.0.iter().map(move |master| master.node(shard))
    }

    /// The locks that the nodes of a shard have, each once.
    fn held_in(&self, shard: usize) -> Vec<String> {
        let keys = self.of_shard(shard).flat_map(MemoryNode::lock_keys);
        let mut names: Vec<String> = keys.filter_map(|key| Some(key.split_once("stock:")?.1.to_owned())).collect();
        names.sort();
        names.dedup();
        names.into_iter().map(|name| format!("stock:{name}")).collect()
    }

    /// Names of locks in each of the shards.
    async fn names(&self) -> [Vec<String>; 2] {
        let locks = self.manager().await;
        let guards = join_all((0..NAMES).map(|number| locks.lock(format!("stock:{number}")).acquire())).await;
        let names = [self.held_in(0), self.held_in(1)];
        assert!(guards.iter().all(Result::is_ok) && names[0].len() + names[1].len() == NAMES, "each is in one shard");
        locks.shutdown(TTL).await;
        names
    }

    /// A lock of each shard, of which that of `trouble` comes first in the order in which sets are taken; and one of which it comes last.
    async fn pairs(&self, trouble: usize) -> [(String, String); 2] {
        let mut names = self.names().await;
        let sound = {
            let sound = &mut names[1 - trouble];
            sound.swap_remove(sound.len() / 2)
        };
        let is_before = |name: &&String| **name < sound;
        let before = names[trouble].iter().find(is_before).unwrap();
        let behind = names[trouble].iter().find(|name| !is_before(name)).unwrap();
        [(before.clone(), sound.clone()), (behind.clone(), sound.clone())]
    }
}

async fn token(locks: &LockManager, name: &str) -> FencingToken {
    let guard = locks.lock(name).wait(WAIT).acquire().await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    token
}

/// A set of two locks to write.
fn set(locks: &LockManager, names: &(String, String)) -> SetRequest {
    locks.lock_all([&names.0, &names.1])
}

// promise: several-locks, fencing
#[tokio::test(start_paused = true)]
async fn a_set_whose_lock_in_one_shard_is_contended_keeps_nothing_in_the_other() {
    for trouble in [0, 1] {
        let masters = Masters::new();
        for pair in masters.pairs(trouble).await {
            let (contended, free) = &pair;
            let [ours, theirs] = [masters.manager().await, masters.manager().await];
            let held = theirs.lock(contended).acquire().await.unwrap();
            let mut last = token(&theirs, free).await;
            for wait in [Duration::ZERO, TTL * 3] {
                let error = set(&ours, &pair).wait(wait).acquire().await.unwrap_err();
                assert!(matches!(error, LockError::Contended { .. }), "{error}");
                assert_eq!((error.resource(), ours.held().len()), (contended.as_str(), 0));
                let next = theirs.lock(free).try_acquire().await.unwrap();
                assert!(next.token() > last, "{} {last}", next.token());
                last = next.token();
                next.release().await.unwrap();
                assert_eq!(masters.held_in(1 - trouble), [""; 0]);
                assert_eq!(masters.held_in(trouble), [contended.as_str()]);
            }
            // One that waits has the rest only if it comes before what it waits for, and both when that is free.
            let waiting = tokio::spawn(set(&ours, &pair).wait(WAIT).acquire());
            sleep(TTL * 5).await;
            let comes_before = free < contended;
            assert_eq!(theirs.lock(free).try_acquire().await.is_err(), comes_before);
            let before = held.token();
            drop(held);
            let both = waiting.await.unwrap().unwrap();
            assert!(both[0].token() > before && both[1].token() > last && both.is_valid());
            let tokens = [both[0].token(), both[1].token()];
            both.release().await.unwrap();
            assert!(token(&theirs, contended).await > tokens[0] && token(&theirs, free).await > tokens[1]);
        }
    }
}

// promise: several-locks, fencing, overload
#[tokio::test(start_paused = true)]
async fn a_set_for_which_there_is_no_place_in_the_line_of_one_shard_keeps_nothing_in_the_other() {
    for trouble in [0, 1] {
        let masters = Masters::new();
        let names = masters.names().await;
        for pair in masters.pairs(trouble).await {
            let (crowded, free) = &pair;
            let [ours, theirs] = [masters.manager().await, masters.manager().await];
            let before = [token(&theirs, crowded).await, token(&theirs, free).await];
            masters.of_shard(trouble).for_each(|node| node.set_delay(SLOW));
            // As many as there are attempts at once, and those that take their places twice.
            let others = names[trouble].iter().filter(|name| *name != crowded).take(MAX_ATTEMPTS * 3);
            let crowd: Vec<_> = others.map(|name| tokio::spawn(ours.lock(name).wait(WAIT).acquire())).collect();
            sleep(Duration::from_millis(1)).await;
            let began = Instant::now();
            let error = set(&ours, &pair).try_acquire().await.unwrap_err();
            assert!(began.elapsed() <= NODE_TIMEOUT, "{:?}", began.elapsed());
            let is_overloaded = |vote: &Vote| *vote == Vote::Failed(NodeError::Overloaded);
            assert!(
                error.resource() == crowded && error.votes().iter().all(|vote| is_overloaded(&vote.vote)),
                "{error}"
            );
            assert_eq!(masters.held_in(1 - trouble), [""; 0]);
            // The line of the other shard is as empty as before, in the same manager.
            let now = Instant::now();
            let next = ours.lock(free).try_acquire().await.unwrap();
            assert!(now.elapsed().is_zero() && next.token() > before[1]);
            let last = next.token();
            next.release().await.unwrap();
            let both = set(&ours, &pair).wait(WAIT).acquire().await.unwrap();
            assert!(both[0].token() > before[0] && both[1].token() > last && both.is_valid());
            masters.of_shard(trouble).for_each(|node| node.set_delay(Duration::ZERO));
            for one in crowd {
                drop(one.await.unwrap().unwrap());
            }
        }
    }
}

/// What may happen to the masters of a shard.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A majority of them is down.
    Down,
    /// A majority of them lost its data, and grants nothing for a while.
    Forgot,
    /// None of them answers in time.
    Stalled,
}

impl Fault {
    const ALL: [Self; 3] = [Self::Down, Self::Forgot, Self::Stalled];

    fn begin(self, masters: &Masters, shard: usize) {
        match self {
            Self::Down => masters.of_shard(shard).take(2).for_each(|node| node.set_down(true)),
            Self::Forgot => masters.of_shard(shard).take(2).for_each(MemoryNode::forget),
            Self::Stalled => masters.of_shard(shard).for_each(|node| node.set_delay(WAIT * 10)),
        }
    }

    fn end(self, masters: &Masters, shard: usize) {
        for node in masters.of_shard(shard) {
            node.set_down(false);
            node.set_delay(Duration::ZERO);
        }
    }
}

// promise: lost-quorum, health
#[tokio::test(start_paused = true)]
async fn a_shard_that_lost_its_quorum_turns_away_its_own_callers_and_no_others() {
    for (trouble, fault) in [0, 1].into_iter().flat_map(|shard| Fault::ALL.map(|fault| (shard, fault))) {
        let masters = Masters::new();
        let names = masters.names().await;
        let [pair, _] = masters.pairs(trouble).await;
        let (broken, sound) = &pair;
        let [ours, theirs] = [masters.manager().await, masters.manager().await];
        let [lost, kept] = [ours.lock(broken).acquire().await.unwrap(), ours.lock(sound).acquire().await.unwrap()];
        let (before, last) = (lost.token(), kept.token());
        let waiting = tokio::spawn(theirs.lock(sound).wait(WAIT).acquire());
        sleep(TTL).await;
        fault.begin(&masters, trouble);
        lost.lost().await;

        let health = ours.health().await;
        assert_eq!(health.shards_without_quorum, [u32::try_from(trouble).unwrap()], "{fault:?}");
        assert!(health.nodes.iter().all(|node| node.shard as usize == trouble || node.admitted), "{fault:?}");
        assert_eq!(ours.ready().await, Ok(()), "locks can be had");

        // Beside those whom the shard turns away, one after another.
        let refused = join_all((0..20).map(|_| ours.lock(broken).wait(TTL * 10).acquire())).await;
        assert!(
            refused.iter().all(|refused| matches!(refused, Err(LockError::NoQuorum { .. }))),
            "{fault:?} {refused:?}"
        );
        assert!(kept.is_valid(), "it is renewed");
        drop(kept);
        let woken = Instant::now();
        let next = waiting.await.unwrap().unwrap();
        assert!(woken.elapsed() < NODE_TIMEOUT && next.token() > last, "{fault:?} {:?}", woken.elapsed());
        next.release().await.unwrap();
        // The locks of a set have other names, which may be in the other shard.
        for (kind, name) in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Set).zip(&names[1 - trouble]) {
            let began = Instant::now();
            drop(kind.acquire(&ours, name).await.unwrap());
            assert!(began.elapsed() < NODE_TIMEOUT, "{fault:?} {kind:?} {:?}", began.elapsed());
        }

        // A set in both is one that cannot be had, and nothing of it is.
        let error = set(&ours, &pair).wait(TTL / 2).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::NoQuorum { .. }) && error.resource() == broken, "{fault:?} {error}");
        eventually("nothing is held", || masters.held_in(1 - trouble).is_empty()).await;

        fault.end(&masters, trouble);
        let both = set(&theirs, &pair).wait(WAIT).acquire().await;
        let both = match both {
            Err(LockError::NoQuorum { .. }) => {
                // Until the masters are inspected again, or their quarantine is over.
                sleep(WAIT).await;
                set(&theirs, &pair).wait(WAIT).acquire().await.unwrap()
            }
            both => both.unwrap(),
        };
        assert!(both[0].token() > before && both[1].token() > last, "{fault:?}");
        assert!(ours.health().await.quorum);
    }
}
