use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock", on_error = |error| error.to_string())]
//                                                ^^^^^^^^^^^^^^^^^^^^^^^^^ `on_error` must be a path such as `crate::errors::busy`
async fn on_error() {}

#[distributed_lock(resource = "stock", crate = "lock_axum")]
//                                             ^^^^^^^^^^^ `crate` must be a path such as `::my_service::lock_axum`
async fn krate() {}

fn main() {}
