//! The body of a purchase.

use axum::{
    Json,
    extract::{FromRequest, Request},
};
use lock_axum::FencingToken;
use serde::Deserialize;

use super::{ShopError, Tx};

/// A validated order, from the body `{"quantity":1}`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) quantity: u32,
}

impl Order {
    const MAX_QUANTITY: i64 = 1_000;

    /// The units that remain of `in_stock` after this order.
    pub(crate) fn take_from(self, in_stock: i64) -> Result<i64, ShopError> {
        let remaining = in_stock - i64::from(self.quantity);
        if remaining < 0 {
            return Err(ShopError::SoldOut);
        }
        Ok(remaining)
    }

    /// Writes the order down, with the token of the lock if there was one, and returns its number.
    pub(crate) fn record(self, tx: &Tx<'_>, sku: &str, token: Option<FencingToken>) -> Result<i64, ShopError> {
        let insert = "INSERT INTO orders (sku, quantity, token) VALUES ($1, $2, $3) RETURNING id";
        let token = token.map(FencingToken::as_i64);
        let [id] = tx.numbers(insert, &[&sku, &i64::from(self.quantity), &token])?.unwrap_or_default();
        Ok(id)
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
            Ok(units) if (1..=Self::MAX_QUANTITY).contains(&quantity) => Ok(Self { quantity: units }),
            _ => Err(ShopError::BadOrder(format!("quantity must be 1 to {}, not {quantity}", Self::MAX_QUANTITY))),
        }
    }
}
