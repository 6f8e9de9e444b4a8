use axum::Extension;
use lock_axum::{Lease, distributed_lock};

mod handlers {
    use lock_axum::distributed_lock;

    #[distributed_lock(resource = "stock")]
    #[distributed_lock(resource = "warehouse")]
  //^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ a handler takes one lock
    async fn twice() {}
}

#[distributed_lock(resource = "stock")]
async fn conditional(#[cfg(all())] lease: Lease) {}
//                   ^^^^^^^^^^^^^ `#[cfg]` on a parameter: put it on the handler as a whole

#[distributed_lock(resource = "stock")]
async unsafe fn not_safe() {}
//    ^^^^^^ a handler can not be `unsafe`

#[rustfmt::skip]
#[distributed_lock(resource = "stock")]
async fn many(
    _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>,
    _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>,
    _: Lease,
    _: Extension<u8>, _: Extension<u8>, _: Extension<u8>, _: Extension<u8>,
    //                                                    ^^^^^^^^^^^^^^^^ a guarded handler has at most 15 extractors: axum allows 16, one is the lock's
) {}

fn main() {}
