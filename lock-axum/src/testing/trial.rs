use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{Request, StatusCode};
use lock_core::LockManager;
use tower_service::Service;

use super::answer::{Answer, panic_message};
use super::problem::Problem;
use super::question::Question;
use super::request::Work;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type State<S> = dyn Fn() -> BoxFuture<S> + Send + Sync;
type Check<S> = dyn Fn(S, Vec<Answer>) -> BoxFuture<bool> + Send + Sync;
/// The response of a new instance, or what a panic said that kept it from being made.
pub(super) type Instances<S> =
    dyn Fn(LockManager, S, Request<Body>) -> BoxFuture<Result<Response, String>> + Send + Sync;
/// Begins with a new instance, if there is a service. What may panic is called when the work is polled.
type Begin<S> = dyn Fn(Option<&Arc<Instances<S>>>, LockManager, S) -> Work + Send + Sync;

/// Runs requests against a service in every order of their steps that matters, and says in which of them a check is false.
///
/// A request is a future that the trial polls itself. Each time it is pending is a *step*: the handler waits there for a database, another
/// service, or a lock. Each schedule is a run of its own, with fresh state, masters in memory, and an instance of the service with its own
/// [`LockManager`] for each request. See [`Question`] for what the schedules are.
///
/// # What it needs
///
/// - a tokio runtime with timers, of either flavor, with its clock running or paused;
/// - real I/O may be used: a SQLite file, a PostgreSQL server. State that is kept there has to be made again by the closure of
///   [`new`](Self::new), under a name that no other test uses;
/// - a service that is asked the same twice answers the same twice; otherwise schedules may be missed.
///
/// # What it does not see
///
/// - Between two awaits, code runs as one piece here, and two threads may interleave it in production: add a [`step`](super::step).
/// - Tasks that a request spawns run when they like. The check waits for them, up to the time of a run; in the first runs, in which the requests run
///   one after another, until none of them has ended for 500 ms: the tasks that are left are taken for those of the state.
/// - Work on blocking threads (`spawn_blocking`) is not counted. After a request was dropped, 20 ms are left to it, and a check that is false then is
///   asked again for 100 ms.
/// - A request that blocks its thread, or loops without an await, cannot be ended from outside. After ten times [`max_time`](Self::max_time) without
///   a poll, the process says on its standard error which request stood where, and aborts.
/// - A request that makes no step is never held, and the outcome names it. If none makes any, that is a [problem](super::Problem::NoStep).
/// - Where a question has two switches, the 24 shortest schedules of each pair of requests are tried. Of three or more requests, those that
///   are not held run in the order in which they were added.
/// - While a request is held, another one that makes no step for 100 ms (4 s under a paused clock) counts as waiting for it, although what it
///   awaits may only be slow.
/// - A lock that is left to its `ttl`, as after a delegation without an answer, has expired once all requests wait for locks and none holds one.
/// - While a request is polled, a subscriber of the trial receives its `tracing` events, and not that of the program.
///
/// # Examples
///
/// A handler that reads, waits, and writes. Two buyers read the same stock:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use axum::extract::State;
/// use axum::routing::post;
/// use axum::Router;
/// use lock_axum::testing::{Question, Trial, post as request};
///
/// async fn deduct(State(stock): State<Arc<AtomicU32>>) {
///     let quantity = stock.load(Ordering::SeqCst);
///     tokio::task::yield_now().await; // the payment
///     stock.store(quantity - 1, Ordering::SeqCst);
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let outcome = Trial::new(|| async { Arc::new(AtomicU32::new(100)) })
///     .service(|_locks, stock| Router::new().route("/deduct", post(deduct)).with_state(stock))
///     .request(|| request("/deduct"))
///     .request(|| request("/deduct"))
///     .check(|stock, _answers| async move { stock.load(Ordering::SeqCst) == 98 })
///     .run()
///     .await;
/// assert_eq!(outcome.broken[0].question, Question::Race);
/// println!("{outcome}");
/// # }
/// ```
#[must_use = "nothing is tried before run"]
pub struct Trial<S> {
    pub(super) state: Box<State<S>>,
    pub(super) service: Option<Arc<Instances<S>>>,
    pub(super) work: Vec<Tried<S>>,
    pub(super) check: Option<Box<Check<S>>>,
    pub(super) questions: Vec<Question>,
    pub(super) max_steps: usize,
    pub(super) max_time: Duration,
}

/// A request, or a task.
pub(super) struct Tried<S> {
    pub(super) label: String,
    pub(super) begin: Arc<Begin<S>>,
    needs_service: bool,
}

impl<S: Clone + Send + 'static> Trial<S> {
    /// A trial of what instances share: a pool of connections, a path, a store in memory. `state` makes a new one for each run; each
    /// instance gets a clone.
    pub fn new<F, Fut>(state: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = S> + Send + 'static,
    {
        Self {
            state: Box::new(move || Box::pin(state())),
            service: None,
            work: Vec::new(),
            check: None,
            questions: Question::ALL.to_vec(),
            max_steps: 64,
            max_time: Duration::from_secs(2),
        }
    }

    /// Makes one instance of the service, as the program does at its start: a `Router`, or any `Service<Request<Body>>`.
    pub fn service<F, Svc, R>(mut self, instance: F) -> Self
    where
        F: Fn(LockManager, S) -> Svc + Send + Sync + 'static,
        Svc: Service<Request<Body>, Response = R> + Send + 'static,
        Svc::Future: Send,
        Svc::Error: fmt::Display + Send,
        R: IntoResponse + Send,
    {
        let instance = Arc::new(instance);
        self.service = Some(Arc::new(move |locks, state, request| {
            let instance = Arc::clone(&instance);
            Box::pin(async move {
                let made = catch_unwind(AssertUnwindSafe(|| instance(locks, state)));
                let mut service = made.map_err(|panic| panic_message(&*panic))?;
                let answered = match poll_fn(|cx| service.poll_ready(cx)).await {
                    Ok(()) => service.call(request).await,
                    Err(error) => Err(error),
                };
                Ok(match answered {
                    Ok(response) => response.into_response(),
                    Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
                })
            })
        }));
        self
    }

    /// Adds a request. Two of the same are two clients, or one that repeats itself.
    ///
    /// A trial has no connection. A request that asks for another protocol on it, such as a WebSocket, is
    /// [`Problem::Upgrade`](super::Problem::Upgrade): try the work of its session with [`tasks`](Self::tasks).
    ///
    /// # Panics
    ///
    /// If `request` does.
    pub fn request(mut self, request: impl Fn() -> Request<Body> + Send + Sync + 'static) -> Self {
        let example = request();
        let label = format!("{} {}", example.method(), example.uri());
        let request = Arc::new(request);
        let begin = Arc::new(move |service: Option<&Arc<Instances<S>>>, locks, state| -> Work {
            let (service, request) = (service.cloned(), Arc::clone(&request));
            Box::pin(async move {
                let Some(service) = service else { return Answer::hung_up() };
                match service(locks, state, request()).await {
                    Ok(response) => Answer::read(response).await,
                    Err(message) => Answer::no_service(message),
                }
            })
        });
        self.work.push(Tried { label, begin, needs_service: true });
        self
    }

    /// Adds this many futures that are no handlers: jobs, consumers of messages. Each gets a manager of its own and a clone of the state.
    pub fn tasks<F, Fut>(mut self, count: usize, task: F) -> Self
    where
        F: Fn(LockManager, S) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: fmt::Debug,
    {
        let task = Arc::new(task);
        let begin: Arc<Begin<S>> = Arc::new(move |_, locks, state| {
            let task = Arc::clone(&task);
            Box::pin(async move { Answer::output(&task(locks, state).await) })
        });
        let tried = |_| Tried { label: "task".to_owned(), begin: Arc::clone(&begin), needs_service: false };
        self.work.extend((0..count).map(tried));
        self
    }

    /// What has to be true when all requests have ended, in whatever order they ran. `answers` are in the order of the requests. It may be asked
    /// more than once about a run.
    pub fn check<F, Fut>(mut self, check: F) -> Self
    where
        F: Fn(S, Vec<Answer>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = bool> + Send + 'static,
    {
        self.check = Some(Box::new(move |state, answers| Box::pin(check(state, answers))));
        self
    }

    /// Asks only some questions, at least one. Defaults to all.
    pub fn only(mut self, questions: impl IntoIterator<Item = Question>) -> Self {
        self.questions = questions.into_iter().collect();
        self
    }

    /// At how many of its steps a request is held, from 1 to 4096. Defaults to 64.
    pub fn max_steps(mut self, steps: usize) -> Self {
        self.max_steps = steps;
        self
    }

    /// How long each part of a run may take, from 100 ms to a minute of real time: making the state, the requests, what they left behind, and the
    /// check. Defaults to 2 s. Time in which a busy or suspended machine does not run the trial counts little, so that slowness raises no alarm.
    ///
    /// After ten times as long without a poll, the process is aborted: something blocks its thread.
    pub fn max_time(mut self, time: Duration) -> Self {
        self.max_time = time;
        self
    }

    /// What is wrong with the settings.
    pub(super) fn invalid(&self) -> Option<Problem> {
        let needs_others = self.questions.iter().any(|question| *question != Question::HangUp);
        let (shortest, longest) = (Duration::from_millis(100), Duration::from_secs(60));
        let out_of_range = |field, value: &dyn fmt::Debug, least: &dyn fmt::Debug, most: &dyn fmt::Debug| {
            let [value, least, most] = [value, least, most].map(|number| format!("{number:?}"));
            Some(Problem::OutOfRange { field, value, least, most })
        };
        match self {
            _ if self.work.is_empty() => Some(Problem::NoRequest),
            _ if self.service.is_none() && self.work.iter().any(|tried| tried.needs_service) => {
                Some(Problem::NoService)
            }
            _ if self.check.is_none() => Some(Problem::NoCheck),
            _ if self.questions.is_empty() => Some(Problem::NoQuestion),
            _ if self.work.len() == 1 && needs_others => Some(Problem::OneRequest),
            _ if self.work.len() > 8 => out_of_range("requests", &self.work.len(), &1, &8),
            _ if !(1..=4096).contains(&self.max_steps) => out_of_range("max_steps", &self.max_steps, &1, &4096),
            _ if !(shortest..=longest).contains(&self.max_time) => {
                out_of_range("max_time", &self.max_time, &shortest, &longest)
            }
            _ => None,
        }
    }
}

/// A POST without a body, for [`Trial::request`].
///
/// # Panics
///
/// If `path` is no valid URI.
#[must_use]
#[expect(clippy::expect_used, reason = "documented: it is a literal in a test")]
pub fn post(path: impl AsRef<str>) -> Request<Body> {
    Request::post(path.as_ref()).body(Body::empty()).expect("the path is a valid URI")
}

/// A GET, for [`Trial::request`].
///
/// # Panics
///
/// If `path` is no valid URI.
#[must_use]
#[expect(clippy::expect_used, reason = "documented: it is a literal in a test")]
pub fn get(path: impl AsRef<str>) -> Request<Body> {
    Request::get(path.as_ref()).body(Body::empty()).expect("the path is a valid URI")
}
