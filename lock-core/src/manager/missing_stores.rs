//! The methods of stores whose cargo features are off. Calling one is a compile error that names the feature: its parameter has a bound
//! that no type meets.

#[cfg(not(feature = "redis"))]
#[diagnostic::on_unimplemented(
    message = "this method of `LockManagerBuilder` needs the cargo feature `redis`: add it to `lock-axum` in Cargo.toml, as in \
               `features = [\"redis\"]`",
    label = "the feature `redis` is off"
)]
pub trait FeatureRedis {}

#[cfg(not(feature = "postgres"))]
#[diagnostic::on_unimplemented(
    message = "`postgres` needs the cargo feature `postgres`: add it to `lock-axum` in Cargo.toml, as in \
               `features = [\"postgres\"]`",
    label = "the feature `postgres` is off"
)]
pub trait FeaturePostgres {}

#[cfg(not(feature = "zookeeper"))]
#[diagnostic::on_unimplemented(
    message = "`zookeeper` needs the cargo feature `zookeeper`: add it to `lock-axum` in Cargo.toml, as in \
               `features = [\"zookeeper\"]`",
    label = "the feature `zookeeper` is off"
)]
pub trait FeatureZooKeeper {}

#[cfg(not(feature = "redis"))]
#[doc(hidden)]
impl super::LockManagerBuilder {
    pub fn redis(self, _: impl FeatureRedis) -> Self {
        self
    }

    pub fn redis_factory<F>(self, _: impl FeatureRedis, _: F) -> Self {
        self
    }

    pub fn sentinel<M>(self, _: impl FeatureRedis, _: M) -> Self {
        self
    }

    pub fn replicated<T>(self, _: impl FeatureRedis, _: T) -> Self {
        self
    }
}

#[cfg(not(feature = "postgres"))]
#[doc(hidden)]
impl super::LockManagerBuilder {
    pub fn postgres(self, _: impl FeaturePostgres) -> Self {
        self
    }
}

#[cfg(not(feature = "zookeeper"))]
#[doc(hidden)]
impl super::LockManagerBuilder {
    pub fn zookeeper(self, _: impl FeatureZooKeeper) -> Self {
        self
    }
}
