use axum::extract::Path;
use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock:{}")]
//                            ^^^^^^^^^^ empty placeholder `{}`: name a binding, as in `{sku}`
async fn empty(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{sku.to_lowercase()}")]
//                            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ invalid placeholder `{sku.to_lowercase()}`: a placeholder calls nothing; write `key = format!("…:{}", lock_axum::encode_value(sku.to_lowercase()))`
async fn call(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{sku:?}")]
//                            ^^^^^^^^^^^^^^^ invalid placeholder `{sku:?}`
async fn format(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{ sku }")]
//                            ^^^^^^^^^^^^^^^ invalid placeholder `{ sku }`
async fn spaces(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{header.x-tenant}")]
//                            ^^^^^^^^^^^^^^^^^^^^^^^^^ `{header.x-tenant}` is a placeholder of `LockLayer`: take `x-tenant` as a parameter
async fn of_the_layer(Path(sku): Path<String>) {}

#[distributed_lock(resource = "search:{query.q}")]
//                            ^^^^^^^^^^^^^^^^^^ `{query.q}` is a placeholder of `LockLayer`: take `q` as a parameter, through `Query(…)` for example, and name that
async fn of_the_layers_query(Path(sku): Path<String>) {}

fn main() {}
