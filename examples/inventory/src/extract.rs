//! What a handler takes out of a request. Extractors run before the lock is taken: a request that
//! they refuse holds up nobody.

use axum::{
    Json,
    extract::{FromRef, FromRequest, FromRequestParts, Path, Request},
    http::request::Parts,
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use crate::{problem::ShopError, store::Store};

/// The body of a purchase, `{"quantity":1}`, checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) quantity: u32,
}

impl Order {
    const MOST: i64 = 1_000;

    /// What is left of `on_hand` after this order.
    pub(crate) fn taken_from(self, on_hand: i64) -> Result<i64, ShopError> {
        let remaining = on_hand - i64::from(self.quantity);
        if remaining < 0 {
            return Err(ShopError::SoldOut);
        }
        Ok(remaining)
    }
}

impl<S: Send + Sync> FromRequest<S> for Order {
    type Rejection = ShopError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ShopError> {
        #[derive(Deserialize)]
        struct Body {
            quantity: i64,
        }
        let Json(Body { quantity }) = Json::<Body>::from_request(request, state)
            .await
            .map_err(|rejection| ShopError::BadOrder(rejection.body_text()))?;
        match u32::try_from(quantity) {
            Ok(units) if (1..=Self::MOST).contains(&quantity) => Ok(Self { quantity: units }),
            _ => Err(ShopError::BadOrder(format!("quantity must be 1 to {}, not {quantity}", Self::MOST))),
        }
    }
}

/// The `{sku}` of the path, if the shop has it.
///
/// Checked before the lock is taken, so that nobody is kept waiting, and no master is asked, for a SKU that never existed.
#[derive(Debug)]
pub(crate) struct KnownSku(pub(crate) String);

impl<S> FromRequestParts<S> for KnownSku
where
    S: Send + Sync,
    Store: FromRef<S>,
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let Path(sku) = Path::<String>::from_request_parts(parts, state).await.map_err(IntoResponse::into_response)?;
        Store::from_ref(state).quantity(&sku).await.map_err(IntoResponse::into_response)?;
        Ok(Self(sku))
    }
}
