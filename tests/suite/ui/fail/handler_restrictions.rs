use axum::routing::post;
use axum::{Extension, Json, Router};
use lock_axum::{Lease, LockError, LockManager, distributed_lock};

mod handlers {
    use lock_axum::distributed_lock;

    #[distributed_lock(resource = "stock")]
    #[distributed_lock(resource = "warehouse")]
  //^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ a handler can have only one `#[distributed_lock]`
    pub async fn twice() {}
}

#[distributed_lock(resource = "stock")]
async fn conditional(Json(_): Json<u8>, #[cfg(all())] lease: Lease) {}
//                                      ^^^^^^^^^^^^^ a guarded function cannot have `#[cfg]` on a parameter: apply it to the whole function

#[distributed_lock(resource = "stock")]
async unsafe fn not_safe() {}
//    ^^^^^^ a guarded handler cannot be `unsafe`

#[distributed_lock(resource = "stock:{_sku}", manager = locks)]
async fn function(locks: &LockManager, #[cfg(all())] _sku: &str) -> Result<(), LockError> {
    //                                 ^^^^^^^^^^^^^ a guarded function cannot have `#[cfg]` on a parameter
    Ok(())
}

#[rustfmt::skip]
#[distributed_lock(resource = "stock")]
async fn many(
    _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>,
    _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>,
    _: Lease,
    _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>,
    //                                                    ^^^^^^^^^^^^^^^^ a guarded handler can have at most 15 extractors: axum allows 16, and the lock manager takes one
) {}

fn main() {
    let _: Router = Router::new()
        .route("/a", post(handlers::twice))
        .route("/b", post(conditional))
        .route("/c", post(not_safe))
        .route("/d", post(many));
    let _ = async |locks: LockManager| function(&locks, "a").await;
}
