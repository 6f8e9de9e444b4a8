use axum::extract::Path;
use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock:{}")]
//                            ^^^^^^^^^^ empty placeholder `{}`: name a binding, as in `{sku}`
async fn empty(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{sku.to_lowercase()}")]
//                            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ invalid placeholder `{sku.to_lowercase()}`: expected a binding (`{sku}`) or a field of one
async fn call(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{sku:?}")]
//                            ^^^^^^^^^^^^^^^ invalid placeholder `{sku:?}`
async fn format(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{ sku }")]
//                            ^^^^^^^^^^^^^^^ invalid placeholder `{ sku }`
async fn spaces(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{header.x-tenant}")]
//                            ^^^^^^^^^^^^^^^^^^^^^^^^^ invalid placeholder `{header.x-tenant}`
async fn of_the_layer(Path(sku): Path<String>) {}

fn main() {}
