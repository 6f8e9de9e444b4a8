use lock_axum::{LockError, LockManager, distributed_lock};

struct Service {
    locks: LockManager,
}

fn respond(error: LockError) -> String {
    error.to_string()
}

impl Service {
    #[distributed_lock(resource = "stock", manager = self.locks, on_disconnect = "finish")]
    //                                                           ^^^^^^^^^^^^^ `on_disconnect` cannot be combined with `manager`:
    async fn on_disconnect(&self) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(resource = "stock", manager = self.locks, busy_status = 423, on_error = respond)]
    //                                                           ^^^^^^^^^^^ `busy_status` cannot be combined with `manager`:
    //                                                                              ^^^^^^^^ `on_error` cannot be combined with `manager`:
    async fn responds(&self) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(resource = "stock", manager = self.locks, retry_after = "1s")]
    //                                                           ^^^^^^^^^^^ `retry_after` cannot be combined with `manager`:
    async fn advises(&self) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
