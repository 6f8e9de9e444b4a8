mod handlers {
    use lock_axum::distributed_lock;

    #[distributed_lock]
  //^^^^^^^^^^^^^^^^^^^ missing `resource` or `key`: add `resource = "stock:{sku}"` or `key = …`
    pub async fn no_arguments() {}

    #[distributed_lock(ttl = "10s")]
  //^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ missing `resource` or `key`
    pub async fn other_arguments() {}
}

fn main() {}
