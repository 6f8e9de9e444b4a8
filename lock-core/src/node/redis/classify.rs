//! What errors of redis-rs and of servers mean to a lock.

use std::error::Error;
use std::sync::Arc;

use redis::{ErrorKind, RedisError};

use crate::node::tls::refusal_in;
use crate::node::{NodeError, Refusal};

/// The error of a request that redis-rs reports. Classified by code and kind; the text is only passed on.
pub(super) fn node_error(error: &RedisError) -> NodeError {
    if let Some(code) = error.code() {
        return error_reply(code, error.detail().unwrap_or_default());
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => Refusal::Login { detail: error.to_string() }.into(),
        _ if error.is_connection_refusal() => NodeError::Unreachable { reason: "connection refused".into() },
        _ if error.is_timeout() => NodeError::TimedOut,
        ErrorKind::Io => NodeError::ConnectionLost { reason: error.to_string() },
        _ => NodeError::Protocol { reply: one_line(&error.to_string()) },
    }
}

/// Errors of the parser are several lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The error that a server replied with, classified by its code.
pub(super) fn error_reply(code: &str, detail: &str) -> NodeError {
    if code == "ERR" && detail.contains(IN_SCRIPT) {
        return script_error(detail);
    }
    // The remedy follows in the same sentence.
    let detail = detail.trim_end_matches('.').to_owned();
    match code {
        "NOAUTH" | "WRONGPASS" => Refusal::Login { detail }.into(),
        "NOPERM" => Refusal::Permission { detail }.into(),
        // A script meets what the user lacks with no code of its own, and redis-rs drops that of the answer to SELECT.
        "ERR" if is_about_permissions(&detail) => Refusal::Permission { detail }.into(),
        "ERR" if is_unknown_command(&detail) => no_command(&detail).into(),
        "CROSSSLOT" => Refusal::ClusterMode { detail }.into(),
        "LOADING" => NodeError::Unreachable { reason: format!("{detail}; it is used when it has loaded its data") },
        // A script met a key that is on another server, while the slot is being moved. It was cut short.
        "ERR" if detail.contains("non local key") => NodeError::ConnectionLost { reason: detail },
        code => match elsewhere(code) {
            Some(why) => NodeError::Elsewhere { code: code.to_owned(), detail: format!("{detail}; {why}") },
            None => {
                let remedy = remedy(code, &detail);
                NodeError::Rejected { code: code.to_owned(), detail: detail + remedy }
            }
        },
    }
}

/// Whether an error without a code says that the user lacks a permission.
fn is_about_permissions(detail: &str) -> bool {
    detail.starts_with("The user executing the script can't") || detail.contains("has no permissions to run")
}

/// Whether the server does not have a command, or a script of it: each version has other words.
fn is_unknown_command(detail: &str) -> bool {
    let detail = detail.to_ascii_lowercase();
    detail.starts_with("unknown ") && detail.contains("command")
}

/// Hosts deny commands in this way, without a word about permissions. The arguments may have the name of a lock and the id of its owner.
fn no_command(detail: &str) -> Refusal {
    let detail = detail.split(", with args").next().unwrap_or_default();
    if detail.to_ascii_lowercase().contains("sentinel") {
        return Refusal::Unusable {
            reason: format!("it is no sentinel: {detail}; name the address of one (port 26379)"),
        };
    }
    let reason = format!(
        "the server lacks a command that locks need: {detail}; it was renamed (rename-command in redis.conf), or the host denies it: see \
         the list of commands in the documentation of RedisNode"
    );
    Refusal::Unusable { reason }
}

/// What Redis 6 puts before the error of a command in a script, which is followed by the line of the script.
const IN_SCRIPT: &str = "@user_script: ";

/// The error of a command in a script: a code, if there is one, and a text.
pub(super) fn script_error(error: &str) -> NodeError {
    let in_redis_6 = error.rsplit_once(IN_SCRIPT).and_then(|(_, error)| error.split_once(": "));
    let error = in_redis_6.map_or(error, |(_line, error)| error.trim_start_matches('-'));
    match error.split_once(' ') {
        Some((code, detail)) if code.chars().all(|c| c.is_ascii_uppercase()) => error_reply(code, detail),
        _ => error_reply("ERR", error),
    }
}

/// What to do about an error that a server replied with.
fn remedy(code: &str, detail: &str) -> &'static str {
    match code {
        "OOM" => "; raise maxmemory, or keep other data elsewhere",
        "NOREPLICAS" => "; masters of locks need no replicas: set min-replicas-to-write to 0, or start the replicas",
        "MISCONF" => "; see the log of the server: its disk may be full",
        "BUSY" => "; another script keeps it busy: end that with SCRIPT KILL",
        "WRONGTYPE" => "; a key under the prefix holds other data: delete it, or use another prefix",
        _ if detail.contains("max number of clients") => "; raise maxclients, or close other connections",
        _ => "",
    }
}

/// Why a server does not have the keys, if that is what its code says.
fn elsewhere(code: &str) -> Option<&'static str> {
    Some(match code {
        "READONLY" => "it became a replica, and is inspected again",
        "MASTERDOWN" => "it became a replica, of a server that is down, and is inspected again",
        "MOVED" | "ASK" => "its slot is on another server of the cluster, which is looked for",
        "TRYAGAIN" => "its slot is being moved to another server of the cluster",
        "CLUSTERDOWN" => "the cluster is without a majority of its masters, or without one for the slot",
        _ => return None,
    })
}

/// The error of a connection attempt, when no request was under way: nothing can have been executed.
pub(super) fn connect_error(error: &RedisError) -> NodeError {
    match node_error(error) {
        NodeError::TimedOut => NodeError::Unreachable { reason: "no answer while connecting".into() },
        NodeError::ConnectionLost { reason } => NodeError::Unreachable { reason },
        other => other,
    }
}

/// The error of a login, which is the first that is sent over a new connection.
pub(super) fn login_error(error: &RedisError) -> NodeError {
    // With TLS 1.3, this is where a client learns that the server does not accept its certificate.
    if let Some(refusal) = tls_refusal(error) {
        return refusal;
    }
    match connect_error(error) {
        NodeError::Protocol { .. } if error.kind() == ErrorKind::Parse => Refusal::NotRedis.into(),
        NodeError::Unreachable { reason } if error.is_connection_dropped() && !error.is_connection_refusal() => {
            NodeError::Unreachable {
                reason: format!(
                    "the server closed the connection during the login ({reason}); it may have too many clients (maxclients), or be no \
                 Redis server"
                ),
            }
        }
        other => other,
    }
}

/// What went wrong in TLS, if that is why redis-rs failed.
fn tls_refusal(error: &RedisError) -> Option<NodeError> {
    let source = error.source()?;
    let source = source.downcast_ref::<Arc<dyn Error + Send + Sync>>().map_or(source, |shared| &**shared);
    refusal_in(source.downcast_ref()?)
}

/// The error of a factory of connections.
pub(super) fn factory_error(error: &RedisError) -> NodeError {
    if error.kind() == ErrorKind::InvalidClientConfig {
        let reason = format!(
            "{error}; make the connection of the factory in RESP3 (?protocol=resp3 in the URL of the client), or without the \
             AsyncConnectionConfig that the factory is given"
        );
        return Refusal::Unusable { reason }.into();
    }
    login_error(error)
}

/// Whether the server does not have the script with that hash.
pub(super) fn is_no_script(value: &redis::Value) -> bool {
    matches!(value, redis::Value::ServerError(error) if error.code() == "NOSCRIPT")
}

#[cfg(test)]
mod tests {
    use redis::make_extension_error;

    use super::*;

    #[test]
    fn a_server_in_cluster_mode_is_refused_and_a_slot_that_is_elsewhere_is_looked_for() {
        let error = |code: &str| node_error(&make_extension_error(code.into(), Some("detail".into())));
        assert_eq!(error("CROSSSLOT"), Refusal::ClusterMode { detail: "detail".into() }.into());
        for (code, remedy) in [
            ("CLUSTERDOWN", "majority of its masters"),
            ("MOVED", "looked for"),
            ("ASK", "looked for"),
            ("TRYAGAIN", "being moved"),
            ("READONLY", "became a replica"),
            ("MASTERDOWN", "became a replica"),
        ] {
            let error = error(code);
            assert!(matches!(error, NodeError::Elsewhere { .. }) && error.may_pass() && !error.may_have_executed());
            let text = error.to_string();
            assert!(text.starts_with(&format!("{code}: detail; ")) && text.contains(remedy), "{text}");
        }
        let in_script = error_reply("ERR", "Script attempted to access a non local key in a cluster node script: 1");
        assert!(in_script.may_have_executed() && in_script.may_pass());
    }

    #[test]
    fn an_error_that_ends_a_script_of_redis_6_is_the_one_of_its_command() {
        let ended = |error: &str| {
            let detail = format!("Error running script (call to f_b0d6): @user_script:1: @user_script: 1: {error}");
            error_reply("ERR", &detail)
        };
        assert_eq!(ended("-READONLY it is: one"), error_reply("READONLY", "it is: one"));
        let denied = "The user executing the script can't run this command or subcommand";
        assert_eq!(ended(denied), Refusal::Permission { detail: denied.into() }.into());
        assert_eq!(script_error("@user_script: 12: -NOPERM no 'set'"), error_reply("NOPERM", "no 'set'"));
    }

    #[test]
    fn errors_are_classified_by_their_code() {
        let error = |code: &str| node_error(&make_extension_error(code.into(), Some("detail".into())));
        assert!(matches!(error("NOAUTH"), NodeError::Refused(Refusal::Login { .. })));
        assert!(matches!(error("WRONGPASS"), NodeError::Refused(Refusal::Login { .. })));
        let denied = error_reply("ERR", "The user executing the script can't run this command or subcommand");
        assert!(matches!(denied, NodeError::Refused(Refusal::Permission { .. })));
        let select = error_reply("ERR", "User app has no permissions to run the 'select' command");
        assert!(matches!(select, NodeError::Refused(Refusal::Permission { .. })));
        let loading = error("LOADING");
        assert!(loading.may_pass() && loading.to_string().ends_with("when it has loaded its data"), "{loading}");
        for (code, remedy) in [
            ("OOM", "raise maxmemory"),
            ("NOREPLICAS", "min-replicas-to-write"),
            ("MISCONF", "disk"),
            ("BUSY", "SCRIPT KILL"),
            ("WRONGTYPE", "another prefix"),
        ] {
            let error = error(code);
            assert!(matches!(&error, NodeError::Rejected { code: reported, .. } if reported == code), "{error:?}");
            assert!(!error.may_have_executed() && !error.may_pass());
            let text = error.to_string();
            assert!(text.starts_with(&format!("{code}: detail; ")) && text.contains(remedy), "{text}");
        }
        for unknown in [
            "unknown command 'evalsha', with args beginning with: 'd1f0' '2' 'lock:stock:42' ",
            "unknown command `evalsha`, with args beginning with: `d1f0`, ",
            "Unknown Redis command called from Lua script",
            "Unknown command called from script script: on @user_script:1.",
        ] {
            let error = error_reply("ERR", unknown);
            assert!(
                matches!(&error, NodeError::Refused(Refusal::Unusable { reason })
                if reason.contains("rename-command") && !reason.contains("with args")),
                "{error}"
            );
        }
        let server =
            error_reply("ERR", "unknown command 'SENTINEL', with args beginning with: 'GET-MASTER-ADDR-BY-NAME' ");
        assert!(server.to_string().starts_with("it is no sentinel: "), "{server}");
        let full = error_reply("ERR", "max number of clients reached").to_string();
        assert!(full.contains("raise maxclients"), "{full}");
        assert_eq!(error_reply("ERR", "the fence is used up").to_string(), "ERR: the fence is used up");
    }
}
