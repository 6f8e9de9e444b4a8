use std::sync::Arc;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;

use super::LockManagerBuilder;
use crate::node::{LockNode, RedisNode};

/// Redis and Valkey servers as masters.
impl LockManagerBuilder {
    /// Adds Redis or Valkey servers by URL: `redis://[user:password@]host[:port][/database]` or `unix:///path`.
    ///
    /// They must be independent masters, not replicas of each other, with `maxmemory-policy noeviction`.
    pub fn redis<I>(mut self, urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let node = |url: I::Item| {
            let node = RedisNode::from_url(url.as_ref())?;
            Ok(Arc::new(node) as Arc<dyn LockNode>)
        };
        self.nodes.extend(urls.into_iter().map(node));
        self
    }

    /// Adds one Redis server that `factory` connects to, named `name` in errors and logs. The factory is called at every
    /// connection and reconnection, and must return a new, unshared connection each time: see
    /// [`RedisNode::from_factory`].
    pub fn redis_factory<F, Fut>(self, name: impl Into<String>, factory: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = RedisResult<MultiplexedConnection>> + Send + 'static,
    {
        self.nodes([RedisNode::from_factory(name, factory)])
    }
}
