//! Sound services that wait in unusual ways, and work that outlives its request: none is stuck, and the check comes after all of it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::routing::{MethodRouter, get as read, post};
use axum::{Extension, Router};
use lock_axum::testing::{Problem, Question, Trial, get, post as request, step};
use lock_axum::{Lease, distributed_lock};
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::sleep;

#[derive(Clone, Default)]
struct Shared {
    is_taken: Arc<AtomicBool>,
    done: Arc<AtomicU32>,
}

/// Takes a flag that a database might have, and tries again while another one has it.
async fn with_retries(shared: Shared, pause: Option<Duration>) {
    struct Free(Arc<AtomicBool>);
    impl Drop for Free {
        fn drop(&mut self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }
    while shared.is_taken.swap(true, Ordering::SeqCst) {
        match pause {
            Some(pause) => sleep(pause).await,
            None => yield_now().await,
        }
    }
    let free = Free(shared.is_taken);
    step("taken").await;
    shared.done.fetch_add(1, Ordering::SeqCst);
    step("done").await;
    drop(free);
}

#[tokio::test]
async fn a_request_that_tries_again_gives_way() {
    for pause in [Some(Duration::from_millis(10)), None] {
        let outcome = Trial::new(|| async { Shared::default() })
            .tasks(2, move |_, shared| with_retries(shared, pause))
            .check(|shared, _| async move { !shared.is_taken.load(Ordering::SeqCst) })
            .only([Question::Race])
            .max_time(Duration::from_secs(1))
            .run()
            .await;
        outcome.assert_holds();
    }
}

/// The one that is polled first spins until the other, which is ready, too, has made its step.
#[tokio::test]
async fn one_that_spins_leaves_the_others_their_turns() {
    let outcome = Trial::new(|| async { Shared::default() })
        .tasks(1, |_, shared| async move {
            step("before the others").await;
            while shared.done.load(Ordering::SeqCst) == 0 {
                yield_now().await;
            }
        })
        .tasks(1, |_, shared| async move {
            for _ in 0..3 {
                step("working").await;
            }
            shared.done.store(1, Ordering::SeqCst);
        })
        .check(|_, _| async { true })
        .only([Question::Race])
        .max_time(Duration::from_millis(400))
        .run()
        .await;
    // One after another, the first has nobody to wait for: that is said, and is no race.
    assert!(matches!(outcome.problems[..], [Problem::Stuck { .. }]), "{outcome}");

    let outcome = Trial::new(|| async { Shared::default() })
        .tasks(2, |_, shared| async move {
            // Each waits for the other, if that has begun.
            let begun = shared.done.fetch_add(1, Ordering::SeqCst);
            step("begun").await;
            while begun == 0 && shared.done.load(Ordering::SeqCst) == 2 {
                yield_now().await;
            }
            for _ in 0..3 {
                step("working").await;
            }
            shared.done.store(3, Ordering::SeqCst);
        })
        .check(|_, _| async { true })
        .only([Question::Race])
        .max_time(Duration::from_millis(400))
        .run()
        .await;
    outcome.assert_holds();
}

fn two_clients_of(handler: MethodRouter<Shared>) -> Trial<Shared> {
    Trial::new(|| async { Shared::default() })
        .service(move |locks, shared| {
            Router::new().route("/", handler.clone()).layer(Extension(locks)).with_state(shared)
        })
        .request(|| request("/"))
        .request(|| request("/"))
}

#[tokio::test]
async fn a_handler_that_finishes_without_its_client_releases_its_lock() {
    #[distributed_lock(resource = "stock:42", on_disconnect = "finish")]
    async fn handler(State(shared): State<Shared>) {
        sleep(Duration::from_millis(500)).await;
        shared.done.fetch_add(1, Ordering::SeqCst);
    }
    let outcome = two_clients_of(post(handler))
        .check(|shared, answers| async move {
            let sure = answers.iter().filter(|answer| answer.is_success()).count();
            let done = shared.done.load(Ordering::SeqCst) as usize;
            (sure..=2).contains(&done)
        })
        .only([Question::HangUp])
        .run()
        .await;
    outcome.assert_holds();
}

#[tokio::test]
async fn the_check_comes_after_work_that_was_spawned() {
    let outcome = Trial::new(|| async { Shared::default() })
        .tasks(2, |_, shared| async move {
            step("before the work").await;
            tokio::spawn(async move {
                sleep(Duration::from_millis(250)).await;
                shared.done.fetch_add(1, Ordering::SeqCst);
            });
        })
        .check(|shared, _| async move { shared.done.load(Ordering::SeqCst) == 2 })
        .only([Question::Race])
        .run()
        .await;
    outcome.assert_holds();
}

/// The lock of work that was spawned is asked for after the request's answer: the instance still runs then, as it would in production.
#[tokio::test]
async fn work_that_was_spawned_may_ask_for_a_lock_later() {
    let outcome = Trial::new(|| async { Shared::default() })
        .tasks(2, |locks, shared| async move {
            step("before the work").await;
            tokio::spawn(async move {
                sleep(Duration::from_millis(30)).await;
                let guard = locks.lock("stock:42").acquire().await.unwrap();
                let before = shared.done.load(Ordering::SeqCst);
                sleep(Duration::from_millis(10)).await;
                shared.done.store(before + 1, Ordering::SeqCst);
                guard.release().await.unwrap();
            });
        })
        .check(|shared, _| async move { shared.done.load(Ordering::SeqCst) == 2 })
        .only([Question::Race])
        .run()
        .await;
    outcome.assert_holds();
}

#[tokio::test]
async fn the_check_comes_after_work_on_a_blocking_thread() {
    let outcome = Trial::new(|| async { Shared::default() })
        .tasks(2, |_, shared| async move {
            let work = move || {
                shared.is_taken.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
                shared.is_taken.store(false, Ordering::SeqCst);
            };
            _ = spawn_blocking(work).await;
        })
        .check(|shared, _| async move { !shared.is_taken.load(Ordering::SeqCst) })
        .only([Question::HangUp])
        .run()
        .await;
    outcome.assert_holds();
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_passes_while_a_holder_finishes() {
    #[distributed_lock(resource = "stock:42", on_disconnect = "finish")]
    async fn handler(State(shared): State<Shared>) {
        sleep(Duration::from_secs(4)).await;
        shared.done.fetch_add(1, Ordering::SeqCst);
    }
    let outcome = two_clients_of(post(handler))
        .check(|shared, answers| async move {
            let sure = answers.iter().filter(|answer| answer.is_success() || answer.is_hung_up()).count();
            sure == 0 || shared.done.load(Ordering::SeqCst) > 0
        })
        .only([Question::HangUp])
        .run()
        .await;
    outcome.assert_holds();
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_success() {
    async fn broken() -> Body {
        step("before the body").await;
        let chunks = [Ok(Bytes::from_static(b"half of ")), Err(std::io::Error::other("the file is gone"))];
        Body::from_stream(tokio_stream::iter(chunks))
    }
    Trial::new(|| async {})
        .service(|_, ()| Router::new().route("/", read(broken)))
        .request(|| get("/"))
        .check(|(), answers| async move {
            let answer = &answers[0];
            let is_told = answer.to_string() == "200, and the body broke off: the file is gone";
            answer.is_hung_up() || is_told && !answer.is_success() && answer.status() == 200
        })
        .only([Question::HangUp])
        .run()
        .await
        .assert_holds();
}

/// As the service that was asked may be at work, the lock of a request whose client hung up meanwhile is not released: it expires.
#[tokio::test]
async fn the_lock_of_an_unanswered_delegation_is_waited_for_until_it_expires() {
    #[distributed_lock(resource = "stock:42", on_disconnect = "cancel")]
    async fn handler(State(shared): State<Shared>, lease: Lease) {
        let delegation = lease.delegate().create().unwrap();
        let asked = async {
            step("another service").await;
            Ok::<_, Infallible>(())
        };
        delegation.around(asked).await.unwrap();
        shared.done.fetch_add(1, Ordering::SeqCst);
    }
    let outcome = two_clients_of(post(handler))
        .check(|shared, answers| async move {
            let sure = answers.iter().filter(|answer| answer.is_success()).count();
            sure > 0 && shared.done.load(Ordering::SeqCst) as usize == sure
        })
        .only([Question::HangUp])
        .run()
        .await;
    outcome.assert_holds();
}

/// The same if the request fails: then all who come later wait, one after another.
#[tokio::test]
async fn the_lock_of_a_failed_delegation_is_waited_for_until_it_expires() {
    let outcome = Trial::new(|| async { Shared::default() })
        .tasks(3, |locks, shared| async move {
            let guard = locks.lock("stock:42").acquire().await.unwrap();
            shared.done.fetch_add(1, Ordering::SeqCst);
            let delegation = guard.lease().delegate().create().unwrap();
            let asked = async {
                step("another service").await;
                Err::<(), _>("no answer")
            };
            delegation.around(asked).await
        })
        .check(|shared, _| async move { shared.done.load(Ordering::SeqCst) == 3 })
        .max_time(Duration::from_secs(10))
        .only([Question::Unlocked])
        .run()
        .await;
    outcome.assert_holds();
}
