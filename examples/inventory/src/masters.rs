use std::time::Duration;

use lock_axum::{LockManager, MemoryNode, NodeHealth};

use crate::RunError;

/// How many masters there are in memory. Five, as in the usual Redlock set: two may fail.
const IN_MEMORY: usize = 5;

/// The engine's default grows with the TTL and is 15 ms for the shortest one here. Buyers,
/// instances and masters may share two cores, where a vote can be late without any fault.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// The masters that all instances share.
#[derive(Clone)]
pub(crate) enum Masters {
    InMemory(Vec<MemoryNode>),
    Redis(Vec<String>),
}

impl Masters {
    /// Redis masters at `urls`; fresh ones in memory if there are none.
    pub(crate) fn new(urls: &[String]) -> Self {
        if urls.is_empty() {
            Self::InMemory((0..IN_MEMORY).map(|_| MemoryNode::new()).collect())
        } else {
            Self::Redis(urls.to_vec())
        }
    }

    /// What the masters are, in words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::InMemory(nodes) => format!("{} in-memory masters", nodes.len()),
            Self::Redis(urls) if urls.len() == 1 => "1 Redis master".to_owned(),
            Self::Redis(urls) => format!("{} Redis masters", urls.len()),
        }
    }

    /// A lock manager of its own over the shared masters.
    ///
    /// Everything that the masters compare between their clients (the number of masters, the
    /// longest TTL, the set name) is the same for every mode and for the service.
    pub(crate) async fn connect(self, prefix: &str) -> Result<LockManager, RunError> {
        let builder = LockManager::builder().prefix(prefix).node_timeout(NODE_TIMEOUT);
        let builder = match self {
            Self::InMemory(nodes) => builder.nodes(nodes),
            Self::Redis(urls) => builder.redis(urls),
        };
        builder.connect().await.map_err(RunError::Connect)
    }

    /// Whether locks can be had at all. A master that lost its data grants nothing for a while, in which a whole
    /// benchmark would meet busy locks only.
    ///
    /// # Errors
    ///
    /// [`RunError`] if they cannot, with what each master has to say.
    pub(crate) async fn check(self, prefix: &str) -> Result<(), RunError> {
        let locks = self.connect(prefix).await?;
        let health = locks.health().await;
        locks.shutdown(Duration::ZERO).await;
        if health.quorum {
            return Ok(());
        }
        let problem = |node: NodeHealth| node.problem.map(|problem| format!("{}: {}", node.name, problem));
        let problems: Vec<_> = health.nodes.into_iter().filter_map(problem).collect();
        Err(RunError::NoQuorum(problems.join("; ")))
    }
}
