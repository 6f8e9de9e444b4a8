use lock_axum::{LockError, LockManager, distributed_lock};

mod orders {
    use lock_axum::distributed_lock;

    #[distributed_lock(resource = "stock")]
    struct Order;
  //^^^^^^ `#[distributed_lock]` stands on an `async fn`
}

trait Repository {
    fn locks(&self) -> &LockManager;

    #[distributed_lock(resource = "stock", manager = self.locks())]
    async fn take(&self) -> Result<(), LockError>;
    //       ^^^^ `#[distributed_lock]` guards a body, and this function has none: put it on the implementation
}

fn main() {}
