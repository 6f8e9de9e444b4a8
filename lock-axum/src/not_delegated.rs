use std::fmt;

/// Why a request is not handled under the lock of its sender, although its delegation may be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotDelegated {
    Missing,
    Several,
    OtherResource,
    ToRead,
}

impl fmt::Display for NotDelegated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the request carries no delegation: the header `lock-delegation` is missing",
            Self::Several => "the request carries more than one delegation",
            Self::OtherResource => "the delegation is for another resource than that of the request",
            Self::ToRead => "the delegation is to read, and the request writes",
        })
    }
}
