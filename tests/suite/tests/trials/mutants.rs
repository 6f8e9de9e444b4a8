//! Ten handlers with one fault each, found by the question that should find it; and ten that differ in that alone.

use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{MethodRouter, post};
use axum::{Extension, Router};
use lock_axum::testing::{Outcome, Question, Trial, post as request};
use lock_axum::{FencingToken, LockManager, distributed_lock};

use crate::stores::{Db, Stale, payment, writer};

type Answer = Result<(), StatusCode>;

fn stale(_: Stale) -> StatusCode {
    StatusCode::CONFLICT
}

/// A trial of a handler for `/{user}/{sku}`: two users buy the same.
fn trial(handler: fn() -> MethodRouter<Db>) -> Trial<Db> {
    pair(handler, handler)
}

/// A trial of two handlers.
fn pair(one: fn() -> MethodRouter<Db>, other: fn() -> MethodRouter<Db>) -> Trial<Db> {
    Trial::new(|| async { Db::default() })
        .service(move |locks, db| {
            let routes = Router::new().route("/one/{user}/{sku}", one()).route("/other/{user}/{sku}", other());
            routes.layer(Extension(locks)).with_state(db)
        })
        .request(|| request("/one/ada/42"))
        .request(|| request("/other/bob/42"))
        .check(|db, _| db.adds_up())
}

async fn finds(question: Question, trial: Trial<Db>) -> Outcome {
    let began = Instant::now();
    let outcome = trial.only([question]).run().await;
    assert!(outcome.problems.is_empty() && outcome.breaks(question), "{outcome}");
    assert!(outcome.runs < 50 && began.elapsed() < Duration::from_secs(2), "{:?}: {outcome}", began.elapsed());
    println!("{outcome}\n{:?}\n", began.elapsed());
    outcome
}

async fn holds(trial: Trial<Db>) {
    let outcome = trial.run().await;
    outcome.assert_holds();
    println!("{outcome}\n");
}

#[tokio::test]
async fn a_lock_on_the_wrong_key() {
    #[distributed_lock(resource = "stock:{user}")]
    async fn mutant(Path((user, _sku)): Path<(String, String)>, State(db): State<Db>, token: FencingToken) -> Answer {
        let stock = db.claim_and_read(token).await.map_err(stale)?;
        payment().await;
        db.sell(stock - 1).await;
        Ok(())
    }
    #[distributed_lock(resource = "stock:{sku}")]
    async fn twin(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>, token: FencingToken) -> Answer {
        let stock = db.claim_and_read(token).await.map_err(stale)?;
        payment().await;
        db.claim_and_sell(token, stock - 1).await.map_err(stale)
    }
    let outcome = finds(Question::Race, trial(|| post(mutant))).await;
    let text = outcome.to_string();
    assert!(text.contains("A locks `stock:ada`, and B locks `stock:bob`"), "{text}");
    holds(trial(|| post(twin))).await;
}

#[tokio::test]
async fn a_claim_after_the_read() {
    #[distributed_lock(resource = "stock:{sku}")]
    async fn mutant(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>, token: FencingToken) -> Answer {
        let stock = db.stock().await;
        payment().await;
        db.claim_and_sell(token, stock - 1).await.map_err(stale)
    }
    #[distributed_lock(resource = "stock:{sku}")]
    async fn twin(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>, token: FencingToken) -> Answer {
        payment().await;
        let stock = db.claim_and_read(token).await.map_err(stale)?;
        db.claim_and_sell(token, stock - 1).await.map_err(stale)
    }
    // The second holder has read, and not claimed, when the frozen one goes on.
    let outcome = finds(Question::Frozen, trial(|| post(mutant))).await;
    assert!(outcome.to_string().contains("stands still here"), "{outcome}");
    holds(trial(|| post(twin))).await;
}

#[tokio::test]
async fn a_commit_after_the_release() {
    async fn sell(State(db): State<Db>, Extension(locks): Extension<LockManager>, early: bool) -> Answer {
        let guard = locks.lock("stock:42").acquire().await.map_err(|_| StatusCode::CONFLICT)?;
        let token = guard.token();
        let stock = db.claim_and_read(token).await.map_err(stale)?;
        if early {
            drop(guard);
            db.sell(stock - 1).await;
        } else {
            db.claim_and_sell(token, stock - 1).await.map_err(stale)?;
            drop(guard);
        }
        Ok(())
    }
    async fn mutant(db: State<Db>, locks: Extension<LockManager>) -> Answer {
        sell(db, locks, true).await
    }
    async fn twin(db: State<Db>, locks: Extension<LockManager>) -> Answer {
        sell(db, locks, false).await
    }
    finds(Question::Race, trial(|| post(mutant))).await;
    holds(trial(|| post(twin))).await;
}

#[tokio::test]
async fn two_handlers_with_different_keys_for_one_row() {
    #[distributed_lock(resource = "stock:{sku}")]
    async fn sell(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>, token: FencingToken) -> Answer {
        let stock = db.claim_and_read(token).await.map_err(stale)?;
        payment().await;
        db.claim_and_sell(token, stock - 1).await.map_err(stale)
    }
    #[distributed_lock(resource = "refund:{sku}")]
    async fn mutant(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>) -> Answer {
        let stock = db.stock().await;
        payment().await;
        db.sell(stock - 1).await;
        Ok(())
    }
    #[distributed_lock(resource = "stock:{sku}")]
    async fn twin(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>, token: FencingToken) -> Answer {
        // Another way than that of a sale: all of it after the payment.
        payment().await;
        let stock = db.claim_and_read(token).await.map_err(stale)?;
        db.claim_and_sell(token, stock - 1).await.map_err(stale)
    }
    let outcome = finds(Question::Race, pair(|| post(sell), || post(mutant))).await;
    let text = outcome.to_string();
    assert!(text.contains("A locks `stock:42`, and B locks `refund:42`"), "{text}");
    holds(pair(|| post(sell), || post(twin))).await;
}

#[tokio::test]
async fn spawned_work_that_outlives_the_lock() {
    #[distributed_lock(resource = "stock:{sku}")]
    async fn mutant(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>) -> Answer {
        let stock = db.stock().await;
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            db.sell(stock - 1).await;
        });
        Ok(())
    }
    #[distributed_lock(resource = "stock:{sku}")]
    async fn twin(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>, token: FencingToken) -> Answer {
        let stock = db.claim_and_read(token).await.map_err(stale)?;
        let work = tokio::spawn(async move { db.claim_and_sell(token, stock - 1).await.map_err(stale) });
        work.await.unwrap_or(Err(StatusCode::INTERNAL_SERVER_ERROR))
    }
    let outcome = finds(Question::Race, trial(|| post(mutant))).await;
    assert!(outcome.to_string().contains("its work goes on without the lock"), "{outcome}");
    holds(trial(|| post(twin))).await;
}

#[tokio::test]
async fn a_missing_transaction() {
    #[distributed_lock(resource = "stock:{sku}", on_disconnect = "cancel")]
    async fn mutant(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>) -> Answer {
        let stock = db.stock().await;
        db.set_stock(stock - 1).await;
        db.add_order().await;
        Ok(())
    }
    #[distributed_lock(resource = "stock:{sku}", on_disconnect = "cancel")]
    async fn twin(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>, token: FencingToken) -> Answer {
        let stock = db.claim_and_read(token).await.map_err(stale)?;
        db.claim_and_sell(token, stock - 1).await.map_err(stale)
    }
    let outcome = finds(Question::HangUp, trial(|| post(mutant))).await;
    assert!(outcome.to_string().contains("its client hangs up here"), "{outcome}");
    holds(trial(|| post(twin))).await;
}

#[tokio::test]
async fn a_lock_that_is_taken_after_the_read() {
    async fn mutant(State(db): State<Db>, Extension(locks): Extension<LockManager>) -> Answer {
        let stock = db.stock().await;
        payment().await;
        let selling = locks.lock("stock:42").run(async |_| db.sell(stock - 1).await);
        selling.await.map_err(|_| StatusCode::CONFLICT)
    }
    async fn twin(State(db): State<Db>, Extension(locks): Extension<LockManager>) -> Answer {
        let selling = locks.lock("stock:42").run(async |lease| {
            let stock = db.claim_and_read(lease.token()).await?;
            payment().await;
            db.claim_and_sell(lease.token(), stock - 1).await
        });
        selling.await.map_err(|_| StatusCode::CONFLICT)?.map_err(stale)
    }
    let outcome = finds(Question::Race, trial(|| post(mutant))).await;
    assert!(outcome.to_string().contains("A holds no lock at this step"), "{outcome}");
    holds(trial(|| post(twin))).await;
}

#[tokio::test]
async fn a_lock_that_is_taken_right_after_the_read() {
    async fn mutant(State(db): State<Db>, Extension(locks): Extension<LockManager>) -> Answer {
        let stock = db.stock().await;
        let selling = locks.lock("stock:42").run(async |_| {
            payment().await;
            db.sell(stock - 1).await;
        });
        selling.await.map_err(|_| StatusCode::CONFLICT)
    }
    let outcome = finds(Question::Race, trial(|| post(mutant))).await;
    assert!(outcome.to_string().contains("read after the lock is taken"), "{outcome}");
}

#[tokio::test]
async fn a_response_before_the_commit() {
    #[distributed_lock(resource = "stock:{sku}")]
    async fn mutant(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>) -> StatusCode {
        let stock = db.stock().await;
        let sent = writer(db).send(stock - 1).await;
        sent.map_or(StatusCode::INTERNAL_SERVER_ERROR, |()| StatusCode::ACCEPTED)
    }
    #[distributed_lock(resource = "stock:{sku}")]
    async fn twin(
        Path((_user, sku)): Path<(String, String)>,
        State(db): State<Db>,
        token: FencingToken,
    ) -> Result<StatusCode, StatusCode> {
        let stock = db.claim_and_read(token).await.map_err(stale)?;
        // The writer answers when it has committed, and the client after that.
        let (committed, commit) = tokio::sync::oneshot::channel();
        tokio::spawn(async move { committed.send(db.claim_and_sell(token, stock - 1).await) });
        let commit = commit.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        commit.map(|()| StatusCode::ACCEPTED).map_err(stale)
    }
    finds(Question::Race, trial(|| post(mutant))).await;
    holds(trial(|| post(twin))).await;
}

#[tokio::test]
async fn a_write_after_the_loss() {
    #[distributed_lock(resource = "stock:{sku}", on_lost = "continue")]
    async fn mutant(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>) -> Answer {
        let stock = db.stock().await;
        payment().await;
        db.sell(stock - 1).await;
        Ok(())
    }
    #[distributed_lock(resource = "stock:{sku}", on_lost = "continue")]
    async fn twin(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>, token: FencingToken) -> Answer {
        let stock = db.claim_and_read(token).await.map_err(stale)?;
        payment().await;
        db.claim_and_sell(token, stock - 1).await.map_err(stale)
    }
    let outcome = finds(Question::Lost, trial(|| post(mutant))).await;
    assert!(outcome.to_string().contains("loses its lock here"), "{outcome}");
    holds(trial(|| post(twin))).await;
}

#[tokio::test]
async fn a_read_lock_around_a_write() {
    #[distributed_lock(resource = "stock:{sku}", mode = "read")]
    async fn mutant(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>) -> Answer {
        let stock = db.stock().await;
        payment().await;
        db.sell(stock - 1).await;
        Ok(())
    }
    #[distributed_lock(resource = "stock:{sku}", mode = "write")]
    async fn twin(Path((_user, sku)): Path<(String, String)>, State(db): State<Db>, token: FencingToken) -> Answer {
        let stock = db.claim_and_read(token).await.map_err(stale)?;
        payment().await;
        db.claim_and_sell(token, stock - 1).await.map_err(stale)
    }
    let outcome = finds(Question::Race, trial(|| post(mutant))).await;
    assert!(outcome.to_string().contains("A holds a lock at this step, and the others go on"), "{outcome}");
    holds(trial(|| post(twin))).await;
}
