//! Attributes on the handler, on its parameters and in its body.

use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use lock_axum::{Lease, distributed_lock};

/// Documented.
#[distributed_lock(resource = "{id}")]
#[doc(hidden)]
#[inline]
#[cfg(not(any()))]
#[cfg_attr(all(), allow(unused_variables))]
async fn documented(Path(id): Path<u8>, #[allow(unused_mut)] mut lease: Lease) {
    let unused = 1;
}

#[distributed_lock(resource = "{Id}")]
#[expect(non_snake_case, reason = "named by the protocol")]
async fn Named(Path(Id): Path<u8>) {}

#[distributed_lock(resource = "{id}")]
async fn inside(Path(id): Path<u8>) -> u8Text {
    #![allow(unused_variables)]
    let unused = 1;
    id.to_string()
}

#[allow(non_camel_case_types)]
type u8Text = String;

#[distributed_lock(resource = "never")]
#[expect(dead_code)]
async fn not_routed() {}

fn main() {
    let _: Router =
        Router::new().route("/a/{id}", post(documented)).route("/b/{id}", post(Named)).route("/c/{id}", post(inside));
}
