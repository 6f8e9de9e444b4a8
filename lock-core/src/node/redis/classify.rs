use redis::{ErrorKind, RedisError};

use crate::node::{NodeError, Refusal};

/// What an error of redis-rs means for a vote. By code and kind; the text is only passed on.
pub(super) fn node_error(error: &RedisError) -> NodeError {
    if let Some(code) = error.code() {
        return told(code, error.detail().unwrap_or_default());
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => Refusal::Login { detail: error.to_string() }.into(),
        _ if error.is_connection_refusal() => NodeError::Unreachable { reason: "connection refused".into() },
        _ if error.is_timeout() => NodeError::TimedOut,
        ErrorKind::Io => NodeError::ConnectionLost { reason: error.to_string() },
        _ => NodeError::Protocol { answer: error.to_string() },
    }
}

/// What an error means that the server told, by its code.
pub(super) fn told(code: &str, detail: &str) -> NodeError {
    let detail = detail.to_owned();
    match code {
        "NOAUTH" | "WRONGPASS" => Refusal::Login { detail }.into(),
        "NOPERM" => Refusal::Permission { detail }.into(),
        code => NodeError::Rejected { code: code.to_owned(), detail },
    }
}

/// What an error means that came up while connecting, when no vote was under way.
pub(super) fn connect_error(error: &RedisError) -> NodeError {
    match node_error(error) {
        NodeError::TimedOut => NodeError::Unreachable { reason: "no answer while connecting".into() },
        NodeError::ConnectionLost { reason } => NodeError::Unreachable { reason },
        other => other,
    }
}

/// Whether the server did not know a script by its hash.
pub(super) fn is_no_script(value: &redis::Value) -> bool {
    matches!(value, redis::Value::ServerError(error) if error.code() == "NOSCRIPT")
}

#[cfg(test)]
mod tests {
    use redis::make_extension_error;

    use super::*;

    #[test]
    fn errors_are_told_apart_by_their_code() {
        let error = |code: &str| node_error(&make_extension_error(code.into(), Some("detail".into())));
        assert!(matches!(error("NOAUTH"), NodeError::Refused(Refusal::Login { .. })));
        assert!(matches!(error("WRONGPASS"), NodeError::Refused(Refusal::Login { .. })));
        for code in ["OOM", "BUSY", "MISCONF", "NOREPLICAS", "READONLY", "LOADING"] {
            let error = error(code);
            assert!(matches!(&error, NodeError::Rejected { code: told, .. } if told == code), "{error:?}");
            assert!(!error.may_have_executed());
        }
    }
}
