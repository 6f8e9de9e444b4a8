//! What cannot be tried is told by name, and never a hang.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lock_axum::LockManager;
use lock_axum::testing::{Problem, Question, Trial, post, step};
use tokio::task::yield_now;

type Tasks = Trial<()>;

fn trial() -> Tasks {
    Trial::new(|| async {})
}

fn sound(trial: Tasks) -> Tasks {
    trial.check(|(), _| async { true })
}

async fn no_database() {
    panic!("no database");
}

async fn no_table() -> bool {
    panic!("no table");
}

async fn on_purpose() {
    step("before the panic").await;
    panic!("on purpose");
}

async fn problem(trial: Tasks) -> Problem {
    let began = Instant::now();
    let outcome = trial.run().await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(!outcome.holds());
    let text = outcome.to_string();
    assert!(text.contains(&outcome.problems[0].to_string()), "{text}");
    outcome.problems[0].clone()
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let task = |_, ()| async {};
    assert!(matches!(problem(sound(trial())).await, Problem::NoRequest));
    assert!(matches!(problem(trial().tasks(2, task)).await, Problem::NoCheck));
    assert!(matches!(problem(sound(trial().tasks(1, task))).await, Problem::OneRequest));
    assert!(matches!(problem(sound(trial().request(|| post("/")).tasks(1, task))).await, Problem::NoService));
    assert!(matches!(problem(sound(trial().tasks(2, task)).only([])).await, Problem::NoQuestion));
    let of_locks = [Question::Lost, Question::Frozen, Question::Unlocked];
    assert!(matches!(problem(sound(trial().tasks(2, task)).only(of_locks)).await, Problem::NoLock));
    sound(trial().tasks(1, |_, ()| step("held here"))).only([Question::HangUp]).run().await.assert_holds();
}

/// A service that is never pending would pass every trial.
#[tokio::test]
async fn requests_that_make_no_step_are_named() {
    let at_once = |_, ()| async {};
    assert!(matches!(problem(sound(trial().tasks(2, at_once))).await, Problem::NoStep));
    let outcome = sound(trial().tasks(1, |_, ()| step("held here")).tasks(1, at_once)).run().await;
    outcome.assert_holds();
    assert!(outcome.to_string().contains("\nB makes no step: it was never held, and ran as one piece\n"), "{outcome}");
}

#[tokio::test]
async fn limits_out_of_range_are_named() {
    let trial = || sound(trial().tasks(2, |_, ()| async {}));
    for (trial, name) in [
        (trial().max_steps(0), "max_steps must be between 1 and 4096, got 0"),
        (trial().max_time(Duration::from_secs(61)), "max_time must be between 100ms and 60s, got 61s"),
        (trial().tasks(9, |_, ()| async {}), "requests must be between 1 and 8, got 11"),
    ] {
        assert_eq!(problem(trial).await.to_string(), name);
    }
}

#[tokio::test]
async fn a_check_or_a_state_that_panics_or_never_ends_is_named() {
    let tasks = |trial: Tasks| trial.tasks(2, |_, ()| async {}).max_time(Duration::from_millis(200));
    let panicking = tasks(trial()).check(|(), _| no_table());
    assert!(matches!(problem(panicking).await, Problem::CheckPanicked { message, .. } if message == "no table"));
    let endless = tasks(trial()).check(|(), _| pending());
    assert!(matches!(problem(endless).await, Problem::CheckNeverEnds { .. }));
    let state = tasks(sound(Trial::new(no_database)));
    assert!(matches!(problem(state).await, Problem::StatePanicked(message) if message == "no database"));
    let never = tasks(sound(Trial::new(pending)));
    assert!(matches!(problem(never).await, Problem::StateNeverReady { .. }));
}

/// Whether requests take locks is known only when all have run.
#[tokio::test]
async fn what_ends_a_trial_early_says_nothing_of_locks() {
    let locking = trial().tasks(2, |locks, ()| async move { locks.lock("stock:42").acquire().await.map(drop) });
    let outcome = locking.check(|(), _| no_table()).run().await;
    assert!(matches!(outcome.problems[..], [Problem::CheckPanicked { .. }]), "{outcome}");
    assert!(!outcome.to_string().contains("no request takes a lock"), "{outcome}");
}

#[tokio::test]
async fn a_service_that_cannot_be_made_is_named_and_not_taken_for_one_that_holds() {
    // axum refuses a layer around no route at all.
    let app = |_, ()| axum::Router::new().route_layer(axum::Extension(()));
    let beside = || trial().service(app).request(|| post("/")).tasks(1, |_, ()| step("beside it"));
    let problem = problem(sound(beside())).await;
    assert!(matches!(&problem, Problem::ServicePanicked(message) if message.contains("route_layer")), "{problem}");
}

#[tokio::test]
async fn a_check_that_never_holds_is_told_from_a_race() {
    let wrong = trial().tasks(2, |_, ()| async {}).check(|(), _| async { false });
    let problem = problem(wrong).await;
    assert!(matches!(problem, Problem::NeverHolds { .. }), "{problem}");
}

#[tokio::test]
async fn a_request_that_never_ends_is_named_with_its_place() {
    let endless = trial().tasks(2, |_, ()| async {
        step("before the answer that never comes").await;
        pending::<()>().await;
    });
    let problem = problem(sound(endless).max_time(Duration::from_millis(300))).await;
    let text = problem.to_string();
    assert!(matches!(problem, Problem::Stuck { .. }), "{text}");
    assert!(text.contains("before the answer that never comes") && text.contains("does not end"), "{text}");
}

#[tokio::test]
async fn a_loop_of_steps_ends_with_the_bound() {
    let many = trial().tasks(2, |_, ()| async {
        for _ in 0..100 {
            step("again").await;
        }
    });
    let problem = problem(sound(many).only([Question::HangUp])).await;
    assert!(matches!(problem, Problem::MoreSteps { request: 0, bound: 64 }), "{problem}");
}

#[tokio::test]
async fn a_request_may_have_as_many_steps_as_the_bound() {
    for (steps, bound) in [(3, 3), (4, 3)] {
        let many = trial().tasks(2, move |_, ()| async move {
            for _ in 0..steps {
                step("again").await;
            }
        });
        let outcome = sound(many).max_steps(bound).only([Question::HangUp]).run().await;
        assert_eq!(outcome.holds(), steps <= bound, "{outcome}");
    }
}

#[tokio::test]
async fn a_circle_of_locks_is_stuck_and_told_at_once() {
    async fn nested(locks: LockManager, names: [&'static str; 2]) -> bool {
        let _outer = locks.lock(names[0]).wait(Duration::from_secs(30)).acquire().await.unwrap();
        step("between the locks").await;
        locks.lock(names[1]).wait(Duration::from_secs(30)).acquire().await.is_ok()
    }
    let circle =
        trial().tasks(1, |locks, ()| nested(locks, ["a", "b"])).tasks(1, |locks, ()| nested(locks, ["b", "a"]));
    let problem = problem(sound(circle).only([Question::Race])).await;
    let text = problem.to_string();
    assert!(text.contains("waits for a lock that nobody releases"), "{text}");
}

#[tokio::test]
async fn a_request_that_no_handler_takes_is_named() {
    #[lock_axum::distributed_lock(resource = "r")]
    async fn sell() {}

    // The path is wrong; or the manager is in no extension of the router.
    for (path, answer) in [("/sells", "404"), ("/sell", "500")] {
        let request = move || post(path);
        let service = |_, ()| axum::Router::new().route("/sell", axum::routing::post(sell));
        let problem = problem(sound(trial().service(service).request(request).request(request))).await;
        assert!(matches!(&problem, Problem::Fails { request: 0, answer: told, .. } if told == answer), "{problem}");
    }
    // Not one that is refused in its turn, as what is sold out.
    async fn sold_out() -> axum::http::StatusCode {
        step("nothing is left").await;
        axum::http::StatusCode::CONFLICT
    }
    let refused = |_, ()| axum::Router::new().route("/", axum::routing::post(sold_out));
    sound(trial().service(refused).request(|| post("/")).request(|| post("/"))).run().await.assert_holds();
}

#[tokio::test]
async fn a_handler_that_panics_is_an_answer() {
    let outcome = trial()
        .tasks(2, |_, ()| on_purpose())
        .check(|(), answers| async move { answers.iter().all(|answer| answer.text() == "on purpose") })
        .only([Question::Race])
        .run()
        .await;
    outcome.assert_holds();
}

/// A clone that panics, unless it is the first.
struct NoClone;

impl Clone for NoClone {
    fn clone(&self) -> Self {
        panic!("no clone")
    }
}

#[tokio::test]
async fn a_panic_of_the_program_is_never_one_of_the_trial() {
    let outcome = Trial::new(|| async { NoClone }).tasks(2, |_, _| async {}).check(|_, _| async { true }).run().await;
    assert!(matches!(&outcome.problems[..], [Problem::StatePanicked(message)] if message == "no clone"), "{outcome}");

    // Once for its label, when it is added.
    let made = std::sync::atomic::AtomicU32::new(0);
    let request = move || {
        assert_eq!(made.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0, "made twice");
        post("/")
    };
    let outcome = trial()
        .service(|_, ()| axum::Router::new())
        .request(request)
        .check(|(), answers| async move { answers[0].is_hung_up() || answers[0].text().contains("made twice") })
        .only([Question::HangUp])
        .run()
        .await;
    // It comes to no step.
    assert!(outcome.broken.is_empty() && matches!(&outcome.problems[..], [Problem::NoStep]), "{outcome}");
}

#[tokio::test]
async fn a_destructor_that_panics_leaves_the_outcome() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    let endless = trial().tasks(2, |_, ()| async {
        let _bomb = Bomb;
        pending::<()>().await;
    });
    let problem = problem(sound(endless).max_time(Duration::from_millis(200))).await;
    assert!(matches!(problem, Problem::Stuck { .. }), "{problem}");
}

#[tokio::test]
async fn all_requests_end_although_one_makes_fewer_steps_than_before() {
    let runs = AtomicUsize::new(0);
    // Only the runs that count the steps see all of them.
    let state = move || ready(if runs.fetch_add(1, Ordering::Relaxed) < 2 { 4 } else { 0 });
    let yields = |times| async move {
        for _ in 0..times {
            yield_now().await;
        }
    };
    let trial = Trial::new(state).tasks(1, move |_, times| yields(times)).tasks(1, move |_, _| yields(4));
    trial.check(|_, answers| async move { answers.len() == 2 }).run().await.assert_holds();
}
