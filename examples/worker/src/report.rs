//! The job: a report for each period, which is made in parts.

use std::process;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use lock_axum::Lease;
use lock_axum::fence::{self, rusqlite::ClaimError};
use rusqlite::{Connection, Transaction, params};
use tokio::task::block_in_place;
use tokio::time::sleep;

/// There is one report for each of these.
const PERIOD: Duration = Duration::from_secs(4);
/// How many parts a report has.
const PARTS: i64 = 12;
/// How long it takes to make one.
const TIME_FOR_A_PART: Duration = Duration::from_millis(200);

// Nothing here keeps a part from being written twice: the lock does, and the claim.
const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS parts (
    id      INTEGER PRIMARY KEY,
    period  INTEGER NOT NULL,
    part    INTEGER NOT NULL,
    token   INTEGER NOT NULL,
    process INTEGER NOT NULL
)";

pub(crate) struct Report(Mutex<Connection>);

impl Report {
    /// Opens the database, or creates it.
    pub(crate) fn open(path: &str) -> rusqlite::Result<Self> {
        let db = Connection::open(path)?;
        db.busy_timeout(Duration::from_secs(5))?;
        db.execute_batch(fence::CREATE_TABLE)?;
        db.execute_batch(SCHEMA)?;
        Ok(Self(Mutex::new(db)))
    }

    /// Makes the parts that are missing in the report of this period.
    pub(crate) async fn run(&self, lease: &Lease) -> Result<(), ClaimError> {
        let period = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs() / PERIOD.as_secs();
        let period = period.cast_signed();
        let mut part = self.claim(lease, |tx| next_part(tx, period))?;
        while part < PARTS {
            // If the lock is lost, the run ends here.
            sleep(TIME_FOR_A_PART).await;
            part = self.claim(lease, |tx| {
                let insert = "INSERT INTO parts (period, part, token, process) VALUES (?, ?, ?, ?)";
                tx.execute(insert, params![period, part, lease.token().as_i64(), process::id()])?;
                next_part(tx, period)
            })?;
        }
        Ok(())
    }

    /// A transaction of the lock's holder: it claims before it reads and writes.
    fn claim<T>(
        &self,
        lease: &Lease,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, ClaimError> {
        // The statements block the thread, and the runtime moves its other tasks away, such as the renewal.
        block_in_place(|| {
            let mut db = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let tx = db.transaction()?;
            fence::rusqlite::claim(&tx, lease)?;
            let done = work(&tx)?;
            tx.commit()?;
            Ok(done)
        })
    }
}

fn next_part(tx: &Transaction<'_>, period: i64) -> rusqlite::Result<i64> {
    tx.query_row("SELECT count(*) FROM parts WHERE period = ?", [period], |row| row.get(0))
}
