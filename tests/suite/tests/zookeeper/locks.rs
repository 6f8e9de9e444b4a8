use std::time::Duration;

use lock_core::LockError;
use lock_support::ZooKeeperServer;
use tokio::time::Instant;

use crate::set::connect;

#[tokio::test]
async fn a_lock_is_taken_renewed_and_released_and_tokens_increase() {
    let address = ZooKeeperServer::shared().await;
    let (one, other) = (connect(&address).await, connect(&address).await);
    let mut last = 0;
    for locks in [&one, &other, &one, &one] {
        let guard = locks.lock("stock:42").acquire().await.unwrap();
        assert!(guard.token().get() > last);
        last = guard.token().get();
        let refused = other.lock("stock:42").try_acquire().await;
        assert!(matches!(refused, Err(LockError::Contended { .. })), "{refused:?}");
        assert!(guard.release().await.unwrap());
    }
    // Renewed beyond its time to live.
    let guard = one.lock("stock:42").ttl(Duration::from_millis(300)).acquire().await.unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(900) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(guard.is_valid());
        assert!(other.lock("stock:42").try_acquire().await.is_err());
    }
    assert!(guard.release().await.unwrap());
}
