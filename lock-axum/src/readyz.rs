use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use lock_core::masters::NotReady;
use lock_core::{LockManager, Mutex};
use tokio::time::{Instant, timeout_at};

use crate::problem::{Problem, UNAVAILABLE};

/// How long an answer is used again.
const MAX_AGE: Duration = Duration::from_secs(1);

/// How long an answer is awaited before the masters are asked again. They take three seconds at most, unless the runtime that hears from
/// them does not run.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(4);

/// What the masters are asked, or were last. All requests of that time poll it, each on its own runtime: no other one can keep the answer
/// from them.
#[derive(Clone)]
struct Question {
    asked: Instant,
    /// What they said, and when.
    answer: Shared<BoxFuture<'static, (Instant, Result<(), NotReady>)>>,
}

impl Question {
    fn ask(locks: LockManager) -> Self {
        let answer = async move {
            let ready = locks.ready().await;
            (Instant::now(), ready)
        };
        Self { asked: Instant::now(), answer: answer.boxed().shared() }
    }

    /// Whether its answer is recent, or may still come.
    fn is_of_use(&self) -> bool {
        match self.answer.peek() {
            Some((at, _)) => at.elapsed() < MAX_AGE,
            None => self.asked.elapsed() < MAX_WAIT,
        }
    }
}

/// Answers readiness probes: 200 if locks can be acquired, otherwise 503 with the reason as a problem document of the type
/// `lock-unavailable`.
///
/// It asks a majority of the masters to grant a lock that nobody else can ask for, as [`LockManager::ready`] describes. So a service
/// is not ready if its masters answer but refuse to write, nor once its manager is closed.
///
/// It is cheap to call often: an answer is at most a second old, and everyone who asks meanwhile gets the same one. It takes a
/// round trip or two if a majority answers, and at most three seconds if none does; up to seven if the runtime of an earlier request is
/// blocked meanwhile.
///
/// The reason has the addresses of the masters, without passwords. Keep the route away from the public if they are a secret.
///
/// # Examples
///
/// ```
/// use axum::Router;
/// use lock_axum::{LockManager, readyz};
///
/// let locks = LockManager::in_memory();
/// let app: Router = Router::new().route("/readyz", readyz(locks.clone()));
/// ```
pub fn readyz<S>(locks: LockManager) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    let last = Arc::new(Mutex::new(None));
    get(move || answer(locks.clone(), Arc::clone(&last)))
}

async fn answer(locks: LockManager, last: Arc<Mutex<Option<Question>>>) -> Response {
    let ready = loop {
        let Question { asked, answer } = present(&locks, &last);
        if let Ok((_, ready)) = timeout_at(asked + MAX_WAIT, answer).await {
            break ready;
        }
    };
    match ready {
        Ok(()) => "ready\n".into_response(),
        Err(reason) => Problem::unavailable(UNAVAILABLE, &reason.to_string(), MAX_AGE).into_response(),
    }
}

/// The question that others have asked already, or another one.
fn present(locks: &LockManager, last: &Mutex<Option<Question>>) -> Question {
    let mut last = last.lock();
    if let Some(question) = last.as_ref().filter(|question| question.is_of_use()) {
        return question.clone();
    }
    let question = Question::ask(locks.clone());
    // In a task, too, so that a probe that gives up leaves its answer to the next one.
    tokio::spawn(question.answer.clone());
    last.insert(question).clone()
}
