use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::post;
use lock_axum::{Hold, Lease, distributed_lock};

/// Held until the body has been sent.
#[distributed_lock(resource = "export:{id}", hold = "body")]
async fn export(Path(id): Path<String>) -> Body {
    Body::from(id)
}

/// Held for a session, which may be in any position and of any spelling.
#[distributed_lock(resource = "document:{id}", hold = "session", max_hold = "1h", on_lost = "continue", state)]
#[axum::debug_handler(state = lock_axum::LockManager)]
async fn edit(hold: lock_axum::Hold, Path(id): Path<String>, lease: Lease) -> StatusCode {
    spawn(hold.run(async move |lease| println!("{id} {}", lease.token())));
    println!("{}", lease.token());
    StatusCode::ACCEPTED
}

/// What a task requires of its future.
fn spawn(_session: impl Future<Output = ()> + Send + 'static) {}

/// What passes the hold on.
#[distributed_lock(key = "r", max_hold = "7d", hold = "session")]
async fn pass_on(hold: Option<Hold>) {
    take(hold);
}

fn take(_hold: Option<Hold>) {}

fn main() {
    let locks = lock_axum::LockManager::in_memory();
    let _: Router = Router::new()
        .route("/a/{id}", post(export))
        .route("/b/{id}", post(edit))
        .route("/c", post(pass_on))
        .with_state(locks);
}
