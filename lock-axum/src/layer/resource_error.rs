use thiserror::Error;

use crate::key_error::KeyError;

/// Why there is no resource.
#[derive(Debug, Error)]
pub(super) enum ResourceError {
    /// A mistake of the client.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A mistake of the service: the template is for other routes.
    #[error("the route has no path parameter {0:?}")]
    NoPathParameter(String),
    /// Another mistake of the service: it is unknown which of them the handler works on.
    #[error("the route has the path parameter {0:?} more than once")]
    AmbiguousPathParameter(String),
}
