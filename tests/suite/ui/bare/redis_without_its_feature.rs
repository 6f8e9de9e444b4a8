//! This package has no feature of the library at all.

use std::time::Duration;

use lock_axum::LockManager;

fn redis() {
    _ = LockManager::builder().redis(["redis://10.0.0.1"]).prefix("shop:").connect_lazy();
    //                               ^^^^^^^^^^^^^^^^^^^^ this method of `LockManagerBuilder` needs the cargo feature `redis`: add it to `lock-axum` in Cargo.toml, as in `features = ["redis"]`
}

fn sentinel() {
    _ = LockManager::builder().sentinel(["10.0.0.1"], "mymaster");
    //                                  ^^^^^^^^^^^^ this method of `LockManagerBuilder` needs the cargo feature `redis`
}

fn replicated() {
    _ = LockManager::builder().replicated(1, Duration::from_millis(50));
    //                                    ^ this method of `LockManagerBuilder` needs the cargo feature `redis`
}

fn factory() {
    _ = LockManager::builder().redis_factory("a", || ());
    //                                       ^^^ this method of `LockManagerBuilder` needs the cargo feature `redis`
}

fn main() {
    redis();
    sentinel();
    replicated();
    factory();
}
