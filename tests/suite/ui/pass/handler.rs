//! Every argument, and handlers with different return types.

use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use lock_axum::{Lease, distributed_lock};
use serde::{Deserialize, Serialize};

#[derive(Clone)]
struct Db;

#[derive(Deserialize)]
struct Order {
    sku: String,
    lines: (u32, [u8; 2]),
}

#[derive(Serialize)]
struct Receipt {
    token: String,
}

#[distributed_lock(
    resource = "stock:{sku}",
    ttl = "10s",
    wait = "2s",
    max_hold = "1m",
    renew = true,
    on_lost = "cancel",
    on_disconnect = "finish",
    busy_status = 409,
    retry_after = "5s"
)]
async fn every_argument(
    Path(sku): Path<String>,
    State(_db): State<Db>,
    lease: Lease,
    Json(order): Json<Order>,
) -> Result<Json<Receipt>, String> {
    if order.sku != sku {
        return Err(sku);
    }
    let token = std::future::ready(format!("{:?}", lease.token())).await;
    Ok(Json(Receipt { token }))
}

#[distributed_lock(resource = "nightly")]
async fn no_parameter_and_no_response() {}

/// Only the resource uses the bindings.
#[distributed_lock(resource = "stock:{sku}/{order.sku}/{order.lines.0}", on_lost = "continue", renew = false)]
async fn binding_of_the_resource(Path(sku): Path<String>, order: Json<Order>) -> impl IntoResponse {
    (axum::http::StatusCode::ACCEPTED, [("x-order", "1")])
}

#[distributed_lock(resource = "{id}", wait = "0s", on_disconnect = "cancel")]
pub(crate) async fn visible(Path(id): Path<u64>) -> String {
    id.to_string()
}

fn main() {
    let _: Router = Router::new()
        .route("/a/{sku}", post(every_argument))
        .route("/b", post(no_parameter_and_no_response))
        .route("/c/{sku}", post(binding_of_the_resource))
        .route("/d/{id}", post(visible))
        .with_state(Db);
    let _ = |order: Order| order.lines.1;
}
