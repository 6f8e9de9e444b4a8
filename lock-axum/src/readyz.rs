use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get};
use lock_core::masters::NotReady;
use lock_core::{LockManager, Mutex};

use crate::problem::{Problem, UNAVAILABLE};
use crate::question::Question;

/// How long an answer is used again.
const MAX_AGE: Duration = Duration::from_secs(1);

type IsReady = Question<Result<(), NotReady>>;

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
/// The reason names the addresses of the masters, without passwords. Do not expose the route to the public if those are secret.
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

async fn answer(locks: LockManager, last: Arc<Mutex<Option<IsReady>>>) -> Response {
    let ready = loop {
        if let Some(ready) = present(&locks, &last).answer().await {
            break ready;
        }
    };
    match ready {
        Ok(()) => "ready\n".into_response(),
        Err(reason) => Problem::unavailable(UNAVAILABLE, &reason.to_string(), MAX_AGE).into_response(),
    }
}

/// The question that others have asked already, or another one.
fn present(locks: &LockManager, last: &Mutex<Option<IsReady>>) -> IsReady {
    let mut last = last.lock();
    if let Some(question) = last.as_ref().filter(|question| question.is_of_use(MAX_AGE)) {
        return question.clone();
    }
    let locks = locks.clone();
    last.insert(Question::ask(async move { locks.ready().await })).clone()
}
