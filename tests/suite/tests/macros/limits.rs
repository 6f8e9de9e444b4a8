//! What the attribute accepts is what the engine and the layer accept.

use std::ops::RangeInclusive;
use std::panic::catch_unwind;
use std::time::Duration;

use lock_axum::limits::{MAX_PERMITS, MAX_TTL, MIN_TTL};
use lock_axum::{ConfigError, LockLayer, LockManager, LockManagerBuilder, MemoryNode};

/// Those of the macro, which is no library that a test could use.
#[path = "../../../../lock-macros/src/limits.rs"]
mod of_the_macro;

/// The range that the builder refuses a duration with.
fn accepted(set: impl FnOnce(LockManagerBuilder) -> LockManagerBuilder) -> RangeInclusive<Duration> {
    match set(LockManager::builder().nodes([MemoryNode::new()])).connect_lazy() {
        Err(ConfigError::OutOfRange(refused)) => refused.least..=refused.most,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_attribute_accepts_what_the_engine_accepts() {
    assert_eq!(of_the_macro::TTL, MIN_TTL..=MAX_TTL);
    assert_eq!(of_the_macro::WAIT, accepted(|builder| builder.wait(Duration::MAX)));
    assert_eq!(of_the_macro::MAX_HOLD, accepted(|builder| builder.max_hold(Duration::MAX)));
    assert_eq!(of_the_macro::PERMITS, 1..=MAX_PERMITS);
    assert_eq!(of_the_macro::MAX_SET_LEN, lock_axum::limits::MAX_SET_LEN);
    assert_eq!(of_the_macro::MAX_RESOURCE_LEN, lock_axum::limits::MAX_RESOURCE_LEN);
}

#[test]
fn the_attribute_accepts_what_the_layer_accepts() {
    let layer = || LockLayer::new(LockManager::in_memory(), "report");
    let message = |set: fn(LockLayer) -> LockLayer| {
        let refused = catch_unwind(|| set(layer())).err().unwrap();
        *refused.downcast::<String>().unwrap()
    };
    let between = |range: RangeInclusive<Duration>| format!("between {:?} and {:?},", range.start(), range.end());
    let retry_after = message(|layer| layer.retry_after(Duration::MAX));
    assert!(retry_after.contains(&between(of_the_macro::RETRY_AFTER)), "{retry_after}");
    let body_timeout = message(|layer| layer.body_timeout(Duration::MAX));
    assert!(body_timeout.contains(&between(of_the_macro::BODY_TIMEOUT)), "{body_timeout}");
}
