//! `#[distributed_lock(…, state)]`: the lock manager comes from the router's state.

use axum::Router;
use axum::extract::{FromRef, Path, State};
use axum::http::StatusCode;
use axum::routing::post as on_post;
use lock_axum::{FencingToken, Lease, LockManager, distributed_lock};
use lock_support::http::{Counter, manager, nodes, post, serve};

#[derive(Clone)]
struct App {
    locks: LockManager,
    runs: Counter,
}

impl FromRef<App> for LockManager {
    fn from_ref(app: &App) -> Self {
        app.locks.clone()
    }
}

#[distributed_lock(resource = "stock:{sku}", wait = "0s", state)]
async fn deduct(State(app): State<App>, Path(sku): Path<String>, lease: Lease, token: FencingToken) -> String {
    assert_eq!(app.locks.held()[0].resource(), format!("stock:{sku}"));
    assert_eq!((Lease::current().unwrap().token(), lease.token()), (token, token));
    app.runs.add();
    sku
}

// promise: fail-closed
#[tokio::test]
async fn the_manager_in_the_state_guards_the_handler() {
    let app = App { locks: manager(&nodes()), runs: Counter::default() };
    let router = Router::new().route("/stock/{sku}", on_post(deduct)).with_state(app.clone());
    // The manager in the extensions is another one, and is not asked.
    let address = serve(router, &manager(&nodes())).await;
    let response = post(address, "/stock/42").await;
    assert_eq!((response.status, response.text()), (StatusCode::OK, "42"));

    let held = app.locks.lock("stock:42").acquire().await.unwrap();
    let busy = post(address, "/stock/42").await;
    assert_eq!((busy.status, busy.kind().as_str()), (StatusCode::CONFLICT, "lock-busy"));
    assert_eq!(app.runs.get(), 1, "the body did not run");
    drop(held);
}
