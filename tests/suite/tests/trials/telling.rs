//! What an outcome says.

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Router};
use lock_axum::testing::{Question, Trial, post as request};

use crate::stores::{Db, payment};

#[tracing::instrument(skip_all)]
async fn deduct(State(db): State<Db>) {
    let stock = db.stock().await;
    tracing::debug!("SELECT quantity FROM stock WHERE sku = '42'");
    payment().await;
    db.sell(stock - 1).await;
}

#[tokio::test]
async fn a_schedule_is_told_step_by_step_with_what_to_do() {
    let outcome = Trial::new(|| async { Db::default() })
        .service(|locks, db| {
            Router::new().route("/stock/42/deduct", post(deduct)).layer(Extension(locks)).with_state(db)
        })
        .request(|| request("/stock/42/deduct"))
        .request(|| request("/stock/42/deduct"))
        .check(|db, _| db.adds_up())
        .run()
        .await;
    let text = outcome.to_string();
    let expected = "\
race: 2 requests, 8 schedules, 4 break the check
  A POST /stock/42/deduct   step 2 of 3, after `SELECT quantity FROM stock WHERE sku = '42'`   held here
  B POST /stock/42/deduct   ran to its end: 200
  A                         went on: 200
  check: false
  No request takes a lock. Guard what has to happen alone: #[distributed_lock(resource = \"..\")], or let the database do it.
the check holds: hang-up: none of 6 schedules
no request takes a lock
18 runs";
    assert_eq!(text, expected);
    let first = &outcome.broken[0];
    assert_eq!((first.question, first.request, first.step), (Question::Race, 0, Some(2)));
    assert_eq!(first.place.as_deref(), Some("after `SELECT quantity FROM stock WHERE sku = '42'`"));
    let refused = std::panic::catch_unwind(|| outcome.assert_holds()).unwrap_err();
    assert_eq!(refused.downcast_ref::<String>().unwrap(), &text);
}

#[tokio::test]
async fn the_shortest_schedule_is_told_first() {
    async fn sell(db: Db, before: usize) {
        for _ in 0..before {
            payment().await;
        }
        let stock = db.stock().await;
        db.sell(stock - 1).await;
    }
    let trial = Trial::new(|| async { Db::default() })
        .tasks(1, |_, db| sell(db, 5))
        .tasks(1, |_, db| sell(db, 0))
        .check(|db, _| db.adds_up())
        .only([Question::Race]);
    let outcome = trial.run().await;
    let first = &outcome.broken[0];
    assert_eq!((first.request, first.step), (1, Some(2)), "{outcome}");
    let steps: Vec<_> = outcome.broken.iter().map(|schedule| schedule.step).collect();
    assert!(steps.len() > 1 && steps.is_sorted(), "{steps:?}");
    assert!(outcome.to_string().contains("\n  B task   step 2 of 2   held here\n"), "{outcome}");
}

#[test]
fn a_service_has_no_code_of_trials() {
    // What a service depends on: nothing turns the feature on.
    let tree = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", "quickstart", "-e", "features,normal", "--prefix", "none", "-f", "{p} {f}"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    assert!(tree.contains("lock-axum") && tree.contains("lock-core feature"), "{tree}");
    assert!(!tree.contains("testing"), "{tree}");
    // And the code is there with the feature alone.
    let library = include_str!("../../../../lock-axum/src/lib.rs");
    assert!(library.contains("#[cfg(feature = \"testing\")]\npub mod testing;"));
    let builder = include_str!("../../../../lock-core/src/manager/builder/mod.rs");
    assert!(builder.contains("#[cfg(feature = \"testing\")]\nmod testing;"));
}
