use lock_axum::{LockError, LockManager, distributed_lock};

mod orders {
    use lock_axum::distributed_lock;

    #[distributed_lock(resource = "stock")]
    struct Order;
  //^^^^^^ `#[distributed_lock]` can only be applied to an `async fn`
}

trait Repository {
    fn locks(&self) -> &LockManager;

    #[distributed_lock(resource = "stock", manager = self.locks())]
    async fn take(&self) -> Result<(), LockError>;
    //       ^^^^ `#[distributed_lock]` needs a function body to guard: apply it to the implementation
}

fn main() {}
