//! Bad input is rejected with typed errors that name what is wrong, before any request is sent.

use std::time::Duration;

use lock_core::limits::{InvalidName, MAX_HOLD, MAX_TTL, MAX_WAIT, MIN_TTL};
use lock_core::{ConfigError, LockError, LockManager, LockManagerBuilder, LockRequest, MemoryNode};
use lock_support::MemoryCluster;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_resource_is_1_to_512_bytes_without_control_characters_or_braces() {
    let locks = LockManager::in_memory();
    for good in ["a", "stock:42", "größe/1 2", "a%3Ab", &"x".repeat(512), "lock:", "*", "node"] {
        let guard = locks.lock(good).try_acquire().await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(guard.resource(), good);
    }
    for bad in ["", &"x".repeat(513), &"ö".repeat(257), "a{b", "a}b", "{node}", "a\nb", "a\0b", "a\u{7f}b", "a\u{85}b"]
    {
        let error = locks.lock(bad).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidResource { .. }), "{bad:?}: {error}");
        assert_eq!(error.resource(), bad);
        assert!(error.retry_after().is_none());
        let error = locks.lock(bad).run(async |_| unreachable!("not run")).await;
        assert!(matches!(error, Err::<(), _>(LockError::InvalidResource { .. })));
    }
}

// promise: distinct-errors
#[tokio::test(start_paused = true)]
async fn an_option_out_of_range_is_reported_with_its_range() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().max_ttl(SECOND * 30).connect().await.unwrap();
    type Set = fn(LockRequest) -> LockRequest;
    let bad: [(&str, Set, Duration, Duration); 8] = [
        ("ttl", |request| request.ttl(MIN_TTL - MS), MIN_TTL, SECOND * 30),
        ("ttl", |request| request.ttl(SECOND * 30 + MS), MIN_TTL, SECOND * 30),
        ("ttl", |request| request.ttl(Duration::ZERO), MIN_TTL, SECOND * 30),
        ("wait", |request| request.wait(MAX_WAIT + MS), Duration::ZERO, MAX_WAIT),
        ("max_hold", |request| request.max_hold(Duration::ZERO), MS, MAX_HOLD),
        ("max_hold", |request| request.max_hold(Duration::MAX), MS, MAX_HOLD),
        ("min_validity", |request| request.min_validity(SECOND * 10), Duration::ZERO, SECOND * 10 - MS * 102),
        ("min_validity", |request| request.min_validity(Duration::MAX), Duration::ZERO, SECOND * 10 - MS * 102),
    ];
    for (field, set, least, most) in bad {
        let error = set(locks.lock("r")).acquire().await.unwrap_err();
        let LockError::InvalidOptions { reason, .. } = &error else { panic!("{error}") };
        assert_eq!((reason.field, reason.least, reason.most), (field, least, most), "{error}");
        assert!(error.to_string().contains(field), "{error}");
    }
    let good: [Set; 5] = [
        |request| request.ttl(MIN_TTL),
        |request| request.ttl(SECOND * 30),
        |request| request.wait(MAX_WAIT),
        |request| request.max_hold(MS),
        |request| request.max_hold(MAX_HOLD).min_validity(SECOND),
    ];
    for set in good {
        set(locks.lock("r")).acquire().await.unwrap().release().await.unwrap();
    }
}

fn with_nodes(count: usize) -> LockManagerBuilder {
    LockManager::builder().nodes((0..count).map(|_| MemoryNode::new()))
}

#[test]
fn an_invalid_configuration_is_rejected() {
    let error = |builder: LockManagerBuilder| builder.connect_lazy().map(|_| ()).unwrap_err();
    assert_eq!(error(LockManager::builder()), ConfigError::NoNodes);
    for even in [2, 4, 6] {
        assert_eq!(error(with_nodes(even)), ConfigError::EvenNodes { nodes: even });
    }
    assert!(matches!(error(with_nodes(65)), ConfigError::TooManyNodes { nodes: 65, .. }));
    assert_eq!(error(with_nodes(3).max_waiters(0)), ConfigError::NoWaiters);
    assert_eq!(error(with_nodes(3).max_buffered_bytes(0)), ConfigError::NoBufferedBytes);
    for bad in ["{a}", "a\n", &"x".repeat(513)] {
        let error = error(with_nodes(3).prefix(bad));
        assert!(matches!(&error, ConfigError::InvalidName { field: "prefix", name, .. } if name == bad), "{error}");
    }
    let urls = |hosts: std::ops::Range<u8>| hosts.map(|host| format!("redis://10.0.0.{host}")).collect::<Vec<_>>();
    for sets in [[urls(1..2), urls(2..5)], [urls(2..5), urls(1..2)]] {
        let [one, other] = sets;
        let durable = LockManager::builder().set(one).set(other).assume_durable(true);
        assert_eq!(error(durable), ConfigError::DurableSet { nodes: 3 });
    }
    for bad in ["", "a\nb"] {
        let error = error(LockManager::builder().redis_factory(bad, async |_| unreachable!("nobody connects")));
        assert!(matches!(&error, ConfigError::InvalidName { field: "node", name, .. } if name == bad), "{error}");
    }
    let node = MemoryNode::new();
    let twice = error(LockManager::builder().nodes([node.clone(), MemoryNode::new(), node]));
    assert!(matches!(&twice, ConfigError::DuplicateNode { node } if node.starts_with("memory-")), "{twice}");
    for (builder, field) in [
        (with_nodes(3).ttl(MIN_TTL - MS), "ttl"),
        (with_nodes(3).ttl(SECOND * 61), "ttl"),
        (with_nodes(3).max_ttl(MAX_TTL + MS), "max_ttl"),
        (with_nodes(3).max_ttl(MS), "max_ttl"),
        (with_nodes(3).ttl(SECOND * 10).max_ttl(SECOND * 5), "ttl"),
        (with_nodes(3).wait(Duration::MAX), "wait"),
        (with_nodes(3).max_hold(Duration::ZERO), "max_hold"),
        (with_nodes(3).min_validity(SECOND * 10), "min_validity"),
        (with_nodes(3).node_timeout(Duration::ZERO), "node_timeout"),
        (with_nodes(3).node_timeout(SECOND * 11), "node_timeout"),
    ] {
        let error = error(builder);
        assert!(matches!(&error, ConfigError::OutOfRange(range) if range.field == field), "{field}: {error}");
    }
    assert!(with_nodes(3).max_ttl(SECOND * 5).connect_lazy().is_ok(), "the default ttl is lowered to max_ttl");
    for good in [1, 3, 5, 7, 63] {
        assert!(with_nodes(good).connect_lazy().is_ok());
    }
}

#[test]
fn an_invalid_url_is_reported_without_its_password() {
    for bad in [
        "",
        "10.0.0.1:6379",
        "http://10.0.0.1",
        "redis://:s3cret@10.0.0.1/x",
        "rediss://:s3cret@10.0.0.1/x",
        "redis://:s3cret@",
    ] {
        let error = LockManager::builder().redis([bad]).connect_lazy().map(|_| ()).unwrap_err();
        assert!(matches!(error, ConfigError::InvalidUrl { .. }), "{bad}: {error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
    let same = ["redis://10.0.0.1:6379", "redis://10.0.0.2", "redis://:other@10.0.0.1"];
    let error = LockManager::builder().redis(same).connect_lazy().map(|_| ()).unwrap_err();
    assert_eq!(error, ConfigError::DuplicateNode { node: "10.0.0.1:6379".into() });
    let locks = LockManager::builder().redis(["redis://user:s3cret@10.0.0.1/2"]).connect_lazy().unwrap();
    assert!(!format!("{locks:?}").contains("s3cret"), "{locks:?}");
    assert!(format!("{locks:?}").contains("10.0.0.1:6379/2"), "{locks:?}");
}

// promise: distinct-errors
#[tokio::test(start_paused = true)]
async fn an_error_message_is_one_line_and_names_the_resource() {
    let locks = LockManager::in_memory();
    let error = locks.lock("a{b").acquire().await.unwrap_err();
    let LockError::InvalidResource { reason, .. } = &error else { panic!("{error}") };
    assert_eq!(*reason, InvalidName::Character { character: '{', at: 1 });
    let _held = locks.lock("r").acquire().await.unwrap();
    let contended = locks.lock("r").try_acquire().await.unwrap_err();
    locks.close();
    let closed = locks.lock("r").try_acquire().await.unwrap_err();
    for error in [error, contended, closed] {
        let text = error.to_string();
        assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
        assert!(text.starts_with(|first: char| first.is_lowercase() || first == '"'), "{text}");
        assert!(text.contains(error.resource()), "{text}");
    }
}
