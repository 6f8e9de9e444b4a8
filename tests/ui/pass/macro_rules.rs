//! Handlers and attributes that another macro writes.

use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use lock_axum::{Lease, LockError, LockManager, distributed_lock};

macro_rules! whole_handler {
    ($name:ident) => {
        #[distributed_lock(resource = "a:{id}:{lines.0}", ttl = "1s")]
        async fn $name(Path((id, lines)): Path<(u8, (u8, u8))>, lease: Lease) -> String {
            format!("{id} {} {:?}", lines.1, lease.token())
        }
    };
}

macro_rules! handler_for {
    ($name:ident, $resource:literal, $ttl:expr, $lease:ty, $pattern:pat, $parameter:ty, $body:expr) => {
        #[distributed_lock(resource = $resource, ttl = $ttl, busy_status = 503)]
        async fn $name($pattern: $parameter, _lease: $lease) -> String {
            $body
        }
    };
}

macro_rules! function_for {
    ($locks:expr, $key:expr, $argument:ident) => {
        #[distributed_lock(key = $key, manager = $locks)]
        async fn function(&self, $argument: u8) -> Result<u8, LockError> {
            Ok($argument)
        }
    };
}

whole_handler!(whole);
handler_for!(parts, "a:{id}", "1s", Lease, Path(id), Path<u8>, id.to_string());

struct Service {
    locks: LockManager,
}

impl Service {
    function_for!(LockManager::clone(&Self::of()), format!("{id}"), id);

    fn of() -> LockManager {
        LockManager::in_memory()
    }
}

fn main() {
    let _: Router = Router::new().route("/a/{id}/{lines}", post(whole)).route("/b/{id}", post(parts));
    let _ = async |service: Service| {
        let _ = &service.locks;
        service.function(1).await
    };
}
