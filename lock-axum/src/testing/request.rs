//! A request that the trial polls itself, and can hold at any of its steps.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use lock_core::Mutex;
use tokio::task::unconstrained;

use super::answer::Answer;
use super::instance::Instance;
use super::place::{Place, Recorder, noting};

/// What a request does, from its first poll to its answer.
pub(super) type Work = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A request under way.
pub(super) struct Request {
    /// `None` once it has ended, or was hung up.
    work: Option<Work>,
    pub(super) answer: Option<Answer>,
    pub(super) instance: Instance,
    /// How often it was pending.
    pub(super) steps: usize,
    /// What its future did last.
    pub(super) place: Arc<Place>,
    wakeup: Arc<Wakeup>,
}

impl Request {
    pub(super) fn new(work: Work, instance: Instance) -> Self {
        let wakeup = Arc::new(Wakeup { came: AtomicBool::new(true), trial: Mutex::new(None) });
        // Polled without tokio's budget: with it, a future is pending now and then although nothing is missing.
        let work: Work = Box::pin(unconstrained(work));
        Self { work: Some(work), answer: None, instance, steps: 0, place: Arc::default(), wakeup }
    }

    pub(super) fn is_running(&self) -> bool {
        self.work.is_some()
    }

    /// Makes one step if a wake-up came; or else asks for `cx` to be woken by the next. Returns whether it did.
    pub(super) fn poll_step(&mut self, cx: &mut Context<'_>, recorder: &Recorder) -> bool {
        let Some(work) = &mut self.work else { return false };
        self.wakeup.pass_on_to(cx.waker());
        if !self.wakeup.came.swap(false, Ordering::AcqRel) {
            return false;
        }
        let waker = Waker::from(Arc::clone(&self.wakeup));
        let mut inner = Context::from_waker(&waker);
        let polled =
            noting(recorder, &self.place, || catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut inner))));
        match polled {
            Ok(Poll::Pending) => self.steps += 1,
            Ok(Poll::Ready(answer)) => self.end(answer),
            Err(panic) => self.end(Answer::panicked(&*panic)),
        }
        self.instance.look();
        true
    }

    /// The client goes: the future is dropped where it stands.
    pub(super) fn hang_up(&mut self, recorder: &Recorder) {
        noting(recorder, &Arc::clone(&self.place), || self.end(Answer::hung_up()));
    }

    fn end(&mut self, answer: Answer) {
        self.answer = Some(answer);
        self.end_work();
    }

    /// A destructor that panics ends the request, and not the trial.
    fn end_work(&mut self) {
        let work = self.work.take();
        _ = catch_unwind(AssertUnwindSafe(|| drop(work)));
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.end_work();
    }
}

/// Keeps a wake-up that comes while the request is held, and wakes the trial for one that is not.
struct Wakeup {
    came: AtomicBool,
    trial: Mutex<Option<Waker>>,
}

impl Wakeup {
    fn pass_on_to(&self, waker: &Waker) {
        let mut trial = self.trial.lock();
        if !trial.as_ref().is_some_and(|present| present.will_wake(waker)) {
            *trial = Some(waker.clone());
        }
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.came.store(true, Ordering::Release);
        let trial = self.trial.lock().clone();
        if let Some(trial) = trial {
            trial.wake();
        }
    }
}
