//! The product of a purchase.

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
    response::{IntoResponse, Response},
};

use super::Shop;

/// The `{sku}` of the path, if the shop sells it; otherwise the answer is 404.
///
/// Extractors run before the lock is acquired, so a request for an unknown SKU never reaches the lock
/// masters.
#[derive(Debug)]
pub(crate) struct KnownSku(pub(crate) String);

impl FromRequestParts<Shop> for KnownSku {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shop: &Shop) -> Result<Self, Response> {
        let Path(sku) = Path::<String>::from_request_parts(parts, shop).await.map_err(IntoResponse::into_response)?;
        shop.store.quantity(&sku).await.map_err(IntoResponse::into_response)?;
        Ok(Self(sku))
    }
}
