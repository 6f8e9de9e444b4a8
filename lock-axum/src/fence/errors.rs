//! The errors of the SQL clients. Each client fails with an error of its own, and everything else is the same.

/// The error of a claim.
macro_rules! claim_error {
    ($module:ident, $database:ty, $failed:literal) => {
        /// Why a claim failed.
        ///
        /// A handler can return it. [`Stale`](Self::Stale) is then answered as [`StaleToken`](super::StaleToken) is, with 409.
        /// [`Database`](Self::Database) is answered with 500 and logged as the event `lock.claim_failed`.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use lock_axum::fence::", stringify!($module), "::ClaimError;")]
        ///
        /// /// For a job that runs again when it failed.
        /// fn is_worth_another_try(error: &ClaimError) -> bool {
        ///     match error {
        ///         ClaimError::Stale(_) => false, // a later holder of the lock is at work
        ///         ClaimError::Database(_) => true, // roll back, and claim again
        ///     }
        /// }
        /// ```
        #[derive(Debug, ::thiserror::Error)]
        pub enum ClaimError {
            /// A later holder of the lock has claimed the resource.
            #[error(transparent)]
            Stale(#[from] super::StaleToken),
            #[doc = $failed]
            #[error("the database failed")]
            Database(#[from] $database),
        }

        impl ::axum::response::IntoResponse for ClaimError {
            fn into_response(self) -> ::axum::response::Response {
                match self {
                    Self::Stale(stale) => stale.into_response(),
                    Self::Database(error) => super::client::failed(&error, "the database failed"),
                }
            }
        }
    };
}

/// The error of a check in PostgreSQL.
#[cfg(any(feature = "sqlx", feature = "sqlx-0_9", feature = "tokio-postgres"))]
macro_rules! check_error {
    ($module:ident, $database:ty) => {
        /// Why a check failed.
        ///
        /// A handler can return it. [`Stale`](Self::Stale) is then answered as [`StaleToken`](super::StaleToken) is, with 409.
        /// [`Database`](Self::Database) and [`Isolation`](Self::Isolation) are answered with 500 and logged as the event
        /// `lock.claim_failed`.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use lock_axum::fence::", stringify!($module), "::CheckError;")]
        ///
        /// /// What becomes of a page that was read, if it may be outdated.
        /// fn may_be_shown(checked: Result<(), CheckError>) -> Result<bool, CheckError> {
        ///     match checked {
        ///         Ok(()) => Ok(true),
        ///         Err(CheckError::Stale(_)) => Ok(false), // a later writer has claimed: read again under a new lock
        ///         Err(failed) => Err(failed), // it is not known whether one has
        ///     }
        /// }
        /// ```
        #[derive(Debug, ::thiserror::Error)]
        pub enum CheckError {
            /// A later holder of the lock has claimed the resource.
            #[error(transparent)]
            Stale(#[from] super::StaleToken),
            /// PostgreSQL or the connection to it failed.
            #[error("the database failed")]
            Database(#[from] $database),
            /// A reader is checked in a transaction that sees no claim that was made since it began.
            #[error(
                "a check cannot refuse a reader at the isolation level {level}, which sees no claim that was made since the \
                 transaction began: check in a transaction of its own with read committed, after the one that reads"
            )]
            Isolation {
                /// As PostgreSQL calls it: `repeatable read` or `serializable`.
                level: String,
            },
        }

        impl ::axum::response::IntoResponse for CheckError {
            fn into_response(self) -> ::axum::response::Response {
                match self {
                    Self::Stale(stale) => stale.into_response(),
                    Self::Database(error) => super::client::failed(&error, "the database failed"),
                    isolation @ Self::Isolation { .. } => {
                        super::client::failed(&isolation, "a reader is checked where the check cannot refuse it")
                    }
                }
            }
        }
    };
}

#[cfg(any(feature = "sqlx", feature = "sqlx-0_9", feature = "tokio-postgres"))]
pub(super) use check_error;
pub(super) use claim_error;
