//! These packages have the default features alone, of which one is `redis`.

use std::time::Duration;

use lock_axum::LockManager;

fn postgres() {
    _ = LockManager::builder().postgres(["postgres://app@10.0.0.1/shop"]).ttl(Duration::from_secs(5)).connect_lazy();
    //                                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ `postgres` needs the cargo feature `postgres`: add it to `lock-axum` in Cargo.toml, as in `features = ["postgres"]`
}

fn postgres_of_a_list(urls: Vec<String>) {
    _ = LockManager::builder().postgres(&urls);
    //                                  ^^^^^ `postgres` needs the cargo feature `postgres`
}

fn zookeeper() {
    _ = LockManager::builder().zookeeper("zk-1:2181,zk-2:2181,zk-3:2181/locks");
    //                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ `zookeeper` needs the cargo feature `zookeeper`: add it to `lock-axum` in Cargo.toml, as in `features = ["zookeeper"]`
}

fn main() {
    postgres();
    postgres_of_a_list(Vec::new());
    zookeeper();
}
