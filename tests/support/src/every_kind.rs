use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LockManagerBuilder, LossReason};
use tokio::time::{Instant, sleep};

use crate::kinds::Kind;
use crate::stalled_runtime::{Fate, StalledRuntime, on_one_thread};
use crate::wait::eventually_async;

/// The time to live of these tests: long enough for renewals to move to another runtime in time.
const TTL: Duration = Duration::from_secs(3);
const WAIT: Duration = Duration::from_secs(30);
const NONE: Duration = Duration::ZERO;
const CALLERS: usize = 300;

fn name(kind: Kind) -> String {
    format!("{kind:?}")
}

fn with_terms(builder: LockManagerBuilder) -> LockManagerBuilder {
    builder.ttl(TTL).max_ttl(TTL).wait(WAIT)
}

/// Two managers that have not connected yet, of which one has a burst of callers: locks of these kinds are held, exclude, are renewed,
/// taken by force, and left to others by a shutdown.
pub async fn try_every_kind(builder: impl Fn() -> LockManagerBuilder, kinds: &[Kind]) {
    let lazy = || with_terms(builder()).connect_lazy().unwrap();
    let (ours, theirs) = (lazy(), lazy());
    let burst: Vec<_> =
        (0..CALLERS).map(|number| tokio::spawn(ours.lock(format!("burst:{number}")).acquire())).collect();
    for kind in kinds {
        let held = kind.acquire(&ours, &name(*kind)).await.unwrap();
        // A master on a busy machine may not answer the only attempt in time.
        eventually_async("a rival is answered in time", async || {
            let rival = kind.rival(&theirs, &name(*kind), NONE).await;
            let is_unanswered = matches!(rival, Err(LockError::NoQuorum { .. }));
            assert!(is_unanswered || matches!(rival, Err(LockError::Contended { .. })), "{kind:?}: {:?}", rival.err());
            !is_unanswered
        })
        .await;
        let token = held.leases().last().unwrap().token();
        drop(held);
        let next = kind.rival(&theirs, &name(*kind), WAIT).await.unwrap();
        assert!(token < next.leases()[0].token(), "{kind:?}");
    }
    for caller in burst {
        drop(caller.await.unwrap().unwrap());
    }
    let began = Instant::now();
    let held = join_all(kinds.iter().map(async |kind| kind.acquire(&ours, &name(*kind)).await)).await;
    let held: Vec<_> = kinds.iter().zip(held).map(|(kind, held)| (*kind, held.unwrap())).collect();
    while began.elapsed() < TTL * 4 / 3 {
        for (kind, held) in &held {
            let rival = kind.rival(&theirs, &name(*kind), NONE).await;
            assert!(rival.is_err() || !held.is_valid_in_part(), "{kind:?}");
        }
        sleep(TTL / 20).await;
    }
    join_all(held.into_iter().map(async |(kind, held)| {
        assert_eq!(held.is_valid(), kind.is_renewed(), "{kind:?}: {:?}", held.leases());
        let forced = theirs.force_release(kind.contested(&name(kind))).await.unwrap();
        let next = kind.rival(&theirs, &name(kind), WAIT).await.unwrap();
        assert!(
            held.leases().last().unwrap().token() < forced.token && forced.token < next.leases()[0].token(),
            "{kind:?}"
        );
        held.lost().await;
    }))
    .await;
    let held = join_all(kinds.iter().map(async |kind| kind.acquire(&ours, &name(*kind)).await)).await;
    ours.shutdown(NONE).await;
    join_all(kinds.iter().zip(held).map(async |(kind, held)| {
        let Err(LockError::Lost { reason, .. }) = held.unwrap().leases()[0].check() else { panic!("{kind:?}") };
        assert_eq!(reason, LossReason::ShutDown, "{kind:?}");
        assert!(kind.rival(&theirs, &name(*kind), WAIT).await.unwrap().is_valid(), "{kind:?}");
    }))
    .await;
}

/// Locks of these kinds are taken on a runtime that meets its fate: nobody else gets one that is valid, and they are renewed by
/// another runtime, if `are_kept`. Not to be called inside a runtime.
pub fn try_every_kind_on_two_runtimes(
    fate: Fate,
    builder: impl Fn() -> LockManagerBuilder,
    kinds: &[Kind],
    are_kept: bool,
) {
    let locks = with_terms(builder()).connect_lazy().unwrap();
    let taking = join_all(kinds.iter().map(async |kind| (*kind, kind.acquire(&locks, &name(*kind)).await.unwrap())));
    let (taken, _stalled) = StalledRuntime::after(fate, taking);
    on_one_thread().block_on(async {
        let others = with_terms(builder()).connect_lazy().unwrap();
        // What makes it notice: it is used on this runtime.
        assert!(locks.lock("another").acquire().await.is_ok());
        let began = Instant::now();
        while began.elapsed() < TTL * 4 / 3 {
            for (kind, held) in &taken {
                let rival = kind.rival(&others, &name(*kind), NONE).await;
                assert!(rival.is_err() || !held.is_valid_in_part(), "{kind:?} in {fate:?}");
            }
            sleep(TTL / 60).await;
        }
        for (kind, held) in taken {
            match kind {
                Kind::NotRenewed => assert!(!held.is_valid()),
                _ if !are_kept => {}
                _ => assert!(held.is_valid(), "{kind:?} in {fate:?}: {:?}", held.leases()),
            }
            drop(held);
            let next = kind.rival(&others, &name(kind), WAIT).await.unwrap();
            assert!(next.is_valid(), "{kind:?} in {fate:?}");
        }
    });
}
