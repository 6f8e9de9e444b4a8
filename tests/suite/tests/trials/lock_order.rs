//! Two templates that are nested in both orders.

use std::sync::Arc;

use lock_axum::testing::LockOrder;
use lock_axum::{LockError, LockManager, MemoryNode, distributed_lock};
use lock_support::Events;

#[distributed_lock(resource = "cart:{id}", manager = locks)]
async fn empty_cart(locks: &LockManager, id: u32) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(resource = "user:{id}", manager = locks)]
async fn delete_user(locks: &LockManager, id: u32) -> Result<(), LockError> {
    empty_cart(locks, id).await
}

#[distributed_lock(resource = "cart:{id}", manager = locks)]
async fn pay_cart(locks: &LockManager, id: u32) -> Result<(), LockError> {
    locks.lock(format!("user:{id}")).template("user:{id}").run(async |_| ()).await
}

#[tokio::test]
async fn templates_that_are_nested_in_both_orders_are_warned_of_once_with_both_places() {
    let events = Events::record();
    let locks = LockManager::builder().nodes([MemoryNode::new()]).observer(Arc::new(LockOrder));
    let locks = locks.connect().await.unwrap();
    delete_user(&locks, 7).await.unwrap();
    delete_user(&locks, 8).await.unwrap();
    assert!(LockOrder::reversed().is_empty(), "one order");
    let user = || locks.lock("user:7").template("user:{id}");
    let cart = locks.lock("cart:7").template("cart:{id}");
    // The user's lock is acquired again, inside both.
    let again = user().run(async |_| cart.run(async |_| user().run(async |_| ()).await).await);
    again.await.unwrap().unwrap().unwrap();
    assert!(LockOrder::reversed().is_empty(), "one order");
    pay_cart(&locks, 9).await.unwrap();
    pay_cart(&locks, 10).await.unwrap();
    let reversed = LockOrder::reversed();
    assert_eq!(reversed.len(), 1, "{reversed:?}");
    assert_eq!(reversed[0].templates, ("cart:{id}".to_owned(), "user:{id}".to_owned()));
    let places = [&reversed[0].first, &reversed[0].second];
    assert!(places.iter().all(|place| place.contains("lock_order.rs:")), "{reversed:?}");
    assert_ne!(places[0], places[1]);
    assert_eq!(events.named("lock.order").len(), 1);

    // All locks around one are seen, and all of a set.
    let lock = |name: &str| locks.lock(name).template(name);
    let inside_two = lock("a").run(async |_| lock("b").run(async |_| lock("c").run(async |_| ()).await).await);
    inside_two.await.unwrap().unwrap().unwrap();
    lock("c").run(async |_| lock("a").run(async |_| ()).await).await.unwrap().unwrap();
    let set = locks.lock_all(["d", "e"]).templates(["d", "e"]);
    set.run(async |_| lock("f").run(async |_| ()).await).await.unwrap().unwrap();
    lock("f").run(async |_| lock("e").run(async |_| ()).await).await.unwrap().unwrap();
    let reversed = LockOrder::reversed().into_iter().map(|reversed| reversed.templates);
    let names = |first: &str, second: &str| (first.to_owned(), second.to_owned());
    let expected = [names("a", "c"), names("cart:{id}", "user:{id}"), names("e", "f")];
    assert_eq!(reversed.collect::<Vec<_>>(), expected);
}
