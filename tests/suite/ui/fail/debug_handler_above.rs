//! `#[debug_handler]` has to be below the attribute. Above it, it checks a call without the lock manager's parameter.

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
