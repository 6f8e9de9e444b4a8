//! Lock and unlock on one and on five real masters. Needs `redis-server`. `cargo bench -p lock-bench --bench round`

#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark that cannot go on has to end")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use lock_support::RedisCluster;

fn round(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut group = criterion.benchmark_group("round");
    for masters in [1, 5] {
        let cluster = runtime.block_on(RedisCluster::start(masters));
        let locks = runtime.block_on(cluster.builder().connect()).unwrap();
        group.bench_function(BenchmarkId::new("lock and unlock", masters), |bencher| {
            bencher
                .to_async(&runtime)
                .iter(async || locks.lock("round").acquire().await.unwrap().release().await.unwrap());
        });
    }
    group.finish();
}

criterion_group!(benches, round);
criterion_main!(benches);
