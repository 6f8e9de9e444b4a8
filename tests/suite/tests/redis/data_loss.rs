//! Nodes that lose their data: they must not vote twice, and must vote again as soon as that is safe.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::masters::Refusal;
use lock_core::node::{Keyspace, Kind, LockKeys, Operation, OwnerId, Reply, Request, WaiterId};
use lock_core::{ConfigError, ConnectError, LockError, LockManager, LockNode, NodeError, RedisNode, Vote};
use lock_history::Referee;
use lock_support::{MemoryCluster, RedisCluster, all_nodes_vote, ask, eventually, eventually_async};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);

/// Every minority of five nodes.
fn minorities() -> impl Iterator<Item = Vec<usize>> {
    let pairs =
        (0..5).flat_map(|one| (one..5).map(move |other| if one == other { vec![one] } else { vec![one, other] }));
    pairs.chain([vec![]])
}

// promise: quarantine
#[tokio::test(start_paused = true)]
async fn data_loss_on_any_minority_never_leads_to_two_valid_holders() {
    // The first lock is granted while some nodes are away; then they come back, and some nodes lose their data.
    for forgetful in minorities() {
        for away in minorities() {
            let cluster = MemoryCluster::new(5);
            let builder = || cluster.builder().ttl(TTL).max_ttl(TTL * 2);
            let (ours, theirs) = (builder().connect().await.unwrap(), builder().connect().await.unwrap());
            away.iter().for_each(|node| cluster.nodes[*node].set_down(true));
            let holder = ours.lock("r").renew(false).acquire().await.unwrap();
            away.iter().for_each(|node| cluster.nodes[*node].set_down(false));
            forgetful.iter().for_each(|node| cluster.nodes[*node].forget());

            let referee = Referee::default();
            assert!(referee.enter(&holder));
            let case = format!("{forgetful:?} lost their data after a grant without {away:?}");
            let started = Instant::now();
            while started.elapsed() < TTL * 3 {
                if let Ok(guard) = theirs.lock("r").try_acquire().await {
                    assert!(referee.enter(&guard), "{case}");
                    referee.leave(&guard);
                }
                assert_eq!(referee.violations(), Vec::<String>::new(), "{case}");
                sleep(Duration::from_millis(30)).await;
            }
            assert!(referee.entered() > 1, "{case}: nobody acquired the lock after its ttl");
        }
    }
}

// promise: quarantine
#[tokio::test(start_paused = true)]
async fn a_client_that_reaches_only_nodes_that_lost_their_data_gets_no_quorum() {
    let cluster = MemoryCluster::new(5);
    let ours = cluster.builder().connect().await.unwrap();
    let holder = ours.lock("r").acquire().await.unwrap();
    cluster.nodes[0].forget();
    cluster.nodes[1].forget();
    // From now on no client reaches the other nodes, not even one that has just started.
    cluster.nodes[2..].iter().for_each(|node| node.set_down(true));
    for locks in [ours.clone(), cluster.manager()] {
        for _ in 0..100 {
            let error = locks.lock("other").wait(TTL).acquire().await.unwrap_err();
            assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
            sleep(Duration::from_millis(500)).await;
        }
        assert!(!locks.health().await.quorum);
    }
    assert_eq!(cluster.nodes[0].lock_keys().len() + cluster.nodes[1].lock_keys().len(), 0);
    drop(holder);
}

// promise: quarantine
#[tokio::test(start_paused = true)]
async fn nodes_that_lost_their_data_vote_again_only_after_their_quarantine() {
    let cluster = MemoryCluster::new(5);
    let max_ttl = Duration::from_secs(30);
    let locks = cluster.builder().ttl(TTL).max_ttl(max_ttl).connect().await.unwrap();
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    cluster.nodes[0].forget();
    cluster.nodes[1].forget();
    let lost_data = Instant::now();
    eventually_async("both are in quarantine", async || {
        let health = locks.health().await;
        health.nodes.iter().filter(|node| matches!(node.problem, Some(NodeError::Quarantined { .. }))).count() == 2
    })
    .await;
    cluster.nodes[2].set_down(true);
    let mut granted_after = None;
    while lost_data.elapsed() < max_ttl * 2 && granted_after.is_none() {
        match locks.lock("r").try_acquire().await {
            Ok(_) => granted_after = Some(lost_data.elapsed()),
            Err(error) => {
                let LockError::NoQuorum { votes, .. } = &error else { panic!("{error}") };
                let quarantined = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::Quarantined { .. }));
                assert!(votes[..2].iter().all(|vote| quarantined(&vote.vote)), "{error}");
            }
        }
        sleep(Duration::from_millis(50)).await;
    }
    let after = granted_after.unwrap();
    assert!(after >= max_ttl && after < max_ttl + Duration::from_secs(3), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_held_lock_survives_data_loss_on_one_node_after_another() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().ttl(TTL).max_ttl(TTL).connect().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    for node in 0..5 {
        cluster.nodes[node].forget();
        eventually("renewal restores the key", || !cluster.nodes[node].lock_keys().is_empty()).await;
        sleep(TTL * 2).await;
        assert!(guard.is_valid(), "node {node}");
    }
    assert!(guard.release().await.unwrap());
    assert_eq!(cluster.lock_keys(), Vec::<String>::new(), "released where it was restored, too");
}

// promise: quarantine
#[tokio::test]
async fn data_loss_on_a_minority_of_real_servers_never_leads_to_two_valid_holders() {
    let mut cluster = RedisCluster::start(5).await;
    let builder = || cluster.builder().ttl(TTL * 2).max_ttl(TTL * 2).node_timeout(TTL / 4);
    let (ours, theirs) = (builder().connect().await.unwrap(), builder().connect().await.unwrap());
    let referee = Referee::default();
    for round in 0..3 {
        cluster.servers[4].stop();
        let holder = ours.lock("r").renew(false).acquire().await.unwrap();
        assert!(referee.enter(&holder));
        cluster.servers[4].cont();
        // Of the four servers that granted, one is flushed, and in later rounds another one restarts without its data.
        cluster.servers[round].query::<String>("FLUSHALL").await;
        if round > 0 {
            cluster.servers[3].restart_empty().await;
        }
        let guard = loop {
            match theirs.lock("r").try_acquire().await {
                Ok(guard) => break guard,
                Err(LockError::Contended { .. } | LockError::NoQuorum { .. }) => {
                    sleep(Duration::from_millis(5)).await;
                }
                Err(error) => panic!("{error}"),
            }
        };
        assert!(referee.enter(&guard));
        referee.assert_no_violations();
        referee.leave(&guard);
        referee.leave(&holder);
        drop((guard, holder));
        cluster.no_lock_is_left().await;
        all_nodes_vote(&ours).await;
        all_nodes_vote(&theirs).await;
    }
}

#[tokio::test]
async fn an_idle_client_finds_nodes_that_another_client_has_established_again() {
    let cluster = RedisCluster::start(3).await;
    let builder = || cluster.builder().ttl(TTL / 5).max_ttl(TTL / 5);
    let (idle, other) = (builder().connect().await.unwrap(), builder().connect().await.unwrap());
    for server in &cluster.servers[..2] {
        server.query::<String>("FLUSHALL").await;
        eventually_async("the other client has established the node again", async || {
            drop(other.lock("r").acquire().await);
            server.keys("lock:{node}*").await == ["lock:{node}"]
        })
        .await;
        // A node has its record before it has its seat. If the next one forgot by then, a majority would have forgotten.
        all_nodes_vote(&other).await;
    }
    all_nodes_vote(&idle).await;
    assert!(idle.lock("r").acquire().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn managers_that_start_a_new_set_together_need_not_wait() {
    for round in 0_u64..150 {
        let cluster = MemoryCluster::new(5);
        for (number, node) in (0..).zip(&cluster.nodes) {
            // Delays that differ from round to round, so that the managers interleave in many ways.
            node.set_delay(Duration::from_micros((round * 37 + number * round * 101) % 5_000));
        }
        let started = Instant::now();
        let managers = start_three(round, || cluster.builder()).await;
        assert!(started.elapsed() < Duration::from_millis(900), "round {round}: {:?}", started.elapsed());
        assert_all_vote(&managers, &format!("round {round}")).await;
    }
}

// promise: membership
#[tokio::test]
async fn managers_that_start_a_new_set_on_real_servers_together_need_not_wait() {
    let cluster = RedisCluster::start(5).await;
    for round in 0..30 {
        // With a new prefix, every round is a first start.
        let builder = || cluster.builder().prefix(format!("start-{round}:")).node_timeout(TTL);
        let managers = start_three(round, builder).await;
        assert_all_vote(&managers, &format!("round {round}")).await;
    }
}

/// Starts three managers, up to a few milliseconds apart.
async fn start_three(round: u64, builder: impl Fn() -> lock_core::LockManagerBuilder) -> Vec<LockManager> {
    let managers = (0_u64..3).map(|number| {
        let builder = builder();
        async move {
            sleep(Duration::from_micros(round * number * 211 % 7_000)).await;
            builder.connect().await.unwrap()
        }
    });
    join_all(managers).await
}

async fn assert_all_vote(managers: &[LockManager], case: &str) {
    for locks in managers {
        let health = locks.health().await;
        assert!(health.nodes.iter().all(|node| node.admitted), "{case}: {health:?}");
        let guard = locks.lock("r").try_acquire().await.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert!(guard.release().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_with_another_set_config_is_refused_with_the_setting_that_differs() {
    let cluster = MemoryCluster::new(5);
    let ours = cluster.builder().set_name("a").connect().await.unwrap();
    assert!(ours.health().await.quorum);
    let others = [
        (cluster.builder().set_name("b"), "set_name", "\"b\"", "\"a\""),
        (LockManager::builder().set_name("a").nodes(cluster.nodes[..3].to_vec()), "number of nodes", "3", "5"),
    ];
    for (builder, wanted, our_value, their_value) in others {
        let builder = builder.ttl(TTL);
        let error = builder.connect().await.unwrap_err();
        let ConnectError::Config(ConfigError::RefusedNode { refusal, .. }) = &error else { panic!("{error}") };
        let Refusal::OtherSet { field, ours, theirs } = refusal else { panic!("{refusal}") };
        assert_eq!((*field, ours.as_str(), theirs.as_str()), (wanted, our_value, their_value));
        assert!(error.to_string().contains(wanted), "{error}");
    }
    assert!(ours.health().await.quorum, "the set is unchanged");
    assert!(cluster.builder().prefix("another:").connect().await.is_ok(), "another prefix is another set");
}

// promise: quarantine
#[tokio::test]
async fn a_server_that_restarts_with_its_data_does_not_vote_in_its_old_epoch() {
    let mut cluster = RedisCluster::start(1).await;
    cluster.builder().connect().await.unwrap();
    let node = RedisNode::from_url(&cluster.servers[0].url()).unwrap();
    let keyspace = Arc::new(Keyspace::new("lock:"));
    let epoch = node.inspect(&keyspace).await.unwrap().record.get().unwrap().epoch.unwrap();
    let acquire = || {
        let operation = Operation::Acquire {
            owner: OwnerId::from_bits(7),
            ttl: TTL,
            hint: 0,
            tokens: 1,
            since: None,
            kind: Kind::Write,
        };
        let keys = LockKeys::new(&keyspace, "r");
        ask(&node, Request { keys, epoch, waiter: WaiterId::from_bits(1), polls: false, operation })
    };
    assert!(matches!(acquire().await, Ok(Reply::Granted { .. })));

    // The record is there, and no quarantine; but nobody knows whether locks were lost with the last run.
    cluster.servers[0].restart_with_data().await;
    eventually_async("an inspection succeeds", async || node.inspect(&keyspace).await.is_ok()).await;
    assert_eq!(acquire().await, Err(NodeError::Unadmitted), "the record is from another run");
}
