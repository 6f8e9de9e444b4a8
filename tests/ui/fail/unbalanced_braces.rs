use axum::extract::Path;
use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock:{sku")]
//                            ^^^^^^^^^^^^ unclosed `{` in `{sku`: a placeholder ends with `}`
async fn unclosed(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:sku}")]
//                            ^^^^^^^^^^^^ unmatched `}`: no placeholder is open here
async fn unmatched(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{{sku}}")]
//                            ^^^^^^^^^^^^^^^ `{{`: braces can not be escaped, a resource name has none
async fn escaped(Path(sku): Path<String>) {}

fn main() {}
