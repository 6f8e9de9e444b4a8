use thiserror::Error;

/// A setting does not apply to a master.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{setting} cannot be used for {node}: {reason}")]
#[non_exhaustive]
pub struct InvalidSetting {
    /// The setting: `credentials`, `tls`, `replicated` or `tolerate_eviction`.
    pub setting: &'static str,
    /// The name of the master.
    pub node: String,
    /// Why it does not apply, and what to do instead.
    pub reason: &'static str,
}

impl InvalidSetting {
    /// The node does not connect over TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn tls(node: &str) -> Self {
        let reason = "it is for masters that are named with redis, redis_cluster, sentinel or postgres by a URL that asks for TLS (rediss://, \
                      sslmode=require); for one of nodes([...]), use the method tls of RedisNode or PostgresNode; a factory secures its \
                      connections itself";
        Self { setting: "tls", node: node.to_owned(), reason }
    }

    /// The node does not ask for credentials.
    pub(crate) fn credentials(node: &str) -> Self {
        let reason = "it is for masters that are named with redis, redis_cluster, sentinel or postgres; for one of nodes([...]), use the \
                      method credentials of RedisNode or PostgresNode; a factory logs in by itself";
        Self { setting: "credentials", node: node.to_owned(), reason }
    }

    /// There would be two logins.
    pub(super) fn credentials_beside_url(node: &str) -> Self {
        let reason = "its URL has a user or a password, and credentials gives both; remove them from the URL";
        Self { setting: "credentials", node: node.to_owned(), reason }
    }

    /// The setting is for Redis servers.
    pub(crate) fn not_redis(setting: &'static str, node: &str) -> Self {
        let reason = "it is for masters that are named with redis, redis_cluster, redis_factory or sentinel; for a Redis server among the \
                      nodes([...]), use the method of RedisNode that has this name";
        Self { setting, node: node.to_owned(), reason }
    }
}
