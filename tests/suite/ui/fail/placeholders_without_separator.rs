use axum::Json;
use axum::extract::Path;
use lock_axum::{LockError, LockManager, distributed_lock};

#[distributed_lock(resource = "stock:{warehouse}{sku}")]
//                            ^^^^^^^^^^^^^^^^^^^^^^^^ nothing separates the value of `{warehouse}` from that of `{sku}`: put a character between them that is encoded in values, such as `:` or `/`, as in `{warehouse}:{sku}`
async fn nothing(Path((warehouse, sku)): Path<(String, String)>) {}

#[distributed_lock(resource = "stock:{warehouse}-{sku}")]
//                            ^^^^^^^^^^^^^^^^^^^^^^^^^ as in `{warehouse}:{sku}`
async fn hyphen(Path((warehouse, sku)): Path<(String, String)>) {}

/// A value may contain `%3A`, the code of a colon.
#[distributed_lock(resource = "stock:{warehouse}%3A{sku}")]
//                            ^^^^^^^^^^^^^^^^^^^^^^^^^^^ as in `{warehouse}:{sku}`
async fn code(Path((warehouse, sku)): Path<(String, String)>) {}

#[distributed_lock(resource = "{a.0}{a.1}:{b}_{c}", manager = locks)]
//                            ^^^^^^^^^^^^^^^^^^^^ as in `{a.0}:{a.1}`
//                            ^^^^^^^^^^^^^^^^^^^^ as in `{b}:{c}`
async fn function(locks: &LockManager, a: (u8, u8), b: u8, Json(c): Json<u8>) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
