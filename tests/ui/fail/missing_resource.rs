mod handlers {
    use lock_axum::distributed_lock;

    #[distributed_lock]
  //^^^^^^^^^^^^^^^^^^^ what to lock is missing: add `resource = "stock:{sku}"` or `key = …`
    pub async fn no_arguments() {}

    #[distributed_lock(ttl = "10s")]
  //^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ what to lock is missing
    pub async fn other_arguments() {}
}

fn main() {}
