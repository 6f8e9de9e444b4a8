/// Logs an event: `log_event!(warn: "lock.node_away", node, %error, "a node is not reachable")`. Not public API.
///
/// The name is that of the event's metadata, by which subscribers filter, and its field `event`, because formatters print fields and no
/// names. Every event of these crates is logged here.
#[doc(hidden)]
#[macro_export]
macro_rules! log_event {
    ($level:ident: $name:literal, $($rest:tt)+) => {
        ::tracing::$level!(name: $name, event = $name, $($rest)+)
    };
}

/// How spans and events show a duration: as a number, in a field that ends with `_ms`. A lock takes less than a millisecond, so there are
/// three decimal places.
pub(crate) fn milliseconds(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
