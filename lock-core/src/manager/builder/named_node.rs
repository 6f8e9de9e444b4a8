//! The masters of a builder, and what its settings make of them.

use std::sync::Arc;

use super::check_nodes::check_nodes;
use super::divide::Divided;
use super::{ConfigError, LockManagerBuilder};
#[cfg(feature = "postgres")]
use crate::node::PostgresNode;
#[cfg(feature = "redis")]
use crate::node::RedisNode;
use crate::node::{InvalidSetting, LockNode};

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

    /// The master, with those settings of a builder that are for it.
    fn finish(self, with: &LockManagerBuilder) -> Result<Arc<dyn LockNode>, ConfigError> {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(mut node) => {
                #[cfg(feature = "tls")]
                if let Some(config) = &with.tls {
                    node = node.tls(Arc::clone(config))?;
                }
                if let Some(provider) = &with.credentials {
                    node = node.with_credentials(provider.clone())?;
                }
                if let Some((replicas, timeout)) = with.replication {
                    node = node.replicated(replicas, timeout)?;
                }
                Ok(Arc::new(node.tolerate_eviction(with.tolerate_eviction)))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(mut node) => {
                #[cfg(feature = "tls")]
                if let Some(config) = &with.tls {
                    node = node.tls(Arc::clone(config))?;
                }
                if let Some(provider) = &with.credentials {
                    node = node.with_credentials(provider.clone())?;
                }
                with.refuse_redis_settings(node.name())?;
                Ok(Arc::new(node))
            }
            Self::Other(node) => {
                #[cfg(feature = "tls")]
                if with.tls.is_some() {
                    return Err(InvalidSetting::tls(node.name()).into());
                }
                if with.credentials.is_some() {
                    return Err(InvalidSetting::credentials(node.name()).into());
                }
                with.refuse_redis_settings(node.name())?;
                Ok(node)
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

    /// Refuses settings for Redis servers, for a master that is none.
    fn refuse_redis_settings(&self, node: &str) -> Result<(), InvalidSetting> {
        if self.tolerate_eviction {
            return Err(InvalidSetting::not_redis("tolerate_eviction", node));
        }
        if self.replication.is_some() {
            return Err(InvalidSetting::not_redis("replicated", node));
        }
        Ok(())
    }

    /// The masters, as all settings want them.
    fn finish(&self, nodes: Vec<Result<NamedNode, ConfigError>>) -> Result<Vec<Arc<dyn LockNode>>, ConfigError> {
        nodes.into_iter().map(|named| named?.finish(self)).collect()
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
