//! Sets and permits, taken by hand, asked every question: what goes wrong is found, and the sound twins are left alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_axum::testing::{Outcome, Question, Trial};
use lock_axum::{Lease, LockError, LockManager};

use crate::stores::{Db, Stale, payment};

/// What a sale holds.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Set,
    Permits(u32),
}

const NAMES: [&str; 2] = ["stock:42", "user:7"];

impl Kind {
    const THAT_EXCLUDE: [Self; 2] = [Self::Set, Self::Permits(1)];

    async fn run<T>(self, locks: &LockManager, work: impl AsyncFnOnce(Lease) -> T) -> Result<T, LockError> {
        match self {
            Self::Set => locks.lock_all(NAMES).run(async |leases| work(leases[0].clone()).await).await,
            Self::Permits(permits) => locks.permits(NAMES[0], permits).run(work).await,
        }
    }

    /// Goes on when the lock is lost.
    async fn hold<T>(self, locks: &LockManager, work: impl AsyncFnOnce() -> T) -> Result<T, LockError> {
        Ok(match self {
            Self::Set => {
                let _set = locks.lock_all(NAMES).acquire().await?;
                work().await
            }
            Self::Permits(permits) => {
                let _permit = locks.permits(NAMES[0], permits).acquire().await?;
                work().await
            }
        })
    }
}

async fn unfenced(locks: LockManager, db: Db, kind: Kind) -> Result<(), LockError> {
    let sale = async || {
        let stock = db.stock().await;
        payment().await;
        db.sell(stock - 1).await;
    };
    kind.hold(&locks, sale).await
}

async fn in_two_transactions(locks: LockManager, db: Db, kind: Kind) -> Result<(), LockError> {
    let sale = async |_| {
        let stock = db.stock().await;
        db.set_stock(stock - 1).await;
        db.add_order().await;
    };
    kind.run(&locks, sale).await
}

async fn claimed(locks: LockManager, db: Db, kind: Kind) -> Result<Result<(), Stale>, LockError> {
    let sale = async |lease: Lease| {
        let stock = db.claim_and_read(lease.token()).await?;
        payment().await;
        db.claim_and_sell(lease.token(), stock - 1).await
    };
    kind.run(&locks, sale).await
}

async fn in_one_statement(locks: LockManager, db: Db, kind: Kind) -> Result<(), LockError> {
    let sale = async |_| {
        payment().await;
        db.sell_one().await;
    };
    kind.run(&locks, sale).await
}

async fn sales<Sold>(count: usize, kind: Kind, sell: fn(LockManager, Db, Kind) -> Sold) -> Outcome
where
    Sold: Future + Send + 'static,
    Sold::Output: std::fmt::Debug,
{
    let trial = Trial::new(|| async { Db::default() }).tasks(count, move |locks, db| sell(locks, db, kind));
    trial.check(|db, _| db.adds_up()).run().await
}

/// That exactly these questions find something, and everything was tried.
#[track_caller]
fn finds(questions: &[Question], kind: Kind, outcome: &Outcome) {
    let found = |question: &Question| outcome.breaks(*question);
    let found: Vec<_> = Question::ALL.into_iter().filter(found).collect();
    assert!(found == questions && outcome.problems.is_empty(), "{kind:?}: {outcome}");
}

fn is_needed(outcome: &Outcome) -> bool {
    outcome.unlocked.as_ref().is_some_and(|unlocked| !unlocked.broken.is_empty())
}

#[tokio::test]
async fn a_sale_without_a_fence_is_found_when_its_set_or_its_permit_is_lost_or_it_was_frozen() {
    for kind in Kind::THAT_EXCLUDE {
        let outcome = sales(2, kind, unfenced).await;
        finds(&[Question::Lost, Question::Frozen], kind, &outcome);
        assert!(is_needed(&outcome), "{outcome}");
    }
}

#[tokio::test]
async fn half_a_sale_is_found_when_the_client_of_a_set_or_a_permit_hangs_up() {
    for kind in Kind::THAT_EXCLUDE {
        let outcome = sales(2, kind, in_two_transactions).await;
        assert!(outcome.breaks(Question::HangUp) && !outcome.breaks(Question::Race), "{kind:?}: {outcome}");
        assert!(outcome.problems.is_empty(), "{kind:?}: {outcome}");
    }
}

#[tokio::test]
async fn a_sale_that_claims_holds_with_a_set_and_with_one_permit() {
    for kind in Kind::THAT_EXCLUDE {
        let outcome = sales(2, kind, claimed).await;
        outcome.assert_holds();
        assert!(outcome.takes_locks && outcome.unlocked.is_some(), "{kind:?}: {outcome}");
    }
}

#[tokio::test]
async fn two_permits_let_two_in_and_only_one_statement_is_sound() {
    let kind = Kind::Permits(2);
    let outcome = sales(2, kind, unfenced).await;
    finds(&[Question::Race, Question::Lost, Question::Frozen], kind, &outcome);
    let outcome = sales(3, kind, in_one_statement).await;
    outcome.assert_holds();
    assert!(outcome.takes_locks && !is_needed(&outcome), "{outcome}");
}

/// How many are inside, and how many were at most.
#[derive(Clone, Default)]
struct Inside(Arc<(AtomicUsize, AtomicUsize)>);

impl Inside {
    fn enter(&self) -> impl Drop + use<> {
        struct Leaves(Inside);
        impl Drop for Leaves {
            fn drop(&mut self) {
                self.0.0.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let inside = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(inside, Ordering::SeqCst);
        Leaves(self.clone())
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn two_permits_let_no_third_in_and_without_them_there_is_one() {
    async fn enter(locks: LockManager, inside: Inside) -> Result<(), LockError> {
        let work = async |_| {
            let _inside = inside.enter();
            payment().await;
            payment().await;
        };
        Kind::Permits(2).run(&locks, work).await
    }
    let outcome = Trial::new(|| async { Inside::default() })
        .tasks(3, enter)
        .check(|inside, _| async move { inside.most() <= 2 })
        .only([Question::Race, Question::HangUp, Question::Unlocked])
        .run()
        .await;
    outcome.assert_holds();
    assert!(is_needed(&outcome), "{outcome}");
}
