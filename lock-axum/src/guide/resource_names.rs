//! What to call the thing that you lock.
//!
//! Two callers exclude each other if they use the same name. So name the thing that two callers must not change at once, in the
//! same words wherever it is changed: usually a type and an id, as in `stock:42`, `account:7` or `report:daily`.
//!
//! # As narrow as the data
//!
//! A lock on `stock` lets one request at a time into the whole shop, a lock on `stock:42` one request for each article. Locks
//! that nobody holds take no room on the masters, so there may be as many names as there are rows.
//!
//! The name has to cover everything that the critical section reads and then relies on. If an order also reads the
//! customer's credit, the article alone is too narrow.
//!
//! # Templates
//!
//! The attribute and [`LockLayer`](crate::LockLayer) build names from the request. In values, every byte except
//! `A-Za-z0-9-._~` is percent-encoded, so that no value can look like another resource:
//!
//! ```
//! # use axum::body::{Body, to_bytes};
//! # use axum::http::Request;
//! # use axum::routing::post;
//! # use axum::{Extension, Router};
//! # use tower::ServiceExt as _;
//! use axum::extract::Path;
//! use lock_axum::{Lease, LockManager, distributed_lock};
//!
//! #[distributed_lock(resource = "stock:{warehouse}/{sku}")]
//! async fn deduct(Path((warehouse, sku)): Path<(String, u64)>, lease: Lease) -> String {
//!     lease.resource().to_owned()
//! }
//!
//! // Coupons are not case-sensitive: all spellings are one lock.
//! #[distributed_lock(key = format!("coupon:{}", code.to_lowercase()))]
//! async fn redeem(Path(code): Path<String>, lease: Lease) -> String {
//!     lease.resource().to_owned()
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let app = Router::new()
//!     .route("/stock/{warehouse}/{sku}", post(deduct))
//!     .route("/coupon/{code}", post(redeem))
//!     .layer(Extension(LockManager::in_memory()));
//! # let name = async |path: &str| -> Result<String, Box<dyn std::error::Error>> {
//! #     let response = app.clone().oneshot(Request::post(path).body(Body::empty())?).await?;
//! #     Ok(String::from_utf8(to_bytes(response.into_body(), 1024).await?.to_vec())?)
//! # };
//! assert_eq!(name("/stock/oslo/42").await?, "stock:oslo/42");
//! assert_eq!(name("/stock/oslo/042").await?, "stock:oslo/42"); // the number that was extracted
//! assert_eq!(name("/stock/a%2Fb/42").await?, "stock:a%2Fb/42"); // not warehouse a
//! assert_eq!(name("/coupon/SPRING").await?, "coupon:spring");
//! # Ok(())
//! # }
//! ```
//!
//! - The attribute locks by the values that were extracted, the layer by those that the client sent: for the layer,
//!   `42` and `042` are two resources.
//! - `key` and [`LockLayer::with_key`](crate::LockLayer::with_key) encode nothing. Check what comes from the client, or
//!   parse it into a number.
//! - Code that takes the same lock by hand has to build the same name. `locks.lock("stock:a b")` is another lock than
//!   `stock:{sku}` with the value `a b`, which is `stock:a%20b`. Ids of letters and digits avoid the question.
//!
//! # One value, one name
//!
//! Two names are the same only if their bytes are. Values that are equal to your program may be different names:
//!
//! - The attribute names numbers as Rust displays them: the float `1.0` is `1`, `-0.0` is `-0` and another name than `0`, and every `NaN` is
//!   one name. As text, and for the layer, `1` and `1.0` are two names. Lock by integers.
//! - Text is not normalized: `é` as one character (NFC) and as `e` with an accent (NFD) are two names, and so are `Oslo` and `oslo`. Normalize
//!   what people type, in `key`, or lock by the id of the row.
//! - In a placeholder, each byte of a character that is not ASCII takes three of the 512: `é` takes 6 bytes, `寿` 9, and `🍣` 12. Longer values
//!   are answered with 400. Lock by an id where values may be long.
//! - A name that is written by hand may have characters that nobody sees, such as U+200B, or that turn the direction of text. The dashboard
//!   escapes them (`\u{200b}`), as the log of `tracing-subscriber` does; values in placeholders have none, because they are encoded.
//! - Only names in braces are placeholders. `stock/:sku` and `stock:${sku}` are refused where they can be told from text: by the layer always,
//!   by the attribute if a parameter has that name.
//!
//! # Rules
//!
//! A name has 1 to 512 bytes of UTF-8, without control characters and braces. From a template, anything else is
//! answered with 400 `lock-key-invalid`; by hand, it is
//! [`LockError::InvalidResource`](crate::LockError::InvalidResource).
//!
//! Names appear in logs, in errors and as keys on the masters, but not in responses. Do not build them from secrets.
//!
//! Services that share masters and do not share locks need different [prefixes](crate::LockManagerBuilder::prefix):
//! `shop:` and `billing:`, say. To rename a resource, or to change the prefix, in a service that is running is [a step
//! of its own](super::shutdown#names-that-change).
//!
//! # Several at once
//!
//! Each name is one lock. Take two locks [together](super::several_locks), with a name for each.
