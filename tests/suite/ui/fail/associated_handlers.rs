//! A handler is nested in a generated function, where the names of the `impl` around it are out of reach.

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Router};
use lock_axum::distributed_lock;

#[derive(Clone)]
struct Shop;

#[derive(Clone)]
struct Stock<T>(T);

impl Shop {
    #[distributed_lock(resource = "all")]
    async fn of_self(State(shop): State<Self>) {
        //                              ^^^^ can't use `Self` from outer item
        _ = shop;
    }

    #[distributed_lock(resource = "all")]
    async fn named<T: Clone + Send + Sync + 'static>(State(shop): State<Shop>, stock: Extension<Stock<T>>) {
        _ = (shop, stock.0.0);
    }
}

impl<T: Clone + Send + Sync + 'static> Stock<T> {
    #[distributed_lock(resource = "all")]
    async fn of_impl(Extension(item): Extension<T>) {
        //                                      ^ can't use generic parameters from outer item
        _ = item;
    }
}

fn main() {
    let _: Router = Router::new()
        .route("/a", post(Shop::of_self).get(Shop::named::<u8>))
        .route("/b", post(Stock::<u8>::of_impl))
        .with_state(Shop);
}
