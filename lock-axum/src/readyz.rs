use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get};
use lock_core::LockManager;
use lock_core::masters::NotReady;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::problem::{Problem, UNAVAILABLE};

/// How long an answer is used again.
const MAX_AGE: Duration = Duration::from_secs(1);

/// What the masters said last, and when.
type Last = Option<(Instant, Result<(), NotReady>)>;

/// Answers readiness probes: 200 if locks can be acquired, otherwise 503 with the reason as a problem document of the type
/// `lock-unavailable`.
///
/// It asks a majority of the masters to grant a lock that nobody else can ask for, as [`LockManager::ready`] describes. So a service
/// is not ready if its masters answer but refuse to write, nor once its manager is closed.
///
/// It is cheap to call often: an answer is at most a second old, and everyone who asks meanwhile gets the same one. It takes a
/// round trip or two if a majority answers, and at most three seconds if none does.
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

async fn answer(locks: LockManager, last: Arc<Mutex<Last>>) -> Response {
    // The first request asks the masters. All others wait for the mutex, and find the answer.
    let mut last = last.lock_owned().await;
    let ready = match &*last {
        Some((at, ready)) if at.elapsed() < MAX_AGE => ready.clone(),
        _ => {
            // In a task, so that a probe that gives up leaves its answer to the next one.
            let asking = tokio::spawn(async move {
                let ready = locks.ready().await;
                *last = Some((Instant::now(), ready.clone()));
                ready
            });
            // It does not end only if the runtime does.
            asking.await.unwrap_or(Err(NotReady::Closed))
        }
    };
    match ready {
        Ok(()) => "ready\n".into_response(),
        Err(reason) => Problem::unavailable(UNAVAILABLE, &reason.to_string(), MAX_AGE).into_response(),
    }
}
