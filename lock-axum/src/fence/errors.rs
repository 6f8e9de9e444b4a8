//! The errors of the SQL clients. Each client fails with an error of its own, and everything else is the same.

/// The error of a claim.
macro_rules! claim_error {
    ($database:ty, $failed:literal) => {
        /// Why a claim failed.
        ///
        /// A handler can return it. [`Stale`](Self::Stale) is then answered as [`StaleToken`](super::StaleToken) is, with 409.
        /// [`Database`](Self::Database) is answered with 500 and logged as the event `lock.claim_failed`.
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
                    Self::Database(error) => super::client::failed(&error),
                }
            }
        }
    };
}

/// The error of a check in PostgreSQL.
#[cfg(any(feature = "sqlx", feature = "sqlx-0_9", feature = "tokio-postgres"))]
macro_rules! check_error {
    ($database:ty) => {
        /// Why a check failed.
        ///
        /// A handler can return it. [`Stale`](Self::Stale) is then answered as [`StaleToken`](super::StaleToken) is, with 409.
        /// [`Database`](Self::Database) and [`Isolation`](Self::Isolation) are answered with 500 and logged as the event
        /// `lock.claim_failed`.
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
                    Self::Database(error) => super::client::failed(&error),
                    isolation @ Self::Isolation { .. } => super::client::cannot_check(&isolation),
                }
            }
        }
    };
}

#[cfg(any(feature = "sqlx", feature = "sqlx-0_9", feature = "tokio-postgres"))]
pub(super) use check_error;
pub(super) use claim_error;
