//! The settings of our sessions, which travel in the startup packet.
//!
//! A pooler shares its sessions between clients, and what one of them sets with `SET` is there for the next. So nothing is set before it
//! is sure that the session is ours: until then, the startup packet has all settings. A pooler refuses such a packet, or
//! leaves the settings out; and then one is missing that only we can know.

use std::time::Duration;

use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::classify::{node_error, pooled};
use crate::node::NodeError;
use crate::random::Random;

/// A connection on which nothing moves for this long, although replies are due, is given up. A disk may take its time.
pub(super) const STALLED_AFTER: Duration = Duration::from_secs(5);

/// Settings that the role and the database must not change.
///
/// What is held up must not be executed later, when nobody counts on it any more: so a statement may wait for the locks of others, and
/// take, no longer than this. The server says so before [`STALLED_AFTER`], when the connection would be given up for it. Neither timeout
/// ends a commit that waits for the disk or for standbys. The shorter `lock_timeout` is for the statements that prepare a session, which
/// may take a second; `lock_inspect` sets it as well.
///
/// A server whose client went silent in the middle of a statement waits for the rest, and holds locks: so it probes the connection as
/// the client does.
const SETTINGS: &str = " -c client_min_messages=warning -c search_path=pg_catalog -c check_function_bodies=off \
     -c standard_conforming_strings=on \
     -c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off \
     -c enable_seqscan=off -c jit=off -c max_parallel_workers_per_gather=0 -c plan_cache_mode=force_generic_plan \
     -c lock_timeout=800 -c statement_timeout=4000 -c idle_in_transaction_session_timeout=0 \
     -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=2 -c tcp_user_timeout=10000";

/// For a session that is prepared. The server says that a lock is not free before the longest node timeout by default (2 s), so that
/// callers learn it.
pub(super) const LOCK_TIMEOUT: &str = "SET lock_timeout = 1500";

/// Settings that end sessions, or transactions, where the server has them: a startup packet may only name those that every server has.
pub(super) const NO_TIMEOUTS: &str = "SELECT set_config(name, '0', false) FROM pg_settings
                                      WHERE name IN ('idle_session_timeout', 'transaction_timeout')";

/// What only this session knows. It is among its settings, so it shows which session a statement has reached.
#[derive(Clone)]
pub(super) struct SessionId(pub(super) String);

impl SessionId {
    pub(super) fn draw() -> Self {
        Self(Random::from_system().uuid())
    }

    /// The options of the startup packet, after the options of the URL.
    pub(super) fn options(&self, of_url: Option<&str>) -> String {
        [of_url.unwrap_or_default(), SETTINGS, " -c locks.session=", &self.0].concat()
    }

    /// Refuses a session without our settings, before anything is changed in it.
    pub(super) async fn check(&self, client: &Client) -> Result<(), NodeError> {
        let row = first_row(client, "SELECT current_setting('locks.session', true)").await?;
        let found = row.as_ref().and_then(|row| row.get(0));
        if found == Some(&self.0) { Ok(()) } else { Err(pooled("it left out the settings of the session").into()) }
    }
}

/// The first row of a query that is not prepared: to prepare one takes another round trip.
pub(super) async fn first_row(client: &Client, query: &str) -> Result<Option<SimpleQueryRow>, NodeError> {
    let messages = client.simple_query(query).await.map_err(|error| node_error(&error))?;
    Ok(messages.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    }))
}
