use std::time::Duration;

use ::redis::RedisResult;
use lock_support::RedisServer;
use tokio::time::{sleep, timeout};

use super::super::PREFIX;
use super::super::fault::Kind;
use super::super::wakeups::Traffic;

/// How long a server has to say whether it votes, and to carry out a command.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// How old a copy of a server is when the server becomes a replica of it. The locks of that time are not in it.
const COPY_AGE: Duration = Duration::from_millis(200);

pub(super) const FAULTS: [Kind; 8] = [
    Kind::KillServer,
    Kind::RestartServer,
    Kind::ReloadServer,
    Kind::StopServer,
    Kind::FlushServer,
    Kind::ReplicateCopy,
    Kind::FlushScripts,
    Kind::PauseClients,
];

/// One connection carries everything.
pub(super) const SIGNS: [(&str, Traffic); 1] = [("SCRIPT", Traffic::Requests)];

pub(super) const LACKS: [&str; 1] = ["no connection for wake-ups was cut"];
/// A majority of one node is all of it.
pub(super) const LACKS_ALONE: [&str; 2] = [LACKS[0], "nobody of the crowd lost its connections in line"];

/// Arguments of a server that knows a user for each service.
pub(super) fn users(services: usize) -> Vec<String> {
    let user = |service| ["--user", &user(service), "on", "nopass", "~*", "&*", "+@all"].map(str::to_owned);
    (0..services).flat_map(user).collect()
}

/// The user whose rights a service has.
pub(super) fn user(service: usize) -> String {
    format!("service-{service}")
}

/// Takes the right to `PUBLISH` from a service, or gives it back; and the right to do so on the channels of a cluster.
pub(super) async fn allow_publish(server: &RedisServer, service: usize, allowed: bool) -> Result<(), String> {
    let sign = if allowed { '+' } else { '-' };
    command(server, &format!("ACL SETUSER {} {sign}publish {sign}spublish", user(service))).await
}

pub(super) async fn inject(server: &mut RedisServer, kind: Kind, duration: Duration) -> Result<(), String> {
    match kind {
        Kind::KillServer => server.kill(),
        Kind::RestartServer => server.restart_empty().await,
        Kind::ReloadServer => server.restart_with_data().await,
        Kind::StopServer => server.stop(),
        Kind::FlushServer => command(server, "FLUSHALL").await?,
        Kind::ReplicateCopy => {
            let copy = server.start_copy().await;
            sleep(duration + COPY_AGE).await;
            server.replicate(&copy).await;
            server.promote().await;
        }
        Kind::FlushScripts => command(server, "SCRIPT FLUSH").await?,
        Kind::PauseClients => command(server, &format!("CLIENT PAUSE {} ALL", duration.as_millis())).await?,
        other => return Err(format!("{other:?} is no fault of Redis")),
    }
    Ok(())
}

pub(super) async fn heal(server: &mut RedisServer, kind: Kind) {
    match kind {
        Kind::KillServer => server.restart_empty().await,
        Kind::StopServer => server.cont(),
        _ => {}
    }
}

pub(super) async fn votes(server: &RedisServer) -> bool {
    let asked = async {
        let info = server.try_query::<String>("INFO").await?;
        is_own_record(server, &format!("{PREFIX}{{node}}"), &info).await
    };
    matches!(timeout(REPLY_TIMEOUT, asked).await, Ok(Ok(true)))
}

/// Whether a record is for the memory that a server has by its `INFO`, and has an epoch.
pub(super) async fn is_own_record(server: &RedisServer, record: &str, info: &str) -> RedisResult<bool> {
    let record = server.try_query::<[Option<String>; 2]>(&format!("HMGET {record} epoch run_id")).await?;
    let [epoch, run_id] = record.map(Option::unwrap_or_default);
    let (process, data) = run_id.split_once('/').unwrap_or_default();
    let names = |field: &str, value: &str| info.contains(&format!("{field}:{value}\r\n"));
    Ok(!epoch.is_empty() && names("run_id", process) && names("master_replid", data))
}

pub(super) async fn lock_keys(server: &RedisServer) -> Vec<String> {
    server.keys(&format!("{PREFIX}[^{{]*")).await
}

pub(super) async fn command(server: &RedisServer, command: &str) -> Result<(), String> {
    match timeout(COMMAND_TIMEOUT, server.try_query::<String>(command)).await {
        Ok(Ok(_)) => Ok(()),
        reply => Err(format!("{command} got no reply: {reply:?}")),
    }
}
