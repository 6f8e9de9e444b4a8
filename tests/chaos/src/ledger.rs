//! What the locks protect: counters in one SQLite file, which the services read, increment and write back.

use std::path::Path;
use std::time::Duration;

use lock_history::Write;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

/// How long a statement waits for another writer, which may have been stopped.
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
    CREATE TABLE IF NOT EXISTS delegations (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        credential TEXT NOT NULL,
        service    INTEGER NOT NULL,
        adopter    INTEGER,
        answered   INTEGER NOT NULL DEFAULT 0
    ) STRICT;
";

/// A connection to the file. It is a [`lock_history::Register`] for each resource, shared by processes. An increment
/// takes two transactions, a read and a write, with work in between; both claim the fence.
pub(super) struct Ledger {
    connection: Connection,
    fenced: bool,
}

/// A row of the append-only table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) resource: String,
    pub(super) write: Write,
}

impl Ledger {
    /// Opens or creates the file. Without `fenced`, every write is accepted: a broken variant.
    pub(super) fn open(path: &Path, fenced: bool) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // Processes are killed here, not the machine: what has reached the kernel is not lost.
        connection.pragma_update(None, "synchronous", "off")?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection, fenced })
    }

    /// Creates the counters in a new file.
    pub(super) fn add_counters<'a>(&self, resources: impl Iterator<Item = &'a String>) -> rusqlite::Result<()> {
        for resource in resources {
            self.connection.execute("INSERT INTO counters (resource) VALUES (?)", [resource])?;
        }
        Ok(())
    }

    /// Claims the fence and reads the counter. `None` if the fence refused.
    pub(super) fn read(&self, resource: &str, token: u64) -> rusqlite::Result<Option<u64>> {
        self.claimed(resource, token, |transaction| {
            transaction.query_row("SELECT value FROM counters WHERE resource = ?", [resource], |row| unsigned(row, 0))
        })
    }

    /// Claims the fence again and overwrites the counter. False if the fence refused.
    pub(super) fn write(&self, resource: &str, token: u64, service: usize, value: u64) -> rusqlite::Result<bool> {
        let written = self.claimed(resource, token, |transaction| {
            transaction
                .execute("UPDATE counters SET value = ? WHERE resource = ?", params![signed(value), resource])?;
            let row = params![resource, signed(token), i64::try_from(service).unwrap(), signed(value)];
            transaction.execute("INSERT INTO writes (resource, token, service, value) VALUES (?, ?, ?, ?)", row)
        });
        written.map(|written| written.is_some())
    }

    /// Whether the fence lets a reader look at the counter. It does not claim the fence.
    pub(super) fn look(&self, resource: &str, token: u64) -> rusqlite::Result<bool> {
        let look = "SELECT fence <= ? FROM counters WHERE resource = ?";
        self.connection.query_row(look, params![signed(token), resource], |row| row.get(0))
    }

    /// Leaves a delegation for another service. Returns its id.
    pub(super) fn delegate(&self, service: usize, credential: &str) -> rusqlite::Result<i64> {
        let offer = "INSERT INTO delegations (credential, service) VALUES (?, ?)";
        self.connection.execute(offer, params![credential, i64::try_from(service).unwrap()])?;
        Ok(self.connection.last_insert_rowid())
    }

    /// The first delegation of another service that nobody has taken, and its id. Nobody else gets it.
    pub(super) fn take_delegation(&self, service: usize) -> rusqlite::Result<Option<(i64, String)>> {
        let service = i64::try_from(service).unwrap();
        let waiting = "SELECT min(id) FROM delegations WHERE adopter IS NULL AND service <> ?";
        let waiting: Option<i64> = self.connection.query_row(waiting, [service], |row| row.get(0))?;
        let Some(id) = waiting else { return Ok(None) };
        let take = "UPDATE delegations SET adopter = ? WHERE id = ? AND adopter IS NULL RETURNING id, credential";
        self.connection.query_row(take, [service, id], |row| Ok((row.get(0)?, row.get(1)?))).optional()
    }

    /// Tells the service that delegated it that the work is done.
    pub(super) fn answer(&self, delegation: i64) -> rusqlite::Result<()> {
        self.connection.execute("UPDATE delegations SET answered = 1 WHERE id = ?", [delegation]).map(drop)
    }

    /// Whether the work is done.
    pub(super) fn is_answered(&self, delegation: i64) -> rusqlite::Result<bool> {
        self.connection.query_row("SELECT answered FROM delegations WHERE id = ?", [delegation], |row| row.get(0))
    }

    /// The counters.
    pub(super) fn counters(&self) -> rusqlite::Result<Vec<(String, u64)>> {
        let mut statement = self.connection.prepare("SELECT resource, value FROM counters ORDER BY resource")?;
        statement.query_map([], |row| Ok((row.get(0)?, unsigned(row, 1)?)))?.collect()
    }

    /// The append-only table, in the order in which it was written.
    pub(super) fn rows(&self) -> rusqlite::Result<Vec<Row>> {
        let mut statement = self.connection.prepare("SELECT resource, token, value FROM writes ORDER BY id")?;
        let row = |row: &rusqlite::Row<'_>| {
            Ok(Row { resource: row.get(0)?, write: Write { token: unsigned(row, 1)?, value: unsigned(row, 2)? } })
        };
        statement.query_map([], row)?.collect()
    }

    /// How many writes there are of a resource.
    pub(super) fn written(&self, resource: &str) -> rusqlite::Result<i64> {
        self.connection.query_row("SELECT count(*) FROM writes WHERE resource = ?", [resource], |row| row.get(0))
    }

    fn claimed<T>(
        &self,
        resource: &str,
        token: u64,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        // Immediate: a transaction that begins as a reader and then writes can fail in a way that the busy timeout does
        // not cover.
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

/// SQLite's integers are signed.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap()
}

fn unsigned(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|value| u64::try_from(value).unwrap())
}

#[cfg(test)]
mod tests {
    use lock_history::Register;

    use super::*;

    fn ledger(directory: &Path, fenced: bool) -> Ledger {
        let ledger = Ledger::open(&directory.join("ledger"), fenced).unwrap();
        ledger.add_counters([String::from("r")].iter()).unwrap();
        ledger
    }

    #[test]
    fn an_older_token_is_refused_once_a_newer_one_has_read() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = ledger(directory.path(), true);
        assert_eq!(ledger.read("r", 5).unwrap(), Some(0));
        assert_eq!(ledger.read("r", 6).unwrap(), Some(0));
        assert!(!ledger.write("r", 5, 0, 1).unwrap());
        assert!(ledger.write("r", 6, 1, 1).unwrap());
        assert_eq!(ledger.read("r", 5).unwrap(), None);
        assert_eq!(ledger.rows().unwrap(), [Row { resource: "r".into(), write: Write { token: 6, value: 1 } }]);
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

    #[test]
    fn the_ledger_behaves_like_the_register() {
        let directory = tempfile::tempdir().unwrap();
        let (ledger, mut register) = (ledger(directory.path(), true), Register::default());
        let mut dice = lock_support::Dice::new(7);
        let (mut refused, mut accepted) = (0, 0);
        let mut read: Vec<(u64, u64)> = Vec::new();
        for step in 3..200 {
            // Each token has one holder; every fifth one is late.
            let token = if step % 5 == 0 { 3 * step - 7 } else { 3 * step };
            let expected = register.read(token);
            assert_eq!(ledger.read("r", token).unwrap(), expected);
            read.extend(expected.map(|value| (token, value)));
            // Some write at once, some later.
            while read.len() > 3 {
                let (token, value) = read.remove(dice.index(read.len()));
                let expected = register.write(token, value + 1);
                assert_eq!(ledger.write("r", token, 0, value + 1).unwrap(), expected);
                *if expected { &mut accepted } else { &mut refused } += 1;
            }
        }
        assert!(refused > 0 && accepted > 0, "{refused} refused, {accepted} accepted");
        let writes: Vec<_> = ledger.rows().unwrap().into_iter().map(|row| row.write).collect();
        let value = ledger.counters().unwrap()[0].1;
        assert_eq!(lock_history::no_update_is_lost("r", value, &writes), register.violations("r"));
    }
}
