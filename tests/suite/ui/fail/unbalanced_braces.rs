use axum::extract::Path;
use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock:{sku")]
//                            ^^^^^^^^^^^^ unbalanced brace: `{` is never closed in `{sku`
async fn unclosed(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:sku}")]
//                            ^^^^^^^^^^^^ unbalanced brace: `}` without an opening `{`
async fn unmatched(Path(sku): Path<String>) {}

#[distributed_lock(resource = "stock:{{sku}}")]
//                            ^^^^^^^^^^^^^^^ `{{`: braces cannot be escaped, because a resource cannot contain them
async fn escaped(Path(sku): Path<String>) {}

fn main() {}
