use axum::Json;
use axum::extract::{Path, State};
use lock_axum::{Lease, LockError, LockManager, distributed_lock};

#[distributed_lock(resource = "stock:{skuu}")]
//                            ^^^^^^^^^^^^^^ unknown placeholder `{skuu}`; did you mean `sku`? (the parameters bind `sku`, `order`)
async fn close(Path(sku): Path<String>, lease: Lease, Json(order): Json<u8>) {}

#[distributed_lock(resource = "stock:{sku}")]
//                            ^^^^^^^^^^^^^ unknown placeholder `{sku}`: the parameters bind no names
async fn nothing_bound(_: Path<String>) {}

#[distributed_lock(resource = "{a}:{b.id}")]
//                            ^^^^^^^^^^^^ unknown placeholder `{a}` (the parameters bind `state`)
//                            ^^^^^^^^^^^^ unknown placeholder `{b}` (the parameters bind `state`)
async fn several(State(state): State<()>) {}

struct Service {
    locks: LockManager,
}

impl Service {
    #[distributed_lock(resource = "stock:{id}", manager = self.locks)]
    //                            ^^^^^^^^^^^^ unknown placeholder `{id}` (the parameters bind `self`, `sku`)
    async fn method(&self, sku: &str) -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(resource = "shard:{N}")]
//                            ^^^^^^^^^^^ `{N}` names no parameter: for a constant, write `key = format!("…{N}")`
async fn constant<const N: usize>(Path(m): Path<String>) {}

#[distributed_lock(resource = "{SHOP}:{m}")]
//                            ^^^^^^^^^^^^ `{SHOP}` names no parameter: for a constant
async fn of_the_shop(Path(m): Path<String>) {}

fn main() {}
