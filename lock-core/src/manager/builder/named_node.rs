//! The masters of a builder, and what its settings make of them.

use std::sync::Arc;

#[cfg(all(feature = "tls", any(feature = "redis", feature = "postgres")))]
use tokio_rustls::rustls::ClientConfig;

use super::check_nodes::check_nodes;
use super::divide::Divided;
use super::{ConfigError, LockManagerBuilder};
#[cfg(all(feature = "tls", any(feature = "redis", feature = "postgres")))]
use crate::node::InvalidTls;
#[cfg(feature = "postgres")]
use crate::node::PostgresNode;
#[cfg(feature = "redis")]
use crate::node::RedisNode;
use crate::node::{CredentialsProvider, InvalidCredentials, LockNode};

/// A master that a builder was given. What other settings make of it is not known before all of them are.
pub(super) enum NamedNode {
    #[cfg(feature = "redis")]
    Redis(RedisNode),
    #[cfg(feature = "postgres")]
    Postgres(PostgresNode),
    Other(Arc<dyn LockNode>),
}

impl NamedNode {
    pub(super) fn name(&self) -> &str {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(node) => node.name(),
            #[cfg(feature = "postgres")]
            Self::Postgres(node) => node.name(),
            Self::Other(node) => node.name(),
        }
    }

    /// The node, by this configuration of TLS.
    #[cfg(all(feature = "tls", any(feature = "redis", feature = "postgres")))]
    fn with_tls(self, config: &Arc<ClientConfig>) -> Result<Self, InvalidTls> {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(node) => node.tls(Arc::clone(config)).map(Self::Redis),
            #[cfg(feature = "postgres")]
            Self::Postgres(node) => node.tls(Arc::clone(config)).map(Self::Postgres),
            Self::Other(node) => Err(InvalidTls { node: node.name().to_owned() }),
        }
    }

    /// The node, which asks the provider for its login.
    fn with_credentials(self, provider: &CredentialsProvider) -> Result<Self, InvalidCredentials> {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(node) => node.with_credentials(provider.clone()).map(Self::Redis),
            #[cfg(feature = "postgres")]
            Self::Postgres(node) => node.with_credentials(provider.clone()).map(Self::Postgres),
            Self::Other(node) => {
                // Without a store that logs in, nobody asks it.
                _ = provider;
                Err(InvalidCredentials::NoLogin { node: node.name().to_owned() })
            }
        }
    }
}

impl LockManagerBuilder {
    /// Whether the masters are clusters, if all or none of them are.
    pub(super) fn are_clusters(&self) -> Result<bool, ConfigError> {
        let is_cluster = |named: &NamedNode| match named {
            #[cfg(feature = "redis")]
            NamedNode::Redis(node) => node.is_in_cluster(),
            #[cfg(feature = "postgres")]
            NamedNode::Postgres(_) => false,
            NamedNode::Other(_) => false,
        };
        let (clusters, others): (Vec<_>, Vec<_>) = self.nodes.iter().flatten().partition(|named| is_cluster(named));
        match (clusters.first(), others.first()) {
            (Some(cluster), Some(other)) => {
                Err(ConfigError::MixedClusters { cluster: cluster.name().to_owned(), other: other.name().to_owned() })
            }
            (cluster, _) => Ok(cluster.is_some()),
        }
    }

    /// The masters, as all settings want them.
    fn finish(&self, nodes: Vec<Result<NamedNode, ConfigError>>) -> Result<Vec<Arc<dyn LockNode>>, ConfigError> {
        let finish = |named: Result<NamedNode, ConfigError>| {
            let named = named?;
            #[cfg(all(feature = "tls", any(feature = "redis", feature = "postgres")))]
            let named = match &self.tls {
                Some(config) => named.with_tls(config)?,
                None => named,
            };
            let named = match &self.credentials {
                Some(provider) => named.with_credentials(provider)?,
                None => named,
            };
            match named {
                #[cfg(feature = "redis")]
                NamedNode::Redis(node) => {
                    let node = node.tolerate_eviction(self.tolerate_eviction);
                    Ok(Arc::new(match self.replication {
                        Some((replicas, timeout)) => node.replicated(replicas, timeout)?,
                        None => node,
                    }) as Arc<dyn LockNode>)
                }
                #[cfg(feature = "redis")]
                other if self.tolerate_eviction || self.replication.is_some() => {
                    let setting = if self.tolerate_eviction { "tolerate_eviction" } else { "replicated" };
                    Err(ConfigError::NotRedis { setting, node: other.name().to_owned() })
                }
                #[cfg(feature = "postgres")]
                NamedNode::Postgres(node) => Ok(Arc::new(node) as Arc<dyn LockNode>),
                NamedNode::Other(node) => Ok(node),
            }
        };
        nodes.into_iter().map(finish).collect()
    }

    /// The masters of each shard.
    pub(super) fn divide(&mut self) -> Result<Divided, ConfigError> {
        let in_cluster = self.are_clusters()?;
        let nodes = std::mem::take(&mut self.nodes);
        let nodes = self.finish(nodes)?;
        let sets = std::mem::take(&mut self.sets);
        let sets = sets.into_iter().map(|set| self.finish(set)).collect::<Result<Vec<_>, _>>()?;
        match nodes.first() {
            Some(other) if !sets.is_empty() => Err(ConfigError::BesideSets { node: other.name().to_owned() }),
            _ if sets.is_empty() => Divided::on_all(check_nodes(nodes)?, self.shards, &self.prefix, in_cluster),
            _ if self.shards != 1 => Err(ConfigError::ShardsOfSets { shards: self.shards, sets: sets.len() }),
            _ => Divided::in_sets(sets, &self.prefix),
        }
    }
}
