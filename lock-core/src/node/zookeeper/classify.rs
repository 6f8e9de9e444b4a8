use zookeeper_client::Error;

use crate::node::{NodeError, Refusal};

/// What an error means for a request that was sent.
pub(super) fn node_error(error: &Error) -> NodeError {
    match error {
        // Any of these may have come after the request was carried out, and before its reply.
        Error::ConnectionLoss
        | Error::SessionExpired
        | Error::SessionMoved
        | Error::ClientClosed
        | Error::Timeout
        | Error::AuthFailed
        | Error::Custom(_) => NodeError::ConnectionLost { reason: error.to_string() },
        Error::NoAuth => rejected("NOAUTH", "the user may not do this here; check the login, or the ACL of the znodes"),
        Error::NoNode => rejected("NONODE", "a znode is missing that the node had created; it is inspected again"),
        Error::NodeExists
        | Error::BadVersion
        | Error::NotEmpty
        | Error::InvalidAcl
        | Error::NotReadOnly
        | Error::NoChildrenForEphemerals
        | Error::QuotaExceeded
        | Error::Throttled
        | Error::BadArguments(_)
        | Error::Unimplemented => rejected("ZOOKEEPER", &error.to_string()),
        other => NodeError::Protocol { reply: other.to_string() },
    }
}

/// What an error means while the node is inspected.
pub(super) fn inspection_error(error: &Error, path: &str) -> NodeError {
    let reason = match error {
        Error::NoAuth => format!(
            "the user has no rights on {path}; check the login (user:password@host:port/path), or have its ACL allow this user \
             to read, write, create and delete"
        ),
        Error::InvalidAcl => "the servers refused the login; check that the digest scheme is allowed".to_owned(),
        Error::AuthFailed => return Refusal::Login { detail: error.to_string() }.into(),
        Error::NotReadOnly => return NodeError::Unreachable { reason: "the server has lost its ensemble".into() },
        other => return node_error(other),
    };
    Refusal::Unusable { reason }.into()
}

fn rejected(code: &str, detail: &str) -> NodeError {
    NodeError::Rejected { code: code.to_owned(), detail: detail.to_owned() }
}
