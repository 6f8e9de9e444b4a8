//! What errors of tokio-postgres and of servers mean to a lock.

use std::error::Error as StdError;
use std::io;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

use super::schema::{GRANTS, LOG_GRANT, MIN_VERSION};
use crate::node::credentials::with_causes;
use crate::node::tls::refusal_in;
use crate::node::{NodeError, Refusal};

/// The remedy when a statement had to wait too long for another session.
const LOCKED: &str =
    "; another session has locked a table or a row of the schema locks: find it with pg_blocking_pids, and end it";

/// The error of a statement that was sent.
pub(super) fn node_error(error: &Error) -> NodeError {
    match error.as_db_error() {
        Some(error) => error_reply(error),
        None if error.is_closed() || is_io(error) => NodeError::ConnectionLost { reason: with_causes(error) },
        None => NodeError::Protocol { reply: with_causes(error) },
    }
}

/// The error of a connection attempt, when no request was under way: nothing can have been executed.
pub(super) fn connect_error(error: &Error) -> NodeError {
    // With TLS 1.3, this is where a client learns that the server does not accept its certificate.
    if let Some(refusal) = error.source().and_then(|source| refusal_in(source.downcast_ref()?)) {
        return refusal;
    }
    match node_error(error) {
        // With the server's words: it refused us for a reason of its own.
        NodeError::ConnectionLost { reason } if error.as_db_error().is_some() => NodeError::Unreachable { reason },
        NodeError::ConnectionLost { reason } => NodeError::Unreachable {
            reason: format!(
                "the server closed the connection during the login ({reason}); it may be no PostgreSQL server"
            ),
        },
        // The configuration lacks what the server asks for: a password.
        NodeError::Protocol { reply } if error.code().is_none() && reply.contains("configuration") => {
            Refusal::Login { detail: reply }.into()
        }
        other => other,
    }
}

/// What is at the address answers in another protocol.
pub(super) fn not_postgres() -> NodeError {
    let reason = "this is not a PostgreSQL server, it answers in another protocol; check host and port".into();
    Refusal::Unusable { reason }.into()
}

/// The error that a server replied with. A statement that ends with one was rolled back, unless the session ended with it.
fn error_reply(error: &DbError) -> NodeError {
    let detail = error.message().trim_end_matches('.').to_owned();
    let unusable = |reason: String| Refusal::Unusable { reason }.into();
    match error.code().code() {
        "28P01" | "28000" => Refusal::Login { detail }.into(),
        "3D000" => unusable(format!("{detail}: create the database, or name another one")),
        "53300" => NodeError::Unreachable { reason: no_connection(&detail) },
        // The server starts or stops.
        "57P03" => NodeError::Unreachable { reason: detail },
        "08P01" if detail.contains("startup parameter") => pooled(&detail).into(),
        // In the startup packet: an old server, or one that only speaks the protocol.
        "42704" if error.parsed_severity() != Some(Severity::Error) => {
            unusable(format!("{detail}: the server must be PostgreSQL {MIN_VERSION} or newer"))
        }
        _ if error.parsed_severity() != Some(Severity::Error) => NodeError::ConnectionLost { reason: detail },
        // Of a server that had no standbys when the session was prepared. Names of functions are not translated.
        "42501" if detail.contains("pg_logical_emit_message") => unusable(format!("{detail}: {LOG_GRANT}")),
        "42501" => unusable(format!("the user lacks a permission: {detail}. A user who may has to run: {GRANTS}")),
        // It was rolled back. The node is inspected again, and found to be one that forgot.
        "LK002" => NodeError::Unadmitted,
        "25006" => Refusal::Replica.into(),
        // The functions, the statement, or the setting of another session.
        "LK001" | "26000" | "42883" => {
            pooled(&format!("statements of one connection reach several sessions: {detail}")).into()
        }
        "55P03" => NodeError::Rejected { code: "55P03".into(), detail: detail + LOCKED },
        code => NodeError::Rejected { code: code.to_owned(), detail },
    }
}

/// Why the server took no connection. The message may be translated; names of roles and databases are not.
fn no_connection(detail: &str) -> String {
    let limit = match detail {
        detail if detail.contains("connections for role") => "ALTER ROLE .. CONNECTION LIMIT",
        detail if detail.contains("connections for database") => "ALTER DATABASE .. CONNECTION LIMIT",
        _ => "max_connections, or the CONNECTION LIMIT of the role or the database",
    };
    format!("{detail}: a manager needs one connection, and one more once it waits; raise {limit}, or close others")
}

/// The refusal of a pooler, which is known by this.
pub(super) fn pooled(detail: &str) -> Refusal {
    let reason = format!(
        "there is a pooler at this address, such as PgBouncer ({detail}): locks need sessions that nobody else uses; name the address of \
         the PostgreSQL server itself. A manager has one connection, and one more once it waits"
    );
    Refusal::Unusable { reason }
}

/// Whether the session cannot be used any more: its functions, or its tables, are gone.
pub(super) fn ends_session(error: &NodeError) -> bool {
    match error {
        NodeError::Rejected { code, .. } => matches!(code.as_str(), "42P01" | "3F000"),
        NodeError::Refused(_) | NodeError::ConnectionLost { .. } | NodeError::Protocol { .. } => true,
        _ => false,
    }
}

/// What the server itself said in an error: it replied with it, or ended the connection.
pub(super) fn words(error: &Error) -> Option<String> {
    let words = error.as_db_error().map(error_reply)?;
    Some(match words {
        NodeError::ConnectionLost { reason } | NodeError::Unreachable { reason } => reason,
        other => other.to_string(),
    })
}

fn is_io(error: &Error) -> bool {
    error.source().is_some_and(<dyn StdError + 'static>::is::<io::Error>)
}
