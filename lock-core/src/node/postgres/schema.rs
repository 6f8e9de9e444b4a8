//! The tables, which are created once for a database, and the functions, which each session makes for itself.

use std::sync::LazyLock;

use crate::node::{OwnerId, RESERVATION_TTL, limits};

/// The oldest version that has everything that the functions use.
pub(super) const MIN_VERSION: i32 = 12;

/// The tables that locks need in a database of PostgreSQL, as SQL. [`PostgresNode`](crate::PostgresNode) creates them if its user may.
pub(super) const SCHEMA: &str = include_str!("sql/locks.sql");

/// Fails if the tables have other columns: then they belong to somebody else, or to another version.
pub(super) const CHECK: &str = "
    SELECT keyspace, member, version, run_id, format, was, roster, previous, promised, accepted, quarantines, epoch, floor
      FROM locks.node LIMIT 0;
    SELECT keyspace, fence, token FROM locks.fence LIMIT 0; SELECT keyspace, fence, token, most, is_on_disk FROM locks.counter LIMIT 0;
    SELECT key, owner, expires FROM locks.lock LIMIT 0;
    SELECT key, owner, expires FROM locks.reader LIMIT 0; SELECT key, owners, until FROM locks.evicted LIMIT 0;
    SELECT key, expires FROM locks.queue LIMIT 0; SELECT key, since, reads, polls, waiter, permits, called, offer FROM locks.waiter LIMIT 0;
    SELECT key, began, waiters, knows, late FROM locks.reservation LIMIT 0;
    SELECT key, waiter, at FROM locks.heard LIMIT 0; SELECT one, id FROM locks.run LIMIT 0";

/// What else a user needs who did not create the tables.
pub(super) const GRANTS: &str = "GRANT USAGE ON SCHEMA locks TO app; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \
                                 locks TO app (with the name of the user)";

/// What a user needs on a server with synchronous standbys, if not everyone has it. Before version 17, there is no fourth parameter.
pub(super) const LOG_GRANT: &str = "a superuser has to run: GRANT EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) TO \
                                    app (with the name of the user; since PostgreSQL 17: (boolean, text, text, boolean))";

/// The class of the advisory locks on fences, and the number of the one on the records: no fence is negative.
const LOCKS: i64 = 0x6c6f_636b;
const RECORDS: i64 = -1;

/// How many tokens of a fence are written to the disk ahead; that many are skipped at most when the server forgets. The tokens of a single
/// node follow the clock, in microseconds: of its grants of a lock, one in a second waits for the disk. Not further ahead than that: a
/// server that forgot grants nothing for longer, and the clock has caught up then.
const RESERVE: i64 = 1_000_000;

/// Must be right: exclusion and the order of tokens rest on it.
const LEDGER: [&str; 5] = [
    include_str!("sql/ledger.sql"),
    include_str!("sql/ledger_holders.sql"),
    include_str!("sql/ledger_lone.sql"),
    include_str!("sql/ledger_usual.sql"),
    include_str!("sql/evict.sql"),
];
/// May be wrong, or lose everything: that costs turns and time.
const WAITING: [&str; 4] = [
    include_str!("sql/waiting.sql"),
    include_str!("sql/waiting_queue.sql"),
    include_str!("sql/waiting_slots.sql"),
    include_str!("sql/wakeups.sql"),
];
const OTHERS: [&str; 4] = [
    include_str!("sql/session.sql"),
    include_str!("sql/record.sql"),
    include_str!("sql/look.sql"),
    include_str!("sql/sweep.sql"),
];

/// The functions, in the schema of temporary objects: a user needs no right to create them, and no two sessions share them. So clients of
/// different versions use one database side by side.
pub(super) static FUNCTIONS: LazyLock<String> = LazyLock::new(|| {
    let sources = [&OTHERS[..], &LEDGER, &WAITING].concat();
    let own = [
        ("LOCKS", LOCKS.to_string()),
        ("NOBODY", OwnerId::NOBODY.uuid()),
        ("RECORDS", RECORDS.to_string()),
        ("RESERVATION_US", RESERVATION_TTL.as_micros().to_string()),
        ("RESERVE", RESERVE.to_string()),
    ];
    let constants = limits::named().into_iter().chain(own);
    constants.fold(sources.concat(), |source, (name, value)| source.replace(&format!("@{name}@"), &value))
});

#[cfg(test)]
mod tests {
    use super::*;

    /// Without them, the node is another memory. All but `counter`, which is no more than `fence` allows.
    const LEDGER_TABLES: [&str; 5] = ["locks.node", "locks.fence", "locks.lock", "locks.reader", "locks.evicted"];

    fn tables() -> impl Iterator<Item = (&'static str, bool)> {
        SCHEMA.lines().filter_map(|line| {
            let line = line.strip_prefix("CREATE ")?;
            let is_logged = !line.starts_with("UNLOGGED ");
            let table = line.trim_start_matches("UNLOGGED ").strip_prefix("TABLE IF NOT EXISTS ")?.split(' ').next()?;
            Some((table, is_logged))
        })
    }

    #[test]
    fn what_has_to_outlive_a_crash_is_logged() {
        let logged: Vec<_> = tables().filter(|(_, is_logged)| *is_logged).map(|(table, _)| table).collect();
        assert_eq!(logged, ["locks.node", "locks.fence", "locks.evicted"]);
    }

    fn names(source: &str, table: &str) -> bool {
        source.match_indices(table).any(|(at, _)| {
            let next = source[at + table.len()..].chars().next();
            !next.is_some_and(|next| next == '_' || next.is_alphanumeric())
        })
    }

    #[test]
    fn the_waiting_room_uses_no_table_of_the_ledger() {
        for table in LEDGER_TABLES.into_iter().chain(["locks.counter"]) {
            assert!(LEDGER.iter().any(|source| names(source, table)), "{table}");
            assert!(!WAITING.iter().any(|source| names(source, table)), "{table}");
        }
    }

    #[test]
    fn the_ledger_only_looks_whether_somebody_waits() {
        let others = |table: &&str| !LEDGER_TABLES.contains(table) && !["locks.counter", "locks.queue"].contains(table);
        let waiting: Vec<_> = tables().map(|(table, _)| table).filter(others).collect();
        assert_eq!(waiting, ["locks.waiter", "locks.reservation", "locks.heard", "locks.run"]);
        for table in waiting {
            assert!(!LEDGER.iter().any(|source| names(source, table)), "{table}");
        }
        let writes = ["INTO locks.queue", "UPDATE locks.queue", "DELETE FROM locks.queue"];
        assert!(!LEDGER.iter().any(|source| writes.iter().any(|write| source.contains(write))));
    }

    #[test]
    fn a_table_of_the_ledger_that_is_another_one_is_noticed() {
        let source = OTHERS.concat();
        let ledger = source.split("FUNCTION pg_temp.lock_ledger()").nth(1).and_then(|rest| rest.split("$$;").next());
        let ledger = ledger.unwrap_or_default();
        for table in LEDGER_TABLES {
            assert!(ledger.contains(&format!("pg_relation_filenode('{table}'::regclass)")), "{table} in {ledger}");
        }
    }

    #[test]
    fn every_constant_of_a_function_has_a_value() {
        assert!(FUNCTIONS.contains("pg_temp.lock_votes") && !FUNCTIONS.contains('@'), "{}", *FUNCTIONS);
    }
}
