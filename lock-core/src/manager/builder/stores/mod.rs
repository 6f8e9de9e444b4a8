//! The methods of a builder that name its masters, store by store.

#[cfg(not(all(feature = "redis", feature = "postgres", feature = "zookeeper")))]
mod missing;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "zookeeper")]
mod zookeeper;
