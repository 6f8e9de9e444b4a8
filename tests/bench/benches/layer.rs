//! A request to a trivial service, with and without a `LockLayer`, and the lock alone; all in memory.
//! `cargo bench -p lock-bench --bench layer`

#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark that cannot go on has to end")]

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use criterion::{Criterion, criterion_group, criterion_main};
use lock_axum::{LockLayer, LockManager};
use tower::ServiceExt as _;

async fn send_request(app: &Router) {
    let request = Request::post("/stock/42").body(Body::empty()).unwrap();
    assert_eq!(app.clone().oneshot(request).await.unwrap().status(), StatusCode::OK);
}

fn layer(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let locks = LockManager::in_memory();
    let plain = Router::new().route("/stock/{sku}", post(async || "done"));
    let locked = plain.clone().route_layer(LockLayer::new(locks.clone(), "stock:{sku}"));
    // As `axum::serve` does: otherwise the layer would be applied again for each request.
    let (plain, locked) = (plain.with_state(()), locked.with_state(()));
    let mut group = criterion.benchmark_group("layer");
    group.bench_function("without", |bencher| bencher.to_async(&runtime).iter(|| send_request(&plain)));
    group.bench_function("with", |bencher| bencher.to_async(&runtime).iter(|| send_request(&locked)));
    group.bench_function("lock alone", |bencher| {
        bencher.to_async(&runtime).iter(async || drop(locks.lock("stock:42").acquire().await.unwrap()));
    });
    group.finish();
}

criterion_group!(benches, layer);
criterion_main!(benches);
