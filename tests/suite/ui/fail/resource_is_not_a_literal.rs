use lock_axum::distributed_lock;

const STOCK: &str = "stock";

#[distributed_lock(resource = STOCK)]
//                            ^^^^^ `resource` must be a string literal: use `key = …` for a computed resource
async fn constant() {}

#[distributed_lock(resource = 42)]
//                            ^^ `resource` must be a string literal
async fn number() {}

#[distributed_lock(resource = ["a", STOCK])]
//                                  ^^^^^ `resource` must be a string literal, also in a list: put what is computed into a parameter
async fn list() {}

#[distributed_lock(resource = vec!["a", "b"])]
//                            ^^^^^^^^^^^^^^ write a list of resources as `resource = ["…", "…"]`
async fn vector() {}

#[distributed_lock(resource = &["a", "b"])]
//                            ^^^^^^^^^^^ write a list of resources as `resource = ["…", "…"]`
async fn slice() {}

fn main() {
    println!("{STOCK}");
}
