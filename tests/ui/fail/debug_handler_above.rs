//! `#[debug_handler]` must stand below: above, it checks a call that lacks the lock manager.

use axum::debug_handler;
use axum::extract::Path;
use lock_axum::distributed_lock;

#[debug_handler]
#[distributed_lock(resource = "stock:{sku}")]
async fn handler(Path(sku): Path<String>) -> String {
//       ^^^^^^^ this function takes
    sku
}

fn main() {}
