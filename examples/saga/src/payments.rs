//! A payment service, as others run it: no locks, no tokens, but idempotency keys.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use rusqlite::{Connection, Transaction};
use tokio::task::block_in_place;
use tokio::time::sleep;

/// How long an answer takes: long enough to die while waiting for it.
const TIME_TO_ANSWER: Duration = Duration::from_secs(1);

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS charges (key TEXT NOT NULL PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS declined (key TEXT NOT NULL PRIMARY KEY);
";

type Db = Arc<Mutex<Connection>>;

pub(crate) fn router(database: &str) -> rusqlite::Result<Router> {
    let db = Connection::open(database)?;
    db.busy_timeout(Duration::from_secs(5))?;
    db.execute_batch(SCHEMA)?;
    Ok(Router::new().route("/{order}", post(charge)).with_state(Arc::new(Mutex::new(db))))
}

/// Charges once for each idempotency key, and answers all requests with that key alike. The first request for a card that
/// has to be topped up is declined.
async fn charge(State(db): State<Db>, headers: HeaderMap) -> StatusCode {
    let Some(key) = headers.get("idempotency-key").and_then(|key| key.to_str().ok()) else {
        return StatusCode::BAD_REQUEST;
    };
    let charged: rusqlite::Result<bool> = block_in_place(|| {
        let mut db = db.lock().unwrap_or_else(PoisonError::into_inner);
        let tx = db.transaction()?;
        let charged = charge_once(&tx, key)?;
        tx.commit()?;
        Ok(charged)
    });
    sleep(TIME_TO_ANSWER).await;
    match charged {
        Ok(true) => StatusCode::OK,
        Ok(false) => StatusCode::PAYMENT_REQUIRED,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Returns false if the card has to be topped up first: here, the card of every order with an odd number, once.
fn charge_once(tx: &Transaction<'_>, key: &str) -> rusqlite::Result<bool> {
    let has_to_be_topped_up = key.ends_with(['1', '3', '5', '7', '9']);
    if has_to_be_topped_up && tx.execute("INSERT OR IGNORE INTO declined VALUES (?)", [key])? > 0 {
        return Ok(false);
    }
    tx.execute("INSERT OR IGNORE INTO charges VALUES (?)", [key])?;
    Ok(true)
}
