//! Says which request blocks its thread, and ends the process: a thread that is blocked cannot be ended from outside.

use std::future::poll_fn;
use std::io::Write as _;
use std::pin::pin;
use std::sync::{Arc, Condvar, PoisonError};
use std::time::Duration;

use lock_core::Mutex;

use super::place::Place;
use super::question::Question;
use super::request::Request;
use super::schedule::letter;

/// How many times the time of a run may pass in which nothing of the trial is polled.
const TIMES: u32 = 10;
/// How often the watchdog looks in that time. What counts are looks: a machine that is suspended, and a debugger, stop them, too.
const LOOKS: u32 = 100;

/// Watches a trial from a thread of its own, which ends when this is dropped.
pub(super) struct Watchdog(Arc<Watched>);

#[derive(Default)]
struct Watched {
    seen: Mutex<Seen>,
    over: Condvar,
}

#[derive(Default)]
struct Seen {
    is_over: bool,
    /// How many looks there were since the trial was polled last.
    looks: u32,
    doing: Doing,
    question: Option<Question>,
    requests: Vec<Watchee>,
}

/// What the trial is about to call.
#[derive(Clone, Copy, Default)]
pub(super) enum Doing {
    /// Nothing of the program: it waits.
    #[default]
    Waiting,
    State,
    Request(usize),
    Check,
}

/// A request as far as it came.
struct Watchee {
    label: String,
    place: Arc<Place>,
    steps: usize,
    has_ended: bool,
}

impl Watchdog {
    pub(super) fn start(max_time: Duration) -> Self {
        let watched = Arc::new(Watched::default());
        let limit = max_time * TIMES;
        let watch = {
            let watched = Arc::clone(&watched);
            move || watched.watch(limit)
        };
        // Where no thread can be had, the trial is as good without one, unless a request blocks.
        _ = std::thread::Builder::new().name("trial-watchdog".to_owned()).spawn(watch);
        Self(watched)
    }

    /// The output of `work`. Each time it is polled is a sign that nothing blocks.
    pub(super) async fn watch<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.0.seen.lock().looks = 0;
            let polled = work.as_mut().poll(cx);
            self.0.seen.lock().looks = 0;
            polled
        })
        .await
    }

    /// Another run begins.
    pub(super) fn begin(&self, question: Option<Question>) {
        let mut seen = self.0.seen.lock();
        seen.question = question;
        seen.requests.clear();
    }

    pub(super) fn add(&self, label: &str, request: &Request) {
        let (label, place) = (label.to_owned(), Arc::clone(&request.place));
        self.0.seen.lock().requests.push(Watchee { label, place, steps: 0, has_ended: false });
    }

    /// Calls what may block.
    pub(super) fn during<T>(&self, doing: Doing, call: impl FnOnce() -> T) -> T {
        self.0.seen.lock().doing = doing;
        let done = call();
        self.0.seen.lock().doing = Doing::Waiting;
        done
    }

    /// As [`during`](Self::during), of a request.
    pub(super) fn request<T>(&self, index: usize, request: &mut Request, call: impl FnOnce(&mut Request) -> T) -> T {
        let done = self.during(Doing::Request(index), || call(request));
        if let Some(watchee) = self.0.seen.lock().requests.get_mut(index) {
            (watchee.steps, watchee.has_ended) = (request.steps, !request.is_running());
        }
        done
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.seen.lock().is_over = true;
        self.0.over.notify_one();
    }
}

impl Watched {
    fn watch(&self, limit: Duration) {
        let mut seen = self.seen.lock();
        while !seen.is_over {
            let waited = self.over.wait_timeout_while(seen, limit / LOOKS, |seen| !seen.is_over);
            seen = waited.unwrap_or_else(PoisonError::into_inner).0;
            seen.looks += 1;
            if seen.looks > LOOKS && !seen.is_over {
                // Not by a macro for printing: what these print is kept by the test, which does not come to its end.
                _ = std::io::stderr().write_all(seen.tell(limit).as_bytes());
                std::process::abort();
            }
        }
    }
}

impl Seen {
    fn tell(&self, limit: Duration) -> String {
        let what = match self.doing {
            Doing::Waiting => "a task that blocks its thread of the runtime",
            Doing::State => "making the state, which blocks its thread",
            Doing::Request(_) => "a request that blocks its thread",
            Doing::Check => "the check, which blocks its thread",
        };
        let question = self.question.map_or_else(|| "one after another".to_owned(), |question| question.to_string());
        let mut told = format!(
            "\na trial has hung for {limit:?} (10 times .max_time) in {what}. Nothing can end that from outside, so the process is aborted.\n{question}:\n"
        );
        for (index, request) in self.requests.iter().enumerate() {
            let Watchee { label, place, steps, has_ended } = request;
            let blocks = matches!(self.doing, Doing::Request(polled) if polled == index);
            let place = place.last().map(|place| format!(", {place}")).unwrap_or_default();
            let (stands, what) = match (steps, blocks) {
                _ if *has_ended => ("has ended".to_owned(), ""),
                (0, false) => ("has not begun".to_owned(), ""),
                (0, true) => (format!("before its first step{place}"), "   blocks"),
                (_, _) => (format!("step {steps}{place}"), if blocks { "   blocks after it" } else { "" }),
            };
            told.push_str(&format!("  {} {label}   {stands}{what}\n", letter(index)));
        }
        told
    }
}
