use axum::extract::Path;
use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock:{}")]
//                            ^^^^^^^^^^ empty placeholder `{}`: name a binding, as in `{sku}`
async fn empty(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{sku.to_lowercase()}")]
//                            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ `{sku.to_lowercase()}` is no placeholder: only a binding (`{sku}`) or its fields
async fn call(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{sku:?}")]
//                            ^^^^^^^^^^^^^^^ `{sku:?}` is no placeholder
async fn format(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{ sku }")]
//                            ^^^^^^^^^^^^^^^ `{ sku }` is no placeholder
async fn spaces(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{header.x-tenant}")]
//                            ^^^^^^^^^^^^^^^^^^^^^^^^^ `{header.x-tenant}` is no placeholder
async fn of_the_layer(Path(sku): Path<String>) {}

fn main() {}
