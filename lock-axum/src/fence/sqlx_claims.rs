//! The claims through sqlx, for each of its versions: their types are others, and everything else is the same.

/// What the module of a version consists of.
macro_rules! claims {
    ($sqlx:ident) => {
        use ::$sqlx::{Postgres, Row as _, Transaction, query, query_scalar};
        use lock_core::Lease;

        use super::client::{CHECK_AND_LEVEL, SEEN, has_a_snapshot, may_be_refused, refused};
        use super::{CLAIM, Claimant};

        // No statement is kept prepared. A pooler may run each transaction in another session, where sqlx's name for it means another
        // statement: a claim would then succeed and claim nothing.

        /// Claims the resource of a lock for the holder of `lease`, in the table of [`CREATE_TABLE`](super::CREATE_TABLE).
        ///
        /// Call it first in the transaction that reads and writes, and roll back if it fails. Dropping a transaction of a pool does that;
        /// dropping one of a single connection does it only when the connection is used again, and other claims wait until then. A token
        /// that has claimed may claim again; work that spans several transactions claims in each of them.
        ///
        /// Claim in the transaction itself, and not in one that is nested in it: that is a savepoint, and if it is rolled back, the claim
        /// is lost with it, while what is written outside of it is committed.
        ///
        /// A claim is one statement, which is not kept prepared, so that it also works behind a pooler of connections. It waits for open
        /// transactions that have claimed the same resource, for as long as `lock_timeout` allows. Every token fits `BIGINT`. For an
        /// example see the [module](self).
        ///
        /// # Errors
        ///
        /// [`ClaimError::Stale`] if a larger token has claimed the resource. [`ClaimError::Database`] if the statement fails: there is no
        /// table `lock_fence`, the wait ended, or the connection broke.
        ///
        /// With `REPEATABLE READ` and `SERIALIZABLE`, it also fails if another transaction has claimed the resource since this one began,
        /// even if the token is the newer one. The [`code`](::$sqlx::error::DatabaseError::code) of the error is 40001: run the transaction
        /// again.
        ///
        /// # Cancel safety
        ///
        /// If the future is dropped, the claim may have been made or not. Roll the transaction back.
        pub async fn claim(transaction: &mut Transaction<'_, Postgres>, lease: &Lease) -> Result<(), ClaimError> {
            claim_for(transaction, &Claimant::of(lease)).await
        }

        /// As [`claim`], for work that has no lease.
        ///
        /// # Errors
        ///
        /// As [`claim`].
        ///
        /// # Cancel safety
        ///
        /// As [`claim`].
        pub async fn claim_for(
            transaction: &mut Transaction<'_, Postgres>,
            claimant: &Claimant,
        ) -> Result<(), ClaimError> {
            may_be_refused("postgres");
            let claim = query(CLAIM).bind(claimant.resource()).bind(claimant.token().as_i64()).persistent(false);
            if claim.execute(&mut **transaction).await?.rows_affected() > 0 {
                return Ok(());
            }
            let seen = query_scalar(SEEN).bind(claimant.resource()).persistent(false);
            let seen = seen.fetch_optional(&mut **transaction).await?;
            Err(refused("postgres", claimant.clone(), seen).into())
        }

        /// Checks that no later writer than the reader with `lease` has claimed its resource, and raises nothing. For a holder that writes,
        /// [`claim`].
        ///
        /// Call it in the transaction that reads, **after** what it reads: with `READ COMMITTED`, each statement sees what was committed before
        /// it. With `REPEATABLE READ` and `SERIALIZABLE`, a transaction sees no claim that was made since it began: call it in a transaction of
        /// its own with `READ COMMITTED`, once that one has ended.
        ///
        /// # Errors
        ///
        /// [`CheckError::Stale`] if a larger token has claimed the resource, and [`CheckError::Database`] if the statement fails. [`CheckError::Isolation`] if the transaction's level is `REPEATABLE READ` or
        /// `SERIALIZABLE`, and it sees no later claim.
        ///
        /// # Cancel safety
        ///
        /// Nothing is changed in any case.
        pub async fn check(transaction: &mut Transaction<'_, Postgres>, lease: &Lease) -> Result<(), CheckError> {
            check_for(transaction, &Claimant::of(lease)).await
        }

        /// As [`check`], for work that has no lease.
        ///
        /// # Errors
        ///
        /// As [`check`].
        ///
        /// # Cancel safety
        ///
        /// As [`check`].
        pub async fn check_for(
            transaction: &mut Transaction<'_, Postgres>,
            claimant: &Claimant,
        ) -> Result<(), CheckError> {
            may_be_refused("postgres");
            let check =
                query(CHECK_AND_LEVEL).bind(claimant.resource()).bind(claimant.token().as_i64()).persistent(false);
            let row = check.fetch_one(&mut **transaction).await?;
            let (level, seen): (String, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
            if seen.is_some() {
                return Err(refused("postgres", claimant.clone(), seen).into());
            }
            if has_a_snapshot(&level) { Err(CheckError::Isolation { level }) } else { Ok(()) }
        }

        super::errors::claim_error!($sqlx, ::$sqlx::Error, "PostgreSQL or the connection to it failed.");
        super::errors::check_error!($sqlx, ::$sqlx::Error);
    };
}

pub(super) use claims;
