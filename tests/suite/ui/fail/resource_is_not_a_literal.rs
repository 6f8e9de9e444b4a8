use lock_axum::distributed_lock;

const STOCK: &str = "stock";

#[distributed_lock(resource = STOCK)]
//                            ^^^^^ `resource` must be a string literal: use `key = …` for a computed resource
async fn constant() {}

#[distributed_lock(resource = 42)]
//                            ^^ `resource` must be a string literal
async fn number() {}

#[distributed_lock(resource = ["a", STOCK])]
//                                  ^^^^^ `resource` must be a string literal
async fn list() {}

fn main() {
    println!("{STOCK}");
}
