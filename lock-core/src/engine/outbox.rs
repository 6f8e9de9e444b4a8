use crate::cluster::Cluster;
use crate::node::{ReplySender, Request};

/// Requests about several locks that are submitted together: those for one node in one call.
///
/// Nothing may be awaited while it is filled: until it is submitted, other requests would overtake those in it.
pub(super) struct Outbox {
    by_node: Vec<Vec<(Request, ReplySender)>>,
}

impl Outbox {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self { by_node: (0..cluster.size()).map(|_| Vec::new()).collect() }
    }

    /// Adds a request and the node to submit it to, unless it was answered instead.
    pub(super) fn add(&mut self, prepared: Option<(usize, Request, ReplySender)>) {
        if let Some((node, request, reply_to)) = prepared {
            self.by_node[node].push((request, reply_to));
        }
    }

    pub(super) fn submit(self, cluster: &Cluster) {
        for (member, requests) in cluster.members.iter().zip(self.by_node) {
            if !requests.is_empty() {
                member.node.submit_all(requests);
            }
        }
    }
}
