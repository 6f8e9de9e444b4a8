//! Prepares a connection for votes: what the server must be, the tables, the functions, and the statements.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_postgres::{Client, Error, Statement};

use super::classify::node_error;
use super::schema::{FUNCTIONS, GRANTS, SCHEMA};
use crate::node::{NodeError, Refusal};

/// The oldest version that has everything that the functions use.
const MIN_VERSION: i32 = 12;

/// A session in which the functions were made.
pub(super) struct Session {
    pub(super) client: Client,
    /// Only this session knows it. Behind a pooler, statements may reach another one, and are refused there.
    pub(super) id: String,
    pub(super) votes: Statement,
    pub(super) inspect: Statement,
    pub(super) write_record: Statement,
    pub(super) read_fences: Statement,
    pub(super) look: Statement,
    pub(super) evict: Statement,
    pub(super) sweep: Statement,
    unanswered: AtomicUsize,
}

/// Settings that do not depend on those of user and database. Statements that are held up must not be executed later, when nobody
/// counts on them any more.
const SETTINGS: &str = "
    SET client_min_messages = warning; SET search_path = pg_catalog; SET check_function_bodies = off;
    SET default_transaction_isolation = 'read committed'; SET statement_timeout = '5s'; SET lock_timeout = 0;
    SET enable_seqscan = off; SET jit = off; SET max_parallel_workers_per_gather = 0; SET plan_cache_mode = force_generic_plan;";

impl Session {
    /// Prepares a session whose commits wait for the disk, or do not.
    pub(super) async fn prepare(client: Client, synchronous: bool) -> Result<Self, NodeError> {
        check_server(&client).await?;
        let id = random_id()?;
        // Nothing but grants and records waits for the disk. What the server has for others applies to those, such as remote_apply.
        let settings = format!(
            "{SETTINGS} SET locks.session = '{id}';
             SELECT set_config('locks.commit', {}, false); SET synchronous_commit = off;",
            if synchronous { "replace(current_setting('synchronous_commit'), 'off', 'on')" } else { "'off'" }
        );
        client.batch_execute(&settings).await.map_err(|error| node_error(&error))?;
        create_tables(&client).await?;
        client.batch_execute(&FUNCTIONS).await.map_err(|error| functions_error(node_error(&error)))?;
        let marker = format!("INSERT INTO locks.run VALUES (true, '{}') ON CONFLICT DO NOTHING", random_id()?);
        client.batch_execute(&marker).await.map_err(|error| node_error(&error))?;
        let prepare = async |call: &str| {
            let statement = format!("SELECT * FROM pg_temp.{call}");
            client.prepare(&statement).await.map_err(|error| node_error(&error))
        };
        Ok(Self {
            votes: prepare(
                "lock_votes($1, $2, $3, $4::text::uuid, $5, $6, $7, $8, $9, $10, $11::text[]::uuid[], $12, $13, $14, $15, $16, $17)",
            )
            .await?,
            inspect: prepare("lock_inspect($1, $2)").await?,
            write_record: prepare("lock_write_record($1, $2, $3, $4, $5, $6, $7, $8, $9)").await?,
            read_fences: prepare("lock_read_fences($1, $2)").await?,
            look: prepare("lock_look($1, $2, $3, $4, $5, $6)").await?,
            sweep: prepare("lock_sweep()").await?,
            evict: prepare("lock_evict($1, $2, $3, $4, $5, $6, $7, $8::text[]::uuid[], $9, $10)").await?,
            client,
            id,
            unanswered: AtomicUsize::new(0),
        })
    }

    /// The reply to a statement, which counts as unanswered until the server has answered: also if nobody waits for that any more.
    pub(super) async fn answer<T>(&self, reply: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let reply = reply.await;
        if reply.as_ref().err().is_none_or(|error| error.as_db_error().is_some()) {
            self.unanswered.fetch_sub(1, Ordering::Relaxed);
        }
        reply
    }

    /// How many statements the server has not answered, and may still execute.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }
}

/// Refuses a server that cannot be a node.
async fn check_server(client: &Client) -> Result<(), NodeError> {
    let query = "SELECT current_setting('server_version_num')::int / 10000, pg_is_in_recovery(), current_setting('server_encoding')";
    let row = client.query_one(query, &[]).await.map_err(|error| node_error(&error))?;
    match unusable(row.get(0), row.get(1), row.get(2)) {
        Some(reason) => Err(Refusal::Unusable { reason }.into()),
        None => Ok(()),
    }
}

fn unusable(version: i32, is_standby: bool, encoding: &str) -> Option<String> {
    if version < MIN_VERSION {
        return Some(format!("the version must be PostgreSQL {MIN_VERSION} or newer, got {version}"));
    }
    if is_standby {
        return Some("it is a standby, which takes no writes; name the address of the primary".into());
    }
    (encoding != "UTF8").then(|| {
        format!(
            "the encoding of the database must be UTF8, got {encoding}; create one with ENCODING 'UTF8', and name it"
        )
    })
}

/// Creates the tables, if they are not there.
async fn create_tables(client: &Client) -> Result<(), NodeError> {
    let query = "SELECT to_regclass('locks.run') IS NOT NULL";
    let found = client.query_one(query, &[]).await.map_err(|error| node_error(&error))?;
    if found.get(0) {
        return Ok(());
    }
    // One client after another.
    let create = format!("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('locks.sql', 0)); {SCHEMA} COMMIT");
    let created = client.batch_execute(&create).await.map_err(|error| node_error(&error));
    created.map_err(|error| match error {
        NodeError::Refused(Refusal::Unusable { .. }) => {
            let reason = format!(
                "the database has no tables for locks, and the user may not create them. A user who may has to run:\n{SCHEMA}\
                 {GRANTS}"
            );
            Refusal::Unusable { reason }.into()
        }
        other => other,
    })
}

fn functions_error(error: NodeError) -> NodeError {
    match error {
        NodeError::Refused(Refusal::Unusable { reason }) if reason.contains("temporary") => Refusal::Unusable {
            reason: "the user may not create temporary functions: GRANT TEMPORARY ON DATABASE, to the user".into(),
        }
        .into(),
        other => other,
    }
}

/// 128 random bits, as a UUID.
fn random_id() -> Result<String, NodeError> {
    let mut bytes = [0; 16];
    let drawn = getrandom::fill(&mut bytes);
    drawn.map_err(|error| NodeError::Unreachable { reason: format!("the system has no randomness: {error}") })?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_refused_for_its_version_as_a_standby_or_for_an_encoding() {
        assert_eq!(unusable(12, false, "UTF8"), None);
        for (version, is_standby, encoding, reason) in [
            (11, false, "UTF8", "12 or newer, got 11"),
            (15, true, "UTF8", "primary"),
            (15, false, "LATIN1", "got LATIN1"),
        ] {
            let refused = unusable(version, is_standby, encoding).unwrap();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
