//! The masters of a builder, and what its settings make of them.

use std::sync::Arc;

use super::divide::{Divided, check_nodes};
use super::{ConfigError, LockManagerBuilder};
use crate::node::{InvalidSetting, LockNode};

/// A master that a builder was given. What other settings make of it is not known before all of them are.
pub(super) struct NamedNode {
    pub(super) name: String,
    pub(super) is_cluster: bool,
    /// The master, with those settings of a builder that are for it.
    pub(super) finish: Box<Finish>,
}

type Finish = dyn FnOnce(&LockManagerBuilder) -> Result<Arc<dyn LockNode>, ConfigError> + Send + Sync;

impl NamedNode {
    /// A master for which no settings of a builder are.
    pub(super) fn other(node: impl LockNode) -> Self {
        let name = node.name().to_owned();
        let finish = move |with: &LockManagerBuilder| {
            #[cfg(feature = "tls")]
            if with.tls.is_some() {
                return Err(InvalidSetting::tls(node.name()).into());
            }
            if with.credentials.is_some() {
                return Err(InvalidSetting::credentials(node.name()).into());
            }
            with.refuse_redis_settings(node.name())?;
            Ok(Arc::new(node) as Arc<dyn LockNode>)
        };
        Self { name, is_cluster: false, finish: Box::new(finish) }
    }
}

impl LockManagerBuilder {
    /// Whether the masters are clusters, if all or none of them are.
    pub(super) fn are_clusters(&self) -> Result<bool, ConfigError> {
        let (clusters, others): (Vec<_>, Vec<_>) = self.nodes.iter().flatten().partition(|named| named.is_cluster);
        match (clusters.first(), others.first()) {
            (Some(cluster), Some(other)) => {
                Err(ConfigError::MixedClusters { cluster: cluster.name.clone(), other: other.name.clone() })
            }
            (cluster, _) => Ok(cluster.is_some()),
        }
    }

    /// Refuses settings for Redis servers, for a master that is none.
    pub(super) fn refuse_redis_settings(&self, node: &str) -> Result<(), InvalidSetting> {
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
        nodes.into_iter().map(|named| (named?.finish)(self)).collect()
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
