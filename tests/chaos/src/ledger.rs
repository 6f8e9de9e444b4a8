//! What the locks protect: counters in one SQLite file, which every service reads, works on, and writes back.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

/// How long a statement waits while another service writes, which may be stopped just then.
const BUSY_TIMEOUT: Duration = Duration::from_secs(8);

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS counters (
        resource TEXT PRIMARY KEY,
        value    INTEGER NOT NULL DEFAULT 0,
        fence    INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE IF NOT EXISTS writes (
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        resource TEXT NOT NULL REFERENCES counters (resource),
        token    INTEGER NOT NULL,
        service  INTEGER NOT NULL,
        value    INTEGER NOT NULL,
        UNIQUE (resource, token)
    ) STRICT;
";

/// A connection to the file. An increment takes two transactions, one that reads and one that writes, with work between
/// them; both claim the fence. Whoever claims with a newer token in between makes the write impossible; without the claims,
/// the write undoes what the newer one wrote.
pub(super) struct Ledger {
    connection: Connection,
    fenced: bool,
}

/// One line of the append-only table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) resource: String,
    pub(super) token: u64,
    pub(super) value: i64,
}

impl Ledger {
    /// Opens or creates the file. Without `fenced`, nothing is claimed and nothing refused: a set-up that is broken on
    /// purpose.
    pub(super) fn open(path: &Path, fenced: bool) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // Processes are killed here, not the machine: what was handed to the kernel is not lost.
        connection.pragma_update(None, "synchronous", "off")?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection, fenced })
    }

    /// Puts counters into a new file.
    pub(super) fn add_counters<'a>(&self, resources: impl Iterator<Item = &'a String>) -> rusqlite::Result<()> {
        for resource in resources {
            self.connection.execute("INSERT INTO counters (resource) VALUES (?)", [resource])?;
        }
        Ok(())
    }

    /// Claims the fence and reads the counter. `None` if the fence refused.
    pub(super) fn read(&self, resource: &str, token: u64) -> rusqlite::Result<Option<i64>> {
        self.claimed(resource, token, |transaction| {
            transaction.query_row("SELECT value FROM counters WHERE resource = ?", [resource], |row| row.get(0))
        })
    }

    /// Claims the fence again and writes what the counter is to be, whatever it is. False if the fence refused.
    pub(super) fn write(&self, resource: &str, token: u64, service: usize, value: i64) -> rusqlite::Result<bool> {
        let written = self.claimed(resource, token, |transaction| {
            transaction.execute("UPDATE counters SET value = ? WHERE resource = ?", params![value, resource])?;
            let row = params![resource, signed(token), i64::try_from(service).unwrap(), value];
            transaction.execute("INSERT INTO writes (resource, token, service, value) VALUES (?, ?, ?, ?)", row)
        });
        written.map(|written| written.is_some())
    }

    /// The counters.
    pub(super) fn counters(&self) -> rusqlite::Result<Vec<(String, i64)>> {
        let mut statement = self.connection.prepare("SELECT resource, value FROM counters ORDER BY resource")?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// The append-only table, in the order in which it was written.
    pub(super) fn rows(&self) -> rusqlite::Result<Vec<Row>> {
        let mut statement = self.connection.prepare("SELECT resource, token, value FROM writes ORDER BY id")?;
        let row = |row: &rusqlite::Row<'_>| {
            let token: i64 = row.get(1)?;
            Ok(Row { resource: row.get(0)?, token: u64::try_from(token).unwrap(), value: row.get(2)? })
        };
        statement.query_map([], row)?.collect()
    }

    /// How many lines there are for a resource.
    pub(super) fn written(&self, resource: &str) -> rusqlite::Result<i64> {
        self.connection.query_row("SELECT count(*) FROM writes WHERE resource = ?", [resource], |row| row.get(0))
    }

    fn claimed<T>(
        &self,
        resource: &str,
        token: u64,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        // Immediate: a reader that turns into a writer half-way can fail in a way that the busy timeout does not cover.
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        if self.fenced {
            let claim = "UPDATE counters SET fence = ?1 WHERE resource = ?2 AND fence <= ?1 RETURNING 1";
            let claim = transaction.query_row(claim, params![signed(token), resource], |row| row.get::<_, i64>(0));
            if claim.optional()?.is_none() {
                return Ok(None);
            }
        }
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(Some(done))
    }
}

fn signed(token: u64) -> i64 {
    i64::try_from(token).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(directory: &Path, fenced: bool) -> Ledger {
        let ledger = Ledger::open(&directory.join("ledger"), fenced).unwrap();
        ledger.add_counters([String::from("r")].iter()).unwrap();
        ledger
    }

    #[test]
    fn an_older_token_is_refused_as_soon_as_a_newer_one_has_read() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = ledger(directory.path(), true);
        assert_eq!(ledger.read("r", 5).unwrap(), Some(0));
        assert_eq!(ledger.read("r", 6).unwrap(), Some(0));
        assert!(!ledger.write("r", 5, 0, 1).unwrap());
        assert!(ledger.write("r", 6, 1, 1).unwrap());
        assert_eq!(ledger.read("r", 5).unwrap(), None);
        assert_eq!(ledger.rows().unwrap(), [Row { resource: "r".into(), token: 6, value: 1 }]);
        assert!(ledger.write("r", 6, 1, 2).is_err(), "a token writes once");
        assert_eq!(ledger.counters().unwrap(), [("r".into(), 1)]);
    }

    #[test]
    fn without_the_fence_an_update_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = ledger(directory.path(), false);
        let (old, new) = (ledger.read("r", 5).unwrap().unwrap(), ledger.read("r", 6).unwrap().unwrap());
        assert!(ledger.write("r", 6, 1, new + 1).unwrap());
        assert!(ledger.write("r", 5, 0, old + 1).unwrap());
        assert_eq!((ledger.counters().unwrap()[0].1, ledger.written("r").unwrap()), (1, 2));
    }
}
