//! The settings of our sessions, which travel in the startup packet.
//!
//! A pooler shares its sessions between clients, and what one of them sets with `SET` is there for the next. So nothing is set before it
//! is sure that the session is ours: until then, all settings are those of the startup packet. A pooler refuses such a packet, or
//! leaves the settings out; and then one is missing that only we can know.

use std::time::Duration;

use tokio_postgres::{Client, SimpleQueryMessage};

use super::classify::{node_error, pooled};
use crate::node::NodeError;

/// How long a statement may wait for the locks of others, and how long it may take. What is held up must not be executed later, when
/// nobody counts on it any more. The server says so before [`STALLED_AFTER`], when the connection would be given up for it; and that a
/// lock is not free, before the longest node timeout by default (2 s), so that callers learn it. Neither ends a commit that waits for
/// the disk or for standbys.
const LOCK_TIMEOUT: Duration = Duration::from_millis(1500);
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(4);
/// The same while a session is prepared, which may take a second. `lock_inspect` sets it, too.
const FIRST_LOCK_TIMEOUT: Duration = Duration::from_millis(800);
/// A connection on which nothing moves for this long, although replies are due, is given up. A disk may take its time.
pub(super) const STALLED_AFTER: Duration = Duration::from_secs(5);

/// Settings that do not depend on those of role and database. A server whose client went silent in the middle of a statement waits for
/// the rest, and holds locks: so it probes the connection as the client does.
const SETTINGS: [(&str, &str); 14] = [
    ("client_min_messages", "warning"),
    ("search_path", "pg_catalog"),
    ("check_function_bodies", "off"),
    ("default_transaction_isolation", r"read\ committed"),
    ("default_transaction_read_only", "off"),
    ("enable_seqscan", "off"),
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
    ("plan_cache_mode", "force_generic_plan"),
    ("idle_in_transaction_session_timeout", "0"),
    ("tcp_keepalives_idle", "5"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "2"),
    ("tcp_user_timeout", "10000"),
];

/// Settings that end sessions, or transactions, where the server has them: a startup packet may only name those that every server has.
pub(super) const NO_TIMEOUTS: &str = "SELECT set_config(name, '0', false) FROM pg_settings
                                      WHERE name IN ('idle_session_timeout', 'transaction_timeout')";

/// Sets how long the statements of a session that is prepared may wait for the locks of others.
pub(super) fn set_lock_timeout() -> String {
    format!("SET lock_timeout = {}", LOCK_TIMEOUT.as_millis())
}

/// What only this session knows. It is among its settings, so it shows which session a statement has reached.
#[derive(Clone)]
pub(super) struct SessionId(String);

impl SessionId {
    pub(super) fn draw() -> Result<Self, NodeError> {
        Ok(Self(random_id()?))
    }

    /// For the functions, which check it.
    pub(super) fn as_text(&self) -> &String {
        &self.0
    }

    /// The options of the startup packet, behind those of the URL.
    pub(super) fn options(&self, of_url: Option<&str>) -> String {
        let timeouts = [("lock_timeout", FIRST_LOCK_TIMEOUT), ("statement_timeout", STATEMENT_TIMEOUT)];
        let timeouts = timeouts.map(|(name, timeout)| (name, timeout.as_millis().to_string()));
        let settings = SETTINGS.map(|(name, value)| (name, value.to_owned())).into_iter().chain(timeouts);
        let settings = settings.chain([("locks.session", self.0.clone())]);
        let settings = settings.map(|(name, value)| format!(" -c {name}={value}"));
        of_url.map(ToOwned::to_owned).into_iter().chain(settings).collect()
    }

    /// Refuses a session without our settings, before anything is changed in it.
    pub(super) async fn check(&self, client: &Client) -> Result<(), NodeError> {
        let found = client.simple_query("SELECT current_setting('locks.session', true)").await;
        let found = found.map_err(|error| node_error(&error))?;
        let found = found.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        if found == Some(&self.0) { Ok(()) } else { Err(pooled("it left out the settings of the session").into()) }
    }
}

/// 128 random bits, as a UUID.
pub(super) fn random_id() -> Result<String, NodeError> {
    let mut bytes = [0; 16];
    let drawn = getrandom::fill(&mut bytes);
    drawn.map_err(|error| NodeError::Unreachable { reason: format!("the system has no randomness: {error}") })?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
