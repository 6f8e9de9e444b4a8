//! The tables, which are created once for a database, and the functions, which each session makes for itself.

use std::sync::LazyLock;

use crate::node::limits::{
    MAX_EVICTED, MAX_GONE, MAX_READERS_SEEN, MAX_RESERVATIONS, MAX_TOKEN, MAX_WAITERS, MAX_WOKEN_READERS, QUEUE_TTL,
    RESERVED_TTL, WRITER_HEARD,
};
use crate::node::{EVICTION_GAP, OwnerId, RESERVATION_TTL};

/// The oldest version that has everything that the functions use.
pub(super) const MIN_VERSION: i32 = 12;

/// The tables that locks need in a database of PostgreSQL, as SQL. [`PostgresNode`](crate::PostgresNode) creates them if its user may.
pub(super) const SCHEMA: &str = include_str!("sql/locks.sql");

/// Fails if the tables have other columns: they are those of somebody else, or of another version.
pub(super) const CHECK: &str = "
    SELECT keyspace, member, version, run_id, format, was, roster, previous, promised, accepted, quarantines, epoch, floor
      FROM locks.node LIMIT 0;
    SELECT keyspace, fence, token FROM locks.fence LIMIT 0; SELECT key, owner, expires FROM locks.lock LIMIT 0;
    SELECT key, owner, expires FROM locks.reader LIMIT 0; SELECT key, owners, until FROM locks.evicted LIMIT 0;
    SELECT key, expires FROM locks.queue LIMIT 0; SELECT key, since, reads, polls, waiter FROM locks.waiter LIMIT 0;
    SELECT queue, key, began, waiters, knows, late FROM locks.reservation LIMIT 0;
    SELECT key, waiter, at FROM locks.heard LIMIT 0; SELECT one, id FROM locks.run LIMIT 0";

/// What else a user needs who did not create the tables.
pub(super) const GRANTS: &str = "GRANT USAGE ON SCHEMA locks TO app; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \
                                 locks TO app (with the name of the user)";

/// The class of the advisory locks on fences, and the number of the one on the records: no fence is negative.
const LOCKS: i64 = 0x6c6f_636b;
const RECORDS: i64 = -1;

/// The functions, in the schema of temporary objects: a user needs no right to create them, and no two sessions share them. So clients of
/// different versions use one database side by side.
pub(super) static FUNCTIONS: LazyLock<String> = LazyLock::new(|| {
    let sources = [
        include_str!("sql/record.sql"),
        include_str!("sql/votes.sql"),
        include_str!("sql/common.sql"),
        include_str!("sql/readers.sql"),
        include_str!("sql/queue.sql"),
        include_str!("sql/look.sql"),
    ];
    let constants: [(&str, i128); 14] = [
        ("LOCKS", LOCKS.into()),
        ("RECORDS", RECORDS.into()),
        ("MAX_TOKEN", MAX_TOKEN.into()),
        ("MAX_WAITERS", MAX_WAITERS as i128),
        ("MAX_RESERVATIONS", MAX_RESERVATIONS.into()),
        ("MAX_GONE", MAX_GONE as i128),
        ("MAX_EVICTED", MAX_EVICTED as i128),
        ("MAX_READERS_SEEN", MAX_READERS_SEEN as i128),
        ("MAX_WOKEN_READERS", MAX_WOKEN_READERS as i128),
        ("QUEUE_TTL", QUEUE_TTL.as_millis().cast_signed()),
        ("RESERVED_TTL", RESERVED_TTL.as_millis().cast_signed()),
        ("WRITER_HEARD", WRITER_HEARD.as_millis().cast_signed()),
        ("EVICTION_GAP", EVICTION_GAP.as_millis().cast_signed()),
        ("RESERVATION_US", RESERVATION_TTL.as_micros().cast_signed()),
    ];
    let source = sources.concat().replace("@NOBODY@", &OwnerId::NOBODY.uuid());
    constants.iter().fold(source, |source, (name, value)| source.replace(&format!("@{name}@"), &value.to_string()))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_of_a_function_has_a_value() {
        assert!(FUNCTIONS.contains("pg_temp.lock_votes") && !FUNCTIONS.contains('@'), "{}", *FUNCTIONS);
    }
}
