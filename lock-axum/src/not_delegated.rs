use thiserror::Error;

/// Why a request is not handled under the lock of its sender, although its delegation may be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotDelegated {
    #[error("the request carries no delegation: the header `lock-delegation` is missing")]
    Missing,
    #[error("the request carries more than one delegation")]
    Several,
    #[error("the delegation is for another resource than the one of the request")]
    OtherResource,
    #[error("the delegation is to read, and the request writes")]
    ToRead,
}
