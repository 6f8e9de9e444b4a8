//! `state` takes the lock manager from the router's state.

use std::fmt::Display;

use axum::extract::{FromRef, Path, State};
use axum::routing::post;
use axum::{Json, Router, debug_handler};
use lock_axum::{FencingToken, Lease, LockManager, distributed_lock};

#[derive(Clone)]
struct Db;

#[derive(Clone)]
struct App {
    locks: LockManager,
    db: Db,
}

impl FromRef<App> for LockManager {
    fn from_ref(app: &App) -> Self {
        app.locks.clone()
    }
}

impl FromRef<App> for Db {
    fn from_ref(app: &App) -> Self {
        app.db.clone()
    }
}

#[distributed_lock(resource = "stock", state)]
async fn alone(lease: Lease) -> String {
    lease.token().to_string()
}

#[distributed_lock(state, resource = "stock:{sku}", ttl = "1s")]
async fn beside_states(
    State(_): State<App>,
    State(_): State<Db>,
    State(_): State<LockManager>,
    Path(sku): Path<String>,
    token: FencingToken,
    Json(_): Json<u8>,
) -> String {
    format!("{sku} {token}")
}

#[distributed_lock(resource = "stock:{sku}", state)]
#[debug_handler]
async fn inferred(State(_): State<App>, Path(sku): Path<String>, _lease: Lease) -> String {
    sku
}

#[distributed_lock(resource = "stock", state)]
#[debug_handler(state = App)]
async fn stated(State(_): State<Db>, _lease: Option<Lease>) {}

#[distributed_lock(resource = "{id}", state,)]
async fn generic<T: Display + Send + Sync + 'static, S: Clone + Send + Sync + 'static>(
    Path(id): Path<T>,
    State(_): State<S>,
) -> String {
    id.to_string()
}

macro_rules! handler {
    ($name:ident, $($argument:tt)*) => {
        #[distributed_lock(resource = "stock", $($argument)*)]
        async fn $name() {}
    };
}

handler!(by_macro, state);

/// The manager may be the state itself.
fn only_locks() -> Router {
    Router::new().route("/", post(alone)).with_state(LockManager::in_memory())
}

fn main() {
    let app = App { locks: LockManager::in_memory(), db: Db };
    let _: Router = Router::new()
        .route("/a", post(alone).put(stated).get(by_macro))
        .route("/b/{sku}", post(beside_states).put(inferred))
        .route("/c/{id}", post(generic::<u8, Db>))
        .with_state(app)
        .merge(only_locks());
}
