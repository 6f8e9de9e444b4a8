//! The cost of the engine itself: lock and unlock on five masters in memory. `cargo bench -p lock-bench --bench
//! in_memory`

#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark that cannot go on has to end")]

use criterion::{Criterion, criterion_group, criterion_main};
use lock_core::LockManager;

fn in_memory(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let locks = LockManager::in_memory();
    let mut group = criterion.benchmark_group("in_memory");
    group.bench_function("release awaited", |bencher| {
        bencher
            .to_async(&runtime)
            .iter(async || locks.lock("awaited").acquire().await.unwrap().release().await.unwrap());
    });
    group.bench_function("release in the background", |bencher| {
        bencher.to_async(&runtime).iter(async || drop(locks.lock("dropped").acquire().await.unwrap()));
    });
    group.finish();
}

criterion_group!(benches, in_memory);
criterion_main!(benches);
