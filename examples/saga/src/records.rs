//! A service of ours, warehouse or shipping: it does something for an order, or undoes it, and records that. It works under the
//! lock of the shop that asks it to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::put;
use lock_axum::Lease;
use lock_axum::delegation::Delegated;
use lock_axum::fence::{self, rusqlite::ClaimError};
use rusqlite::{Connection, params};
use tokio::task::block_in_place;

// The last record of an order counts. None is ever removed.
const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS records (
    id       INTEGER PRIMARY KEY,
    order_id INTEGER NOT NULL,
    done     INTEGER NOT NULL,
    token    INTEGER NOT NULL
)";

// Nothing, if that is how it is already: a purchase that is repeated does nothing twice.
const RECORD: &str = "INSERT INTO records (order_id, done, token) SELECT ?1, ?2, ?3
    WHERE ?2 <> coalesce((SELECT done FROM records WHERE order_id = ?1 ORDER BY id DESC LIMIT 1), FALSE)";

type Db = Arc<Mutex<Connection>>;

pub(crate) fn router(database: &str) -> rusqlite::Result<Router> {
    let db = Connection::open(database)?;
    db.busy_timeout(Duration::from_secs(5))?;
    db.execute_batch(fence::CREATE_TABLE)?;
    db.execute_batch(SCHEMA)?;
    Ok(Router::new().route("/{order}", put(record).delete(undo)).with_state(Arc::new(Mutex::new(db))))
}

async fn record(Path(order): Path<i64>, State(db): State<Db>, Delegated(lease): Delegated) -> Result<(), Refused> {
    write(&db, order, &lease, true)
}

async fn undo(Path(order): Path<i64>, State(db): State<Db>, Delegated(lease): Delegated) -> Result<(), Refused> {
    write(&db, order, &lease, false)
}

/// Claims the order for the shop that holds it, if that is the lock of this order, and then writes. A stale token is answered with 409.
fn write(db: &Db, order: i64, lease: &Lease, done: bool) -> Result<(), Refused> {
    if lease.resource() != format!("order:{order}") {
        return Err(Refused::OtherOrder);
    }
    block_in_place(|| {
        let mut db = db.lock().unwrap_or_else(PoisonError::into_inner);
        let tx = db.transaction().map_err(ClaimError::from)?;
        fence::rusqlite::claim(&tx, lease)?;
        tx.execute(RECORD, params![order, done, lease.token().as_i64()]).map_err(ClaimError::from)?;
        tx.commit().map_err(ClaimError::from)?;
        Ok(())
    })
}

/// Why nothing was written.
enum Refused {
    OtherOrder,
    Claim(ClaimError),
}

impl From<ClaimError> for Refused {
    fn from(error: ClaimError) -> Self {
        Self::Claim(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::OtherOrder => StatusCode::FORBIDDEN.into_response(),
            Self::Claim(error) => error.into_response(),
        }
    }
}
