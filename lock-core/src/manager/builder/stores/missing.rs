//! The methods of stores whose cargo features are off. Calling one is a compile error that names the feature: its parameter has a bound
//! that no type meets.

macro_rules! missing {
    ($feature:tt, $bound:ident, $message:tt, $label:tt: $($method:ident $(<$rest:ident>)?)*) => {
        #[cfg(not(feature = $feature))]
        #[diagnostic::on_unimplemented(message = $message, label = $label)]
        pub trait $bound {}

        #[cfg(not(feature = $feature))]
        #[doc(hidden)]
        impl crate::LockManagerBuilder {
            $(pub fn $method $(<$rest>)? (self, _: impl $bound $(, _: $rest)?) -> Self { self })*
        }
    };
}

missing!(
    "redis",
    FeatureRedis,
    "this method of `LockManagerBuilder` needs the cargo feature `redis`: add it to `lock-axum` in Cargo.toml, as in `features = [\"redis\"]`",
    "the feature `redis` is off": redis redis_cluster set redis_factory<F> sentinel<M> replicated<T>
        tolerate_eviction
);
missing!(
    "postgres",
    FeaturePostgres,
    "`postgres` needs the cargo feature `postgres`: add it to `lock-axum` in Cargo.toml, as in `features = [\"postgres\"]`",
    "the feature `postgres` is off": postgres postgres_factory<F>
);
missing!(
    "zookeeper",
    FeatureZooKeeper,
    "`zookeeper` needs the cargo feature `zookeeper`: add it to `lock-axum` in Cargo.toml, as in `features = [\"zookeeper\"]`",
    "the feature `zookeeper` is off": zookeeper
);
