use std::sync::Arc;

use super::LockManagerBuilder;
use super::named_node::NamedNode;
use crate::node::PostgresNode;

/// PostgreSQL servers as masters.
impl LockManagerBuilder {
    /// Adds databases of PostgreSQL servers by URL: `postgres://[user[:password]@]host[:port][/database]`. One is a set, too.
    ///
    /// Several must be independent servers, not standbys of each other. They may be in one set with Redis servers, which keep the
    /// same rules. For settings of a node, see [`PostgresNode`].
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::LockManager;
    ///
    /// let locks = LockManager::builder().postgres(["postgres://app:secret@10.0.0.1/shop"]).connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn postgres<I>(mut self, urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let node = |url: I::Item| Ok(NamedNode::Other(Arc::new(PostgresNode::from_url(url.as_ref())?)));
        self.nodes.extend(urls.into_iter().map(node));
        self
    }
}
