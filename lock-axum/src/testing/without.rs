//! What handlers may call without the feature `testing`.

/// A step by hand, which does nothing: the feature `testing`, with which a [trial](crate::guide::do_i_need_a_lock) can hold a request here, is off.
///
/// A handler that awaits it needs the feature in tests only, as a dev-dependency.
///
/// # Cancel safety
///
/// Nothing is lost if the future is dropped.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// lock_axum::testing::step("between read and write").await;
/// # }
/// ```
pub async fn step(_name: &str) {}
