use axum::extract::Path;
use axum::routing::post;
use axum::{Json, Router};
use lock_axum::{Lease, LockError, LockManager, distributed_lock};

#[distributed_lock(resource = "stock:{sku}")]
pub fn handler(Path(sku): Path<String>, lease: Lease) -> String {
//  ^^ `#[distributed_lock]` can only be applied to an `async fn`: add `async`
    std::future::ready(()).await;
    format!("{sku} {lease:?}")
}

#[distributed_lock(resource = "stock")]
fn future(Json(_): Json<u8>, lease: Lease) -> impl Future<Output = String> + Send {
    //                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ can only be applied to an `async fn`: write `async fn future(…) -> T` instead of `-> impl Future<Output = T>`
    async move { lease.resource().to_owned() }
}

struct Service {
    locks: LockManager,
}

impl Service {
    #[distributed_lock(resource = "stock", manager = self.locks)]
    fn take(&self) -> impl Future<Output = Result<u8, LockError>> {
        //            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write `async fn take(…) -> T`
        async { Ok(1) }
    }
}

fn main() {
    let _: Router = Router::new().route("/{sku}", post(handler)).route("/", post(future));
    let _ = async |service: Service| service.take().await;
}
