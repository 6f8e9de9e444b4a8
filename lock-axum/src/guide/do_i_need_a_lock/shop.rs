// What the handlers of the page have in common; each of its examples includes it.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::{MethodRouter, post};
use axum::{Extension, Router};
use lock_axum::fence::rusqlite::{ClaimError, claim};
use lock_axum::testing::{Outcome, Question, Trial, post as request};
use lock_axum::{Lease, distributed_lock, fence};
use rusqlite::{Connection, Transaction};

/// One SQLite database in memory. On its way there, a request takes a step, as with a server.
#[derive(Clone)]
struct Db(Arc<Mutex<Connection>>);

impl Db {
    fn open() -> Self {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(fence::CREATE_TABLE).unwrap();
        db.execute_batch("CREATE TABLE stock (quantity, orders); INSERT INTO stock VALUES (100, 0)").unwrap();
        Self(Arc::new(Mutex::new(db)))
    }

    async fn transaction<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, ClaimError>,
    ) -> Result<T, ClaimError> {
        tokio::task::yield_now().await;
        let mut db = self.0.lock().unwrap();
        let tx = db.transaction()?;
        let done = work(&tx)?;
        tx.commit()?;
        Ok(done)
    }
}

fn read(tx: &Transaction<'_>) -> Result<i64, ClaimError> {
    let select = "SELECT quantity FROM stock";
    tracing::debug!("{select}");
    Ok(tx.query_row(select, [], |row| row.get(0))?)
}

fn write(tx: &Transaction<'_>, quantity: i64) -> Result<(), ClaimError> {
    let update = "UPDATE stock SET quantity = ?, orders = orders + 1";
    tracing::debug!("{update}");
    tx.execute(update, [quantity])?;
    Ok(())
}

async fn pay() {
    tokio::task::yield_now().await;
}

/// The page shows what is printed. Its numbers may differ: how often a request waits is not the same on every machine.
fn is_shown(outcome: &Outcome) {
    let masked = |text: &str| text.chars().filter(|letter| !letter.is_ascii_digit()).collect::<String>();
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/do_i_need_a_lock.rs"));
    let told: String = outcome.to_string().lines().map(|line| format!("//! {line}\n")).collect();
    assert!(
        masked(page).contains(&masked(&format!("//! ```text\n{told}//! ```\n"))),
        "the page does not show this:\n{told}"
    );
}
