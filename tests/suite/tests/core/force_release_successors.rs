//! Forced releases and those who come after the holder: nobody is evicted whom the first look did not find.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::inspection::LockVerdict;
use lock_core::node::{Evict, Eviction, NodeFuture};
use lock_core::{LockError, LockManager, LockNode, MemoryNode, NodeError};
use lock_support::{MemoryCluster, eventually};
use tokio::time::sleep;

use super::force_release::{TTL, two_managers};

type Hook = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A node that lets something happen before the first eviction.
struct HookedNode {
    node: MemoryNode,
    before_eviction: Arc<Mutex<Option<Hook>>>,
}

impl LockNode for HookedNode {
    lock_core::forward_to_node!(self => self.node; name inspect write_record read_fences submit look wakeups disconnected disconnect);

    fn evict(&self, evict: Evict) -> NodeFuture<Result<Eviction, NodeError>> {
        let (node, hook) = (self.node.clone(), self.before_eviction.lock().unwrap().take());
        Box::pin(async move {
            match hook {
                Some(hook) => hook.await,
                // After the first node's.
                None => sleep(Duration::from_millis(1)).await,
            }
            node.evict(evict).await
        })
    }
}

// promise: forced-release
#[tokio::test(start_paused = true)]
async fn a_successor_is_never_evicted() {
    let cluster = MemoryCluster::new(5);
    let [ours, theirs] = two_managers(&cluster).await;
    let former = ours.lock("r").acquire().await.unwrap();
    let former_token = former.token();
    let successor = Arc::new(Mutex::new(None));
    let hook: Hook = Box::pin({
        let (theirs, successor) = (theirs.clone(), Arc::clone(&successor));
        async move {
            former.release().await.unwrap();
            let acquired = theirs.lock("r").try_acquire().await.unwrap();
            *successor.lock().unwrap() = Some(acquired);
        }
    });
    let before_eviction = Arc::new(Mutex::new(Some(hook)));
    let nodes = cluster.nodes.iter().cloned();
    let nodes = nodes.map(|node| HookedNode { node, before_eviction: Arc::clone(&before_eviction) });
    let operator = LockManager::builder().nodes(nodes).ttl(TTL).max_ttl(TTL).connect().await.unwrap();
    let error = operator.force_release("r").await.unwrap_err();
    assert!(matches!(error, LockError::Contended { .. }), "{error}");
    let successor = successor.lock().unwrap().take().unwrap();
    sleep(TTL * 2).await;
    assert!(successor.is_valid(), "it renews");
    assert!(successor.token() > former_token && cluster.holding() == 5);
    successor.release().await.unwrap();
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn all_readers_are_evicted_together_and_one_that_comes_later_is_not() {
    let cluster = MemoryCluster::new(5);
    let [ours, theirs] = two_managers(&cluster).await;
    let readers = [ours.read("r").acquire().await.unwrap(), theirs.read("r").acquire().await.unwrap()];
    let beside = ours.read("r").acquire().await.unwrap();
    let report = theirs.inspect("r").await.unwrap();
    assert_eq!((report.verdict(), report.holder), (LockVerdict::Shared { readers: 2 }, None), "one for each process");
    assert!(report.nodes.iter().all(|node| node.readers.len() == 2 && !node.stranger));
    let forced = theirs.force_release("r").await.unwrap();
    assert_eq!((forced.evicted.len(), forced.freed_on.len()), (2, 5));
    assert!(readers.iter().all(|reader| reader.token() < forced.token));
    assert!(!readers[1].is_valid(), "it is of the manager that evicts");
    let successor = theirs.read("r").acquire().await.unwrap();
    assert!(forced.token < successor.token());
    sleep(TTL).await;
    assert!(!readers[0].is_valid() && !beside.is_valid(), "they cannot renew");
    assert!(successor.is_valid(), "it renews");
    let again = ours.read("r").acquire().await.unwrap();
    assert!(again.is_valid(), "a new reader of the process is none of the evicted");
    drop((readers, beside, successor, again));
    eventually("nothing is left", || cluster.holding() == 0).await;
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_reader_that_joins_while_others_are_evicted_is_a_successor() {
    for operator_reads in [false, true] {
        let cluster = MemoryCluster::new(5);
        let [ours, theirs] = two_managers(&cluster).await;
        let joined = Arc::new(Mutex::new(None));
        let hook: Hook = Box::pin({
            let joined = Arc::clone(&joined);
            async move {
                let reading = theirs.read("r").try_acquire().await.unwrap();
                *joined.lock().unwrap() = Some(reading);
            }
        });
        let before_eviction = Arc::new(Mutex::new(Some(hook)));
        let nodes = cluster.nodes.iter().cloned();
        let nodes = nodes.map(|node| HookedNode { node, before_eviction: Arc::clone(&before_eviction) });
        let operator = LockManager::builder().nodes(nodes).ttl(TTL).max_ttl(TTL).connect().await.unwrap();
        let former = if operator_reads { &operator } else { &ours }.read("r").acquire().await.unwrap();
        let error = operator.force_release("r").await.unwrap_err();
        assert!(matches!(error, LockError::Contended { .. }), "{error}");
        sleep(TTL * 2).await;
        let joined = joined.lock().unwrap().take().unwrap();
        assert!(joined.is_valid() && former.is_valid(), "nobody was evicted");
        drop((joined, former));
    }
}
