/// The SQL statement that creates the table of [`CLAIM`], for SQLite and PostgreSQL. Run it with the other migrations.
///
/// In PostgreSQL, users that claim need the rights to select, insert and update in it. Nobody else needs any.
pub const CREATE_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS lock_fence (resource TEXT NOT NULL PRIMARY KEY, token BIGINT NOT NULL)";

/// The SQL statement with which a reader checks that no later writer has claimed a resource, for SQLite and PostgreSQL: `$1` is the
/// resource, `$2` the reader's token as a signed integer. It returns a row, the largest token that has claimed, **if the reader is
/// stale**; and none if it may read.
///
/// It does not raise the token, as [`CLAIM`] does: readers come in any order, and do not shut each other out. So it does not shut a
/// paused writer out either, which comes back after the reader has read. Where that matters, claim.
///
/// It must come after what the reader reads, and see what was committed until then:
///
/// - In PostgreSQL with `READ COMMITTED`, it can be in the transaction that reads. With `REPEATABLE READ` and `SERIALIZABLE`, that
///   transaction sees no claim that was made since it began, and would never refuse: run the check in a transaction of its own
///   afterwards. The functions for tokio-postgres and sqlx return an error that says so.
/// - In SQLite with a rollback journal, it can be in the transaction that reads, because nobody commits meanwhile. With
///   `journal_mode = WAL`, a transaction sees no claim that was made since its first read: run the check in a transaction of its own
///   afterwards.
pub const CHECK: &str = "SELECT token FROM lock_fence WHERE resource = $1 AND token > $2";

/// The SQL statement that claims a resource, for SQLite and PostgreSQL: `$1` is the resource, `$2` the token as a signed integer
/// ([`FencingToken::as_i64`](crate::FencingToken::as_i64)).
///
/// It changes one row, or **none if the token is stale**: then roll back. It must be the first statement of the transaction that
/// reads and writes. A token that has claimed may claim again.
///
/// Claim in the transaction itself, and not inside a savepoint: if that is rolled back, the claim is lost with it, while what is written
/// outside of it is committed.
///
/// Behind a pooler that runs each transaction in another session, as `PgBouncer` may, let the library prepare it without a name (in sqlx,
/// `persistent(false)`): by its name, the session may have another statement, and what succeeds is not the claim.
///
/// While another transaction with a claim of the same resource is open, the statement waits for it. In PostgreSQL with
/// `READ COMMITTED`, the default, it then compares with what that one has committed. With `REPEATABLE READ` and
/// `SERIALIZABLE`, it fails with a serialization error (SQLSTATE 40001), even if its token is the newer one: run the
/// transaction again. In SQLite, it waits for any transaction that writes, for as long as the busy timeout.
///
/// For rusqlite, tokio-postgres and sqlx there are functions, and for others an example: see the [module](crate::fence).
pub const CLAIM: &str = "INSERT INTO lock_fence (resource, token) VALUES ($1, $2) \
     ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE lock_fence.token <= excluded.token";
