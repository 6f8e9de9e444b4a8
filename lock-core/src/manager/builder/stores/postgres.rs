use std::error::Error;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::manager::builder::LockManagerBuilder;
use crate::manager::builder::named_node::NamedNode;
use crate::manager::string_list::StringList;
use crate::node::{LockNode, PostgresNode};

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
    pub fn postgres(mut self, urls: impl StringList) -> Self {
        let nodes = urls.into_iter().map(|url| Ok(named(PostgresNode::from_url(url.as_ref())?)));
        self.nodes.extend(nodes);
        self
    }

    /// Adds one PostgreSQL server that `factory` opens streams to, named `name` in errors and logs. The factory is called at every
    /// connection and reconnection: see [`PostgresNode::from_factory`], which has an example.
    pub fn postgres_factory<F, Fut, S, E>(mut self, name: impl Into<String>, factory: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(tokio_postgres::Config, S), E>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.nodes.push(Ok(NamedNode::other(PostgresNode::from_factory(name, factory))));
        self
    }
}

fn named(mut node: PostgresNode) -> NamedNode {
    let name = node.name().to_owned();
    let finish = move |with: &LockManagerBuilder| {
        #[cfg(feature = "tls")]
        if let Some(config) = &with.tls {
            node = node.tls(Arc::clone(config))?;
        }
        if let Some(provider) = &with.credentials {
            node = node.with_credentials(provider.clone())?;
        }
        with.refuse_redis_settings(node.name())?;
        Ok(Arc::new(node) as Arc<dyn LockNode>)
    };
    NamedNode { name, is_cluster: false, finish: Box::new(finish) }
}
