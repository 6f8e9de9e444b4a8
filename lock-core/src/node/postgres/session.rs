//! Prepares a connection for votes: what the server must be, the tables, the functions, and the statements.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::try_join;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, SimpleQueryRow, Statement};

use super::classify::node_error;
use super::schema::{CHECK, FUNCTIONS, GRANTS, LOG_GRANT, MIN_VERSION, SCHEMA};
use super::settings::{LOCK_TIMEOUT, NO_TIMEOUTS, SessionId, first_row};
use crate::node::{NodeError, Refusal};
use crate::random::Random;

/// The parameters of a statement.
type Parameters<'a> = [&'a (dyn ToSql + Sync)];

/// What the commits of grants wait for: the disk and the standbys, or more.
const COMMIT: &str = "CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on' ELSE current_setting('synchronous_commit') END";

/// A session in which the functions were made.
pub(super) struct Session {
    pub(super) client: Client,
    /// Behind a pooler, statements may reach another session, and are refused there.
    pub(super) id: SessionId,
    /// The votes on one request.
    pub(super) vote: Statement,
    pub(super) votes: Statement,
    pub(super) inspect: Statement,
    pub(super) write_record: Statement,
    pub(super) read_fences: Statement,
    pub(super) look: Statement,
    pub(super) evict: Statement,
    pub(super) sweep: Statement,
    unanswered: AtomicUsize,
}

impl Session {
    /// Prepares a session whose commits wait for the disk, or do not. What can be sent together is: a server may be far away.
    pub(super) async fn prepare(client: Client, id: SessionId, synchronous: bool) -> Result<Self, NodeError> {
        let has_tables = check_server(&client).await?;
        let batch = async |sql: &str| client.batch_execute(sql).await.map_err(|error| node_error(&error));
        let prepare = async |call: &str| {
            let statement = format!("SELECT * FROM pg_temp.{call}");
            client.prepare(&statement).await.map_err(|error| node_error(&error))
        };
        // Nothing but grants and records waits for the disk, and for the standbys. What the server has for others applies to those, such as
        // remote_apply: so this is not in the startup packet, which would hide it. But what waits for less does not.
        let settings = format!(
            "{NO_TIMEOUTS}; SELECT set_config('locks.commit', {}, false); SET synchronous_commit = off",
            if synchronous { COMMIT } else { "'off'" }
        );
        let memory_marker =
            format!("INSERT INTO locks.run VALUES (true, '{}') ON CONFLICT DO NOTHING", Random::from_system().uuid());
        // In this order. If one fails, so do those behind it, and the first error is the one that says why.
        let ((), (), (), (), (), vote, votes, inspect, write_record, read_fences, look, evict, sweep, ()) = try_join!(
            batch(&settings),
            async { if has_tables { Ok(()) } else { create_tables(&client).await } },
            async { batch(CHECK).await.map_err(foreign_tables) },
            batch(&FUNCTIONS),
            batch(&memory_marker),
            prepare(
                "lock_vote($1, $2, $3, $4::text::uuid, $5, $6, $7, $8, $9, $10, $11::text::uuid, $12, $13, $14, $15, $16, $17)",
            ),
            prepare(
                "lock_votes($1, $2, $3, $4::text::uuid, $5, $6, $7, $8, $9, $10, $11::text[]::uuid[], $12, $13, $14, $15, $16, $17, $18)",
            ),
            prepare("lock_inspect($1, $2)"),
            prepare("lock_write_record($1, $2, $3, $4, $5, $6, $7, $8, $9)"),
            prepare("lock_read_fences($1, $2)"),
            prepare("lock_look($1, $2, $3, $4, $5, $6)"),
            prepare("lock_evict($1, $2, $3, $4, $5, $6, $7, $8::text[]::uuid[], $9, $10)"),
            prepare("lock_sweep($1, $2)"),
            batch(LOCK_TIMEOUT),
        )?;
        let unanswered = AtomicUsize::new(0);
        Ok(Self { client, id, vote, votes, inspect, write_record, read_fences, look, evict, sweep, unanswered })
    }

    /// The rows of the reply to a statement, which begins with the id of the session. It counts as unanswered until the server has
    /// answered: also if nobody waits for that any more.
    pub(super) async fn query(&self, statement: &Statement, parameters: &Parameters<'_>) -> Result<Vec<Row>, Error> {
        let parameters = [&[&self.id.0 as &(dyn ToSql + Sync)][..], parameters].concat();
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let rows = self.client.query(statement, &parameters).await;
        if rows.as_ref().err().is_none_or(|error| error.as_db_error().is_some()) {
            self.unanswered.fetch_sub(1, Ordering::Relaxed);
        }
        rows
    }

    /// The same, with the meaning of the error.
    pub(super) async fn rows(&self, statement: &Statement, parameters: &Parameters<'_>) -> Result<Vec<Row>, NodeError> {
        self.query(statement, parameters).await.map_err(|error| node_error(&error))
    }

    /// How many statements the server has not answered, and may still execute.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }
}

/// What a server says about itself.
struct Server<'a> {
    version: i32,
    is_standby: bool,
    encoding: &'a str,
    may_make_functions: bool,
    /// Whether what its votes log for synchronous standbys, if it has any, is permitted.
    may_log: bool,
    /// Whether the table that a crash has to empty is logged, if it is there.
    is_run_logged: Option<bool>,
}

/// Refuses a server that cannot be a node. Returns whether the tables are there.
async fn check_server(client: &Client) -> Result<bool, NodeError> {
    let query = "SELECT current_setting('server_version_num')::int / 10000, pg_is_in_recovery(), current_setting('server_encoding'),
                   has_database_privilege(current_database(), 'TEMPORARY'),
                   current_setting('synchronous_standby_names') = '' OR coalesce((
                     SELECT bool_and(has_function_privilege(p.oid, 'EXECUTE')) FROM pg_proc p
                       WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = 'pg_logical_emit_message'
                       AND p.proargtypes[2] = 'text'::regtype), true),
                   (SELECT c.relpersistence <> 'u' FROM pg_class c WHERE c.oid = to_regclass('locks.run'))";
    let row = first_row(client, query).await?;
    let unexpected = || NodeError::Protocol { reply: format!("the server does not describe itself: {row:?}") };
    let server = row.as_ref().and_then(described).ok_or_else(unexpected)?;
    match unusable(&server) {
        Some(reason) => Err(Refusal::Unusable { reason }.into()),
        None => Ok(server.is_run_logged.is_some()),
    }
}

fn described(row: &SimpleQueryRow) -> Option<Server<'_>> {
    Some(Server {
        version: row.try_get(0).ok()??.parse().ok()?,
        is_standby: row.try_get(1).ok()?? == "t",
        encoding: row.try_get(2).ok()??,
        may_make_functions: row.try_get(3).ok()?? == "t",
        may_log: row.try_get(4).ok()?? == "t",
        is_run_logged: row.try_get(5).ok()?.map(|is_logged| is_logged == "t"),
    })
}

fn unusable(server: &Server<'_>) -> Option<String> {
    let Server { version, is_standby, encoding, may_make_functions, may_log, is_run_logged } = *server;
    if version < MIN_VERSION {
        return Some(format!("the version must be PostgreSQL {MIN_VERSION} or newer, got {version}"));
    }
    if is_standby {
        return Some("it is a standby, which takes no writes; name the address of the primary".into());
    }
    if encoding != "UTF8" {
        return Some(format!(
            "the encoding of the database must be UTF8, got {encoding}; create one with ENCODING 'UTF8', and name it"
        ));
    }
    if !may_make_functions {
        return Some("the user may not create temporary functions: GRANT TEMPORARY ON DATABASE, to the user".into());
    }
    if !may_log {
        return Some(format!("the server has synchronous_standby_names, for which votes are logged: {LOG_GRANT}"));
    }
    (is_run_logged == Some(true)).then(|| {
        "the table locks.run is logged, so a crash would not be noticed: ALTER TABLE locks.run SET UNLOGGED".into()
    })
}

async fn create_tables(client: &Client) -> Result<(), NodeError> {
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
        other => foreign_tables(other),
    })
}

/// Tables of these names without the columns that locks need, or without some of the others.
fn foreign_tables(error: NodeError) -> NodeError {
    match error {
        NodeError::Rejected { code, detail } if matches!(code.as_str(), "42703" | "42P01") => Refusal::Unusable {
            reason: format!(
                "the tables in the schema locks are not those of this version ({detail}): name another database, or rename that schema"
            ),
        }
        .into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_refused_for_what_it_is_and_told_the_remedy() {
        let usable = || Server {
            version: 12,
            is_standby: false,
            encoding: "UTF8",
            may_make_functions: true,
            may_log: true,
            is_run_logged: Some(false),
        };
        assert_eq!(unusable(&usable()), None);
        assert_eq!(unusable(&Server { is_run_logged: None, ..usable() }), None);
        for (server, reason) in [
            (Server { version: 11, ..usable() }, "12 or newer, got 11"),
            (Server { is_standby: true, ..usable() }, "primary"),
            (Server { encoding: "LATIN1", ..usable() }, "got LATIN1"),
            (Server { may_make_functions: false, ..usable() }, "GRANT TEMPORARY"),
            (Server { may_log: false, ..usable() }, LOG_GRANT),
            (Server { is_run_logged: Some(true), ..usable() }, "SET UNLOGGED"),
        ] {
            let refused = unusable(&server).unwrap();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
