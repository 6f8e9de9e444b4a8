//! The shop: one purchase at a time for each order, in all shops.

use axum::extract::{Path, State};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::post};
use lock_axum::delegation::DelegateError;
use lock_axum::{Lease, LockRejection, distributed_lock};

use crate::call::{PATIENCE, call};

/// The addresses of the services.
#[derive(Clone)]
pub(crate) struct Shop {
    warehouse: String,
    payments: String,
    shipping: String,
}

impl Shop {
    pub(crate) fn new(warehouse: &str, payments: &str, shipping: &str) -> Self {
        Self { warehouse: warehouse.into(), payments: payments.into(), shipping: shipping.into() }
    }
}

pub(crate) fn router(shop: Shop) -> Router {
    Router::new().route("/{order}", post(buy)).with_state(shop)
}

/// Why a purchase was not completed. It can be sent again.
enum Incomplete {
    /// A service did not do its part: it cannot be reached, or refused.
    Failed(Response),
    /// The goods were given back.
    NotPaid,
}

/// The whole purchase. A loss of the lock cancels it between two steps; what it has done by then is repeated by the next
/// holder, or undone.
#[distributed_lock(resource = "order:{order}", ttl = "2s", wait = "5s")]
async fn buy(Path(order): Path<u64>, State(shop): State<Shop>, lease: Lease) -> Result<String, Incomplete> {
    step(Method::PUT, ("warehouse", &shop.warehouse), order, &lease).await?;
    if !pay(&shop.payments, order).await? {
        step(Method::DELETE, ("warehouse", &shop.warehouse), order, &lease).await?;
        return Err(Incomplete::NotPaid);
    }
    step(Method::PUT, ("shipping", &shop.shipping), order, &lease).await?;
    Ok(format!("order {order} is on its way\n"))
}

/// Has one of our services do its part, or undo it, under the lock of the order. Without a success, it may still be at work: then the
/// next purchase of this order waits until the lock has expired.
async fn step(method: Method, (name, service): (&str, &str), order: u64, lease: &Lease) -> Result<(), Incomplete> {
    let delegation = lease.delegate().expires_in(PATIENCE).audience(name).create()?;
    let header = (delegation.name(), delegation.value());
    let request = async {
        let status = call(method, service, order, header).await;
        if status.is_success() { Ok(()) } else { Err(Incomplete::Failed(status.into_response())) }
    };
    delegation.around(request).await
}

/// Has the payment service charge the order, once, however often it is asked. Returns whether it is paid.
async fn pay(service: &str, order: u64) -> Result<bool, Incomplete> {
    match call(Method::POST, service, order, ("idempotency-key", HeaderValue::from(order))).await {
        StatusCode::PAYMENT_REQUIRED => Ok(false),
        status if status.is_success() => Ok(true),
        status => Err(Incomplete::Failed(status.into_response())),
    }
}

impl From<DelegateError> for Incomplete {
    fn from(error: DelegateError) -> Self {
        Self::Failed(match error {
            DelegateError::Lost(error) => LockRejection::from(error).into_response(),
            _ => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        })
    }
}

impl IntoResponse for Incomplete {
    fn into_response(self) -> Response {
        match self {
            Self::Failed(response) => response,
            Self::NotPaid => StatusCode::PAYMENT_REQUIRED.into_response(),
        }
    }
}
