//! What blocks its thread cannot be ended: the process says what it was, and aborts. Each test runs itself again as such a process.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lock_axum::testing::{Question, Trial, step};
use tokio::task::yield_now;

const THE_PROCESS: &str = "TRIAL_THAT_BLOCKS";

type Flag = Arc<AtomicBool>;

fn block() -> bool {
    loop {
        thread::park();
    }
}

/// Runs a trial in a process of its own, which has to abort, and returns what it wrote to its standard error.
fn aborts(test: &str, trial: fn() -> Trial<Flag>) -> String {
    if std::env::var_os(THE_PROCESS).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(trial().max_time(Duration::from_millis(200)).run());
        unreachable!("it came to an end: {outcome}");
    }
    let began = Instant::now();
    let mut process = Command::new(std::env::current_exe().unwrap());
    let output = process.args(["--exact", test]).env(THE_PROCESS, "1").output().unwrap();
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.signal(), Some(6), "{text}");
    assert!(text.contains("a trial has hung for 2s"), "{text}");
    text
}

fn tasks() -> Trial<Flag> {
    Trial::new(|| async { Flag::default() }).check(|_, _| async { true })
}

#[test]
fn a_request_that_blocks_its_thread_is_named_with_its_place() {
    /// A mutex of the standard library that is held across an await.
    async fn in_turn(is_locked: Flag) {
        step("before the mutex").await;
        while is_locked.swap(true, Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        step("under the mutex").await;
        is_locked.store(false, Ordering::SeqCst);
    }
    let trial = || tasks().tasks(2, |_, is_locked| in_turn(is_locked)).only([Question::Race]);
    let text = aborts("blocking::a_request_that_blocks_its_thread_is_named_with_its_place", trial);
    let told = "\
a request that blocks its thread. Nothing can end that from outside, so the process is aborted.
race:
  A task   step 2, step \"under the mutex\"
  B task   step 1, step \"before the mutex\"   blocks after it
";
    assert!(text.contains(told), "{text}");
}

#[test]
fn a_request_that_never_comes_to_its_first_await_is_named() {
    let trial = || {
        tasks().tasks(1, |_, _| async { yield_now().await }).tasks(1, |_, _| async {
            tracing::info!("asked a library that blocks");
            block();
        })
    };
    let text = aborts("blocking::a_request_that_never_comes_to_its_first_await_is_named", trial);
    assert!(text.contains("\none after another:\n  A task   has ended\n"), "{text}");
    assert!(
        text.contains("  B task   before its first step, after `asked a library that blocks`   blocks\n"),
        "{text}"
    );
}

#[test]
fn a_task_that_blocks_the_runtime_is_told_from_a_request() {
    let trial = || {
        tasks().tasks(2, |_, _| async {
            tokio::spawn(async { block() });
            yield_now().await;
        })
    };
    let text = aborts("blocking::a_task_that_blocks_the_runtime_is_told_from_a_request", trial);
    assert!(text.contains("a task that blocks its thread of the runtime"), "{text}");
    assert!(text.contains("A task   step 1\n  B task   has not begun"), "{text}");
}

#[test]
fn a_check_that_blocks_is_named() {
    let trial = || tasks().tasks(2, |_, _| async {}).check(|_, _| async { block() });
    let text = aborts("blocking::a_check_that_blocks_is_named", trial);
    assert!(text.contains("the check, which blocks its thread"), "{text}");
}

#[test]
fn a_state_that_blocks_is_named() {
    let trial =
        || Trial::new(|| async { Flag::new(block().into()) }).check(|_, _| async { true }).tasks(2, |_, _| async {});
    let text = aborts("blocking::a_state_that_blocks_is_named", trial);
    assert!(text.contains("making the state, which blocks its thread"), "{text}");
}

/// It is slow, and no more than that: a poll that takes longer than a run may is waited for.
#[tokio::test]
async fn a_request_that_blocks_for_a_while_is_waited_for() {
    let slow = |_, _: Flag| async {
        thread::sleep(Duration::from_millis(250));
        yield_now().await;
    };
    tasks().tasks(2, slow).only([Question::HangUp]).max_time(Duration::from_millis(100)).run().await.assert_holds();
}
