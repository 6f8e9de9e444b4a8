use axum::Extension;
use lock_axum::{Lease, distributed_lock};

mod handlers {
    use lock_axum::distributed_lock;

    #[distributed_lock(resource = "stock")]
    #[distributed_lock(resource = "warehouse")]
  //^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ a handler can have only one `#[distributed_lock]`
    async fn twice() {}
}

#[distributed_lock(resource = "stock")]
async fn conditional(#[cfg(all())] lease: Lease) {}
//                   ^^^^^^^^^^^^^ a guarded handler cannot have `#[cfg]` on a parameter: apply it to the whole function

#[distributed_lock(resource = "stock")]
async unsafe fn not_safe() {}
//    ^^^^^^ a guarded handler cannot be `unsafe`

#[rustfmt::skip]
#[distributed_lock(resource = "stock")]
async fn many(
    _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>,
    _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>,
    _: Lease,
    _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>,
    //                                                    ^^^^^^^^^^^^^^^^ a guarded handler can have at most 15 extractors: axum allows 16, and the lock manager takes one
) {}

fn main() {}
