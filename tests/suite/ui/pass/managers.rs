//! What `manager` may yield: a manager, a reference to one, and what dereferences to one.

use std::sync::{Arc, LazyLock, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use lock_axum::{LockError, LockManager, distributed_lock};

static LOCKS: LazyLock<LockManager> = LazyLock::new(LockManager::in_memory);

#[derive(Clone)]
struct App {
    locks: LockManager,
    shared: Arc<LockManager>,
    guarded: Arc<Mutex<LockManager>>,
}

impl App {
    fn locks(&self) -> Result<&LockManager, LockError> {
        Ok(&self.locks)
    }

    #[distributed_lock(resource = "a", manager = self.locks()?)]
    async fn fallible_reference(&self) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(resource = "a", manager = self.locks().map(|locks| locks.clone())?)]
    async fn fallible(&self) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(resource = "a", manager = self.shared)]
    async fn shared(&self) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(resource = "a", manager = self.guarded.lock().expect("not poisoned"))]
    async fn guarded(&self) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(resource = "a", manager = if true { &self.locks } else { &*self.shared })]
    async fn chosen(&self) -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(resource = "at/:8080", manager = LOCKS)]
async fn in_a_static() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(resource = "stock:sku/:all:{sku}", manager = locks)]
async fn by_reference(locks: &LockManager, sku: &str) -> Result<(), LockError> {
    let _ = sku;
    Ok(())
}

#[distributed_lock(resource = "a", body_timeout = "1500us")]
async fn upload(body: Bytes) {
    drop(body);
}

fn main() {
    let locks = LockManager::in_memory();
    let app = App { shared: Arc::new(locks.clone()), guarded: Arc::new(Mutex::new(locks.clone())), locks };
    let _: Router = Router::new().route("/", post(upload));
    let _ = async move || {
        app.fallible_reference().await?;
        app.fallible().await?;
        app.shared().await?;
        app.guarded().await?;
        app.chosen().await?;
        in_a_static().await?;
        by_reference(&app.locks, "42").await
    };
}
