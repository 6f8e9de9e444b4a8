//! Delegations: another service works under a lock as long as it is the holder's, and no longer.

use std::time::Duration;

use lock_core::delegation::{AdoptError, DelegateError, Delegation};
use lock_core::{Kind, LockError, LockManager, MemoryNode};
use tokio::time::Instant;

pub(crate) const TTL: Duration = Duration::from_secs(1);

/// The holder's service, and another one on the same masters.
pub(crate) async fn two_services() -> (Vec<MemoryNode>, LockManager, LockManager) {
    let nodes: Vec<_> = (0..5).map(|_| MemoryNode::new()).collect();
    let service = || LockManager::builder().nodes(nodes.clone()).ttl(TTL);
    let (holder, other) = (service().connect().await.unwrap(), service().audience("billing").connect().await.unwrap());
    (nodes, holder, other)
}

async fn is_refused(other: &LockManager, delegation: &Delegation) -> bool {
    matches!(other.adopt(delegation.as_str(), "stock:42").await, Err(AdoptError::Refused { .. }))
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn another_service_works_under_the_token_of_the_holder() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().audience("billing").create().unwrap();
    let adopted = other.adopt(delegation.as_str(), "stock:42").await.unwrap();
    assert_eq!((adopted.token(), adopted.resource()), (guard.token(), "stock:42"));
    assert!(adopted.is_valid() && adopted.remaining() <= guard.remaining());
    assert_eq!(other.held().len(), 1, "a shutdown waits for it");
    // Renewed by the holder, it outlives the time to live.
    tokio::time::sleep(TTL / 2).await;
    assert!(adopted.is_valid());
    let delegated_again = adopted.lease().delegate().create();
    assert!(matches!(delegated_again, Err(DelegateError::Adopted { .. })), "{delegated_again:?}");
    drop(adopted);
    assert!(guard.is_valid(), "it was not the adopter's to release");
    assert!(other.held().is_empty());
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_delegated_lock_is_not_handed_over_to_the_next_local_holder() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().expires_in(TTL * 60).create().unwrap();
    let text = delegation.as_str().to_owned();
    let waiting = tokio::spawn({
        let holder = holder.clone();
        async move { holder.lock("stock:42").acquire().await }
    });
    tokio::task::yield_now().await;
    delegation.around(async { Ok::<_, ()>(()) }).await.unwrap();
    guard.release().await.unwrap();
    let _next = waiting.await.unwrap().unwrap();
    // Handed over, the lock would have the same owner id.
    let replayed = other.adopt(&text, "stock:42").await;
    assert!(matches!(replayed, Err(AdoptError::Refused { .. })), "{replayed:?}");
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_read_is_delegated_to_read() {
    let (_nodes, holder, other) = two_services().await;
    let reader = holder.read("catalog").acquire().await.unwrap();
    let beside = other.read("catalog").acquire().await.unwrap();
    let delegation = reader.delegate().create().unwrap();
    let adopted = other.adopt(delegation.as_str(), "catalog").await.unwrap();
    assert_eq!((adopted.kind(), adopted.token()), (Kind::Read, reader.token()));
    let write = adopted.lease().scope(other.lock("catalog").try_acquire()).await;
    assert!(matches!(write, Err(LockError::Upgrade { .. })), "{write:?}");
    assert!(reader.release().await.unwrap());
    tokio::time::sleep(TTL / 2).await;
    assert!(adopted.is_valid(), "it is left to expire, while others renew");
    tokio::time::sleep(TTL).await;
    assert!(!adopted.is_valid() && beside.is_valid());
    drop(beside);
    drop(holder.lock("catalog").wait(TTL * 2).acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_join_after_all_leaves_a_delegated_key_to_expire() {
    let (nodes, holder, other) = two_services().await;
    let reader = holder.read("catalog").acquire().await.unwrap();
    let delegation = reader.delegate().create().unwrap();
    let adopted = other.adopt(delegation.as_str(), "catalog").await.unwrap();
    // The masters' last word is too old, so the next reader asks them, and gives up while it does.
    tokio::time::sleep(TTL / 10).await;
    nodes.iter().for_each(|node| node.set_delay(TTL / 100));
    let mut joining = Box::pin(holder.read("catalog").acquire());
    assert!(futures_util::poll!(&mut joining).is_pending());
    drop(reader);
    drop(joining);
    tokio::time::sleep(TTL / 20).await;
    let writer = other.lock("catalog").try_acquire().await;
    assert!(matches!(writer, Err(LockError::Contended { .. })), "{writer:?}");
    assert!(adopted.is_valid());
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_lock_under_which_another_service_writes_is_not_downgraded() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("catalog").acquire().await.unwrap();
    let delegation = guard.delegate().expires_in(TTL * 60).create().unwrap();
    let text = delegation.as_str().to_owned();
    let adopted = other.adopt(&text, "catalog").await.unwrap();
    let error = guard.downgrade().await.unwrap_err();
    assert!(matches!(error, LockError::Delegated { ref resource } if resource == "catalog"), "{error}");
    assert!(adopted.is_valid(), "the key is left to expire");

    let guard = holder.lock("catalog").wait(TTL * 2).acquire().await.unwrap();
    let delegation = guard.delegate().expires_in(TTL * 60).create().unwrap();
    let text = delegation.as_str().to_owned();
    delegation.around(async { Ok::<_, ()>(()) }).await.unwrap();
    let reader = guard.downgrade().await.unwrap();
    assert!(matches!(other.adopt(&text, "catalog").await, Err(AdoptError::Refused { .. })), "it is of a lock to write");
    let delegation = reader.delegate().create().unwrap();
    assert_eq!(other.adopt(delegation.as_str(), "catalog").await.unwrap().kind(), Kind::Read);
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_release_under_an_adopter_leaves_the_key_to_expire() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().create().unwrap();
    let adopted = other.adopt(delegation.as_str(), "stock:42").await.unwrap();
    assert!(guard.release().await.unwrap());
    assert!(adopted.is_valid());
    let next = holder.lock("stock:42").try_acquire().await;
    assert!(matches!(next, Err(LockError::Contended { .. })), "{next:?}");
    let next = holder.lock("stock:42").wait(TTL * 2).acquire().await.unwrap();
    assert!(!adopted.is_valid(), "the next holder came when its validity was over");
    assert!(next.token() > adopted.token());
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_request_that_failed_leaves_its_delegation_unfinished() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().create().unwrap();
    let timed_out = delegation.around(async { Err::<(), _>("timed out") }).await;
    assert_eq!(timed_out, Err("timed out"));
    drop(guard);
    assert!(other.lock("stock:42").try_acquire().await.is_err());
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_lock_that_its_holder_lost_is_lost_for_the_adopter() {
    let (nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().create().unwrap();
    let adopted = other.adopt(delegation.as_str(), "stock:42").await.unwrap();
    nodes[..3].iter().for_each(MemoryNode::forget);
    let began = Instant::now();
    adopted.lost().await;
    assert!(began.elapsed() < TTL, "{:?}", began.elapsed());
    assert!(is_refused(&other, &delegation).await || other.adopt(delegation.as_str(), "stock:42").await.is_err());
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_minority_proves_nothing() {
    let (nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().create().unwrap();
    nodes[..2].iter().for_each(|node| node.set_down(true));
    drop(other.adopt(delegation.as_str(), "stock:42").await.unwrap());
    nodes[2].set_down(true);
    let unknown = other.adopt(delegation.as_str(), "stock:42").await;
    assert!(matches!(unknown, Err(AdoptError::NoQuorum { .. })), "{unknown:?}");
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_what_was_adopted_after_its_grace() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().create().unwrap();
    let adopted = other.adopt(delegation.as_str(), "stock:42").await.unwrap();
    let report = other.shutdown(TTL / 4).await;
    assert_eq!(report.revoked, 1);
    assert!(!adopted.is_valid() && guard.is_valid());
    let closed = other.adopt(delegation.as_str(), "stock:42").await;
    assert!(matches!(closed, Err(AdoptError::ShuttingDown { .. })), "{closed:?}");
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_lease_that_ended_is_delegated_to_nobody() {
    let (_nodes, holder, _other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let lease = guard.lease();
    for (expires_in, audience) in [(TTL / 1000, "a".to_owned()), (TTL, String::new()), (TTL, "a".repeat(129))] {
        let refused = lease.delegate().expires_in(expires_in).audience(audience).create();
        assert!(matches!(refused, Err(DelegateError::ExpiresIn(_) | DelegateError::Audience(_))), "{refused:?}");
    }
    guard.release().await.unwrap();
    let late = lease.delegate().create();
    assert!(matches!(late, Err(DelegateError::Lost(LockError::Lost { .. }))), "{late:?}");
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_lock_acquired_again_under_an_adopted_lease_is_the_same_one() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().create().unwrap();
    let adopted = other.adopt(delegation.as_str(), "stock:42").await.unwrap();
    let mut inner = adopted.scope(other.lock("stock:42").try_acquire()).await.unwrap();
    assert_eq!(inner.token(), guard.token());
    // As the body of a response does.
    inner.keep_beyond_outer();
    drop(adopted);
    assert!(inner.is_valid() && other.held().len() == 1);
    assert!(inner.release().await.unwrap());
    assert!(guard.is_valid() && other.held().is_empty());
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_an_adopted_lease_that_is_over() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().create().unwrap();
    let adopted = other.adopt(delegation.as_str(), "stock:42").await.unwrap();
    let lease = adopted.lease();
    drop(adopted);
    let began = Instant::now();
    other.shutdown(TTL).await;
    assert_eq!(began.elapsed(), Duration::ZERO, "{lease:?} is only looked at");
    assert!(!lease.is_valid() && guard.is_valid());
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_forced_release_ends_the_work_of_the_adopter() {
    let (_nodes, holder, other) = two_services().await;
    for operator in [&holder, &other] {
        let guard = holder.lock("stock:42").acquire().await.unwrap();
        let delegation = guard.delegate().create().unwrap();
        let adopted = other.adopt(delegation.as_str(), "stock:42").await.unwrap();
        operator.force_release("stock:42").await.unwrap();
        let began = Instant::now();
        adopted.lost().await;
        assert!(began.elapsed() <= TTL / 3, "{:?}", began.elapsed());
        assert!(is_refused(&other, &delegation).await);
    }
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn an_unfinished_delegation_counts_to_the_end_of_the_lease() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    _ = guard.delegate().expires_in(TTL / 10).create().unwrap();
    // When it expires, the clocks of the masters say, and those of the other service may be others.
    tokio::time::sleep(TTL / 2).await;
    guard.release().await.unwrap();
    assert!(other.lock("stock:42").try_acquire().await.is_err());
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_service_may_adopt_what_it_delegated_itself() {
    let (_nodes, holder, _other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().create().unwrap();
    let adopted = holder.adopt(delegation.as_str(), "stock:42").await.unwrap();
    assert_eq!(holder.held().len(), 2);
    drop(adopted);
    assert!(guard.is_valid());
    delegation.around(async { Ok::<_, ()>(()) }).await.unwrap();
    assert!(guard.release().await.unwrap());
    assert!(holder.lock("stock:42").try_acquire().await.is_ok(), "nobody works under it any more");
}

#[tokio::test(start_paused = true)]
async fn a_session_does_not_outlive_the_answer_to_a_delegation() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().create().unwrap();
    let answering = other.adopt(delegation.as_str(), "stock:42").await.unwrap().into_guard();
    let session = answering.share();
    assert!(session.is_valid());
    drop(answering);
    assert!(!session.is_valid());
}
