use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::Config;
#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConfig;

use super::link::open;
use super::schema::SCHEMA;
use super::session::Session;
use super::source::Source;
use super::wakeups::listen;
use super::worker::LastWords;
use crate::forward_to_node;
use crate::node::credentials::CredentialsProvider;
use crate::node::link::PresentLink;
use crate::node::{
    Credentials, Inspection, InvalidSetting, InvalidUrl, Keyspace, LockNode, NodeError, NodeFuture, Wakeups,
};
use crate::random::WaiterId;

/// One database of a PostgreSQL server (12 or newer) as a master.
///
/// It keeps the same rules as a Redis server: queues, readers, tokens. Alone in its set, it is a lock service without another server
/// to run; three of them, independent of each other, tolerate that one is gone. A standby must not be a node of its own.
///
/// All requests go over one connection. Over a second one, the server wakes this process when it waits for locks; it is opened when the
/// first caller waits, and kept. Both must be sessions of their own, with the settings that their startup packets have: the address of a
/// pooler that drops these, as `PgBouncer` does, is refused, before anything is changed in its sessions.
///
/// A `PostgresNode` is for one [`LockManager`](crate::LockManager). Two managers that share it would lose each other's
/// admission.
///
/// # What it remembers
///
/// A server that was stopped and started in order has all its locks. After a crash, an immediate stop (`pg_ctl stop -m immediate`), the
/// promotion of a standby, or a restored backup, the node counts as one that forgot, and sits out a quarantine. So it does when one of its tables
/// was dropped, truncated or rewritten. A copy of the files of a server that was stopped in order, or a virtual machine that was set back to a
/// snapshot, is noticed only by managers that have seen its log end later.
///
/// # Permissions
///
/// The first connection creates the schema `locks`, which needs `CREATE` on the database. Without that right,
/// [`connect`](crate::LockManagerBuilder::connect) fails, and its error has the SQL that somebody else may run:
/// [`SCHEMA`](Self::SCHEMA). The user then needs `USAGE` on the schema, `SELECT`, `INSERT`, `UPDATE` and `DELETE` on its
/// tables, and `TEMPORARY` on the database, which everyone has by default.
///
/// # Examples
///
/// ```
/// use lock_core::{LockManager, PostgresNode};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = PostgresNode::from_url("postgres://app:secret@10.0.0.1/shop")?.synchronous_commit(false);
/// let locks = LockManager::builder().nodes([node]).connect_lazy()?;
/// # Ok(())
/// # }
/// ```
pub struct PostgresNode(Shared);

/// What a node shares with the inspections that it began.
#[derive(Clone)]
struct Shared {
    source: Source,
    synchronous_commit: bool,
    link: Arc<PresentLink<Session>>,
    last_words: LastWords,
}

impl PostgresNode {
    /// The tables that locks need, as SQL. Without comments, it is about 40 lines.
    pub const SCHEMA: &str = SCHEMA;

    /// Creates a node for a database at a URL: `postgres://[user[:password]@]host[:port][/database]`. For a socket, the host is the
    /// directory, with `%2F` for each slash. Does not connect: the first inspection does.
    ///
    /// With `sslmode=require` and the feature `tls`, connections are secure, and the certificate of the server is always checked, as
    /// with `verify-full` elsewhere. Without it, they are not, even if the server speaks TLS.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{LockNode as _, PostgresNode};
    ///
    /// let node = PostgresNode::from_url("postgres://app:secret@10.0.0.1/shop")?;
    /// assert_eq!(node.name(), "10.0.0.1:5432/shop");
    /// # Ok::<(), lock_core::masters::InvalidUrl>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`] if the URL does not parse, or names several hosts; or if it asks for TLS, but the feature is off, or names a socket.
    pub fn from_url(url: &str) -> Result<Self, InvalidUrl> {
        Source::from_url(url).map(Self::new)
    }

    /// Connects by this configuration of TLS.
    ///
    /// [`LockManagerBuilder::tls`](crate::LockManagerBuilder::tls), which has an example, does the same for all masters of a builder.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`] if the URL does not have `sslmode=require`, or the connections come from a factory.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, config: impl Into<Arc<ClientConfig>>) -> Result<Self, InvalidSetting> {
        let uses_tls = self.0.source.set_tls(&config.into());
        if uses_tls { Ok(self) } else { Err(InvalidSetting::tls(self.name())) }
    }

    /// Creates a node for a server that `factory` opens streams to: through a proxy, or over TLS of another library. `name` is the server's
    /// name in errors, logs and health. [`lock_core::tokio_postgres`](crate::tokio_postgres) is the version of tokio-postgres to use.
    ///
    /// The factory is called for every connection and reconnection, and to cancel what the server still does for a connection that was given up. It
    /// returns a stream on which nothing was said yet, but what makes it secure, and the configuration of the login: user, password and
    /// database, which may be other ones each time. Hosts, ports and `sslmode` in it are not used. It has a second, with the login, so it
    /// should have a token at hand. What it fails with is the reason that the node is away.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::error::Error;
    ///
    /// use lock_core::tokio_postgres::Config;
    /// use lock_core::{LockNode as _, PostgresNode};
    /// use tokio::net::TcpStream;
    ///
    /// # fn token() -> String { String::new() }
    /// let node = PostgresNode::from_factory("shop", || async {
    ///     let stream = TcpStream::connect("10.0.0.1:5432").await?;
    ///     let mut config = Config::new();
    ///     config.user("app").password(token()).dbname("shop");
    ///     Ok::<_, Box<dyn Error + Send + Sync>>((config, stream))
    /// });
    /// assert_eq!(node.name(), "shop");
    /// ```
    pub fn from_factory<F, Fut, S, E>(name: impl Into<String>, factory: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(Config, S), E>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self::new(Source::from_factory(name.into(), factory))
    }

    /// Sets whether a grant may wait until the server has on disk how far its tokens may be counted, which one grant of a lock in a
    /// second writes. And whether all grants and renewals wait for synchronous standbys, if the server has any.
    ///
    /// No lock is lost without it: a node that crashed grants nothing before the locks are over that it may have forgotten. It may
    /// only forget which tokens it gave. Alone in its set, it then counts on with the clock, so a clock that was set back, and
    /// a crash, can lead to a token that is not larger than those before. With several nodes, the others know.
    /// Managers of one database may differ in this: one that waits relies on nothing that another one did not wait for.
    ///
    /// Defaults to `true`.
    #[must_use]
    pub fn synchronous_commit(mut self, synchronous_commit: bool) -> Self {
        self.0.synchronous_commit = synchronous_commit;
        self
    }

    /// Asks `provider` for user and password at each connect.
    ///
    /// [`LockManagerBuilder::credentials`](crate::LockManagerBuilder::credentials) says what the provider may do, and does the same for
    /// all masters of a builder.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io;
    ///
    /// use lock_core::{Credentials, PostgresNode};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = PostgresNode::from_url("postgres://db.example/shop")?.credentials(|| async {
    ///     let password = std::fs::read_to_string("/run/secrets/db")?;
    ///     io::Result::Ok(Credentials::new("app", password.trim_end()))
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`] if the URL has a user or a password, or the connections come from a factory.
    pub fn credentials<F, Fut, E>(self, provider: F) -> Result<Self, InvalidSetting>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.with_credentials(CredentialsProvider::new(provider))
    }

    pub(crate) fn with_credentials(mut self, provider: CredentialsProvider) -> Result<Self, InvalidSetting> {
        self.0.source.log_in_by(provider).map(|()| self)
    }

    fn new(source: Source) -> Self {
        Self(Shared { source, synchronous_commit: true, link: Arc::default(), last_words: Arc::default() })
    }
}

impl LockNode for PostgresNode {
    fn name(&self) -> &str {
        &self.0.source.name
    }

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        let (Shared { source, synchronous_commit, link, last_words }, keyspace) =
            (self.0.clone(), Arc::clone(keyspace));
        Box::pin(async move {
            let opening = open(&source, synchronous_commit, &last_words);
            link.get_or_open(opening).await?.inspect(&keyspace).await
        })
    }

    fn wakeups(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Wakeups, NodeError>> {
        let (source, keyspace) = (self.0.source.clone(), Arc::clone(keyspace));
        Box::pin(async move { listen(&source, &keyspace, waiter).await })
    }

    fn last_words(&self) -> Option<String> {
        self.0.last_words.lock().clone()
    }

    forward_to_node!(self => self.0.link; write_record read_fences submit submit_all look evict disconnected disconnect);

    /// A fifth of the `ttl`, but at least 50 ms and at most 2 s: a disk may take its time.
    fn node_timeout(&self, ttl: Duration) -> Duration {
        (ttl / 5).clamp(Duration::from_millis(50), Duration::from_secs(2))
    }
}

opaque_debug!(PostgresNode, |this| "name": this.0.source.name);
