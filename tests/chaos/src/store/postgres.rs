use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_support::PostgresServer;
use tokio::time::timeout;
use tokio_postgres::{Error, NoTls, SimpleQueryMessage};

use super::super::PREFIX;
use super::super::fault::Kind;
use super::super::wakeups::Traffic;

/// How long a server has to say whether it votes, and to carry out a command.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// A client that has connected and says nothing, as behind a link that holds its requests back, keeps a server from stopping
/// for this long.
pub(super) const ARGUMENTS: [&str; 2] = ["-c", "authentication_timeout=1s"];

/// What a database administrator runs to create the tables.
const TABLES: &str = include_str!("../../../../lock-core/src/node/postgres/sql/locks.sql");

pub(super) const FAULTS: [Kind; 10] = [
    Kind::KillServer,
    Kind::RestartServer,
    Kind::CrashServer,
    Kind::ShutDownServer,
    Kind::StopServer,
    Kind::EndSessions,
    Kind::Checkpoint,
    Kind::RecreateTable,
    Kind::TruncateTable,
    Kind::StepClock,
];

/// The functions for votes are made in the session.
pub(super) const SIGNS: [(&str, Traffic); 2] = [("LISTEN", Traffic::Wakeups), ("pg_temp.", Traffic::Requests)];

pub(super) async fn inject(server: &mut PostgresServer, kind: Kind) -> Result<(), String> {
    match kind {
        Kind::KillServer => server.kill(),
        Kind::RestartServer => {
            server.kill();
            server.start_again().await;
        }
        Kind::CrashServer => server.shut_down_immediately().await,
        Kind::ShutDownServer => server.shut_down().await,
        Kind::StopServer => server.stop(),
        Kind::EndSessions => {
            let others = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
            command(server, &format!("SELECT pg_terminate_backend(pid) {others}")).await?;
        }
        // In one transaction, so that no service finds a part of it.
        Kind::RecreateTable => command(server, &format!("DROP TABLE locks.lock; {TABLES}")).await?,
        Kind::TruncateTable => command(server, "TRUNCATE locks.lock").await?,
        Kind::Checkpoint => command(server, "CHECKPOINT").await?,
        other => return Err(format!("{other:?} is no fault of PostgreSQL")),
    }
    Ok(())
}

pub(super) async fn heal(server: &mut PostgresServer, kind: Kind) {
    match kind {
        Kind::KillServer | Kind::CrashServer | Kind::ShutDownServer => server.start_again().await,
        Kind::StopServer => server.cont(),
        _ => {}
    }
}

/// The record is for the marker and the files of the tables that there are now: after a crash, or when a table was dropped or truncated,
/// it is for others.
pub(super) async fn votes(server: &PostgresServer) -> bool {
    let tables = ["node", "fence", "lock", "reader", "evicted"];
    let files = tables.map(|table| format!("pg_relation_filenode('locks.{table}'::regclass)")).join(", ");
    let votes = format!(
        "SELECT n.epoch <> '' AND n.run_id LIKE concat_ws('.', {files}) || '/%/' || r.id FROM locks.node n, locks.run r"
    );
    matches!(timeout(REPLY_TIMEOUT, query(server, &votes)).await, Ok(Ok(rows)) if rows == ["t"])
}

pub(super) async fn lock_keys(server: &PostgresServer) -> Vec<String> {
    let held = format!("SELECT key FROM locks.lock WHERE starts_with(key, '{PREFIX}') AND expires > clock_timestamp()");
    query(server, &held).await.unwrap()
}

/// Each lock and each tombstone on a server, with its owner, and how many milliseconds it lives.
pub(in super::super) async fn held(server: &PostgresServer) -> Option<Vec<(String, i64)>> {
    let held = "SELECT key || coalesce(' ' || owner, '') AS what, expires AS until FROM locks.lock
        UNION ALL SELECT r.key || ' read by ' || r.owner, r.expires FROM locks.reader r JOIN locks.lock l USING (key) WHERE l.owner IS NULL
        UNION ALL SELECT key || ' not for ' || unnest(owners), until FROM locks.evicted";
    let lives = "round(extract(epoch FROM until - clock_timestamp()) * 1000)";
    let held = format!(
        "SELECT {lives} || ' ' || what FROM ({held}) h WHERE until > clock_timestamp() AND starts_with(what, '{PREFIX}')"
    );
    let rows = timeout(REPLY_TIMEOUT, query(server, &held)).await.ok()?.ok()?;
    rows.iter()
        .map(|row| row.split_once(' ').and_then(|(lives, what)| Some((what.to_owned(), lives.parse().ok()?))))
        .collect()
}

/// Steps the clock of a server forward. Nothing else is set.
pub(in super::super) async fn step_clock(server: &PostgresServer, step: Duration) -> Result<(), String> {
    let clock = query(server, "SELECT round(extract(epoch FROM clock_timestamp()) * 1000000)").await;
    let clock = clock.ok().and_then(|rows| rows.first()?.parse().ok()).map(Duration::from_micros);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ahead = clock.ok_or("the server does not tell its time")?.saturating_sub(now);
    server.step_clock(ahead + step);
    Ok(())
}

async fn command(server: &PostgresServer, command: &str) -> Result<(), String> {
    match timeout(COMMAND_TIMEOUT, query(server, command)).await {
        Ok(Ok(_)) => Ok(()),
        reply => Err(format!("{command} got no reply: {reply:?}")),
    }
}

/// The first column of what a query returns, on a connection of its own.
async fn query(server: &PostgresServer, query: &str) -> Result<Vec<String>, Error> {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await?;
    // The connection ends when its client is dropped.
    let asked = async move { client.simple_query(query).await };
    let (answer, _) = tokio::join!(asked, connection);
    let column = |message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    Ok(answer?.into_iter().filter_map(column).collect())
}
