use axum::extract::Path;
use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock:{sku}", key = format!("stock:{sku}"))]
//                                           ^^^ `resource` and `key` both define the resource: remove one of them
async fn handler(Path(sku): Path<String>) {}

fn main() {}
