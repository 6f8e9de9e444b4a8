//! Where a request stands: the last event or span of its future, or a [`step`] by hand.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use lock_core::Mutex;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// The fields that say best what was done, by rank: a message; what sqlx calls a statement; the resource of a lock.
const TELLING: [&str; 4] = ["message", "summary", "db.statement", "resource"];
/// How much of a message is kept, in characters.
const LONGEST: usize = 64;

thread_local! {
    /// The request that is being polled on this thread.
    static POLLED: RefCell<Option<Arc<Place>>> = const { RefCell::new(None) };
}

/// A step by hand: in a trial, the request can be held here, and `name` tells where that is. Outside of a trial, in tasks that a
/// request spawned, and without the feature `testing`, it does nothing.
///
/// For synchronous code that two threads may interleave in production: between two awaits, a trial runs it as one piece.
///
/// # Cancel safety
///
/// Nothing is lost if the future is dropped.
///
/// # Examples
///
/// ```
/// use lock_axum::testing::step;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let sold = std::sync::Mutex::new(3);
/// let before = *sold.lock().unwrap();
/// step("between read and write").await;
/// *sold.lock().unwrap() = before + 1;
/// # assert_eq!(*sold.lock().unwrap(), 4);
/// # }
/// ```
pub async fn step(name: &str) {
    let Some(place) = POLLED.with_borrow(Clone::clone) else { return };
    place.note(format!("step {name:?}"));
    let mut held = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut held, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What a request did last.
#[derive(Default)]
pub(super) struct Place(Mutex<Option<String>>);

impl Place {
    pub(super) fn last(&self) -> Option<String> {
        self.0.lock().clone()
    }

    fn note(&self, what: String) {
        *self.0.lock() = Some(what);
    }
}

/// Polls a request, and notes in `place` what its future logs.
pub(super) fn noting<T>(recorder: &Recorder, place: &Arc<Place>, poll: impl FnOnce() -> T) -> T {
    let outer = POLLED.replace(Some(Arc::clone(place)));
    let polled = tracing::dispatcher::with_default(&recorder.0, poll);
    POLLED.set(outer);
    polled
}

/// The subscriber of requests while they are polled.
pub(super) struct Recorder(Dispatch);

impl Recorder {
    pub(super) fn new() -> Self {
        Self(Dispatch::new(Notes { spans: AtomicU64::new(1) }))
    }
}

struct Notes {
    spans: AtomicU64,
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let name = span.metadata().name();
        // A span without a place in the code's course: it is open for as long as the lock is held.
        if name != "lock.hold" {
            let mut told = Told::default();
            span.record(&mut told);
            note(&told.best().map_or_else(|| name.to_owned(), |what| format!("{name} {what}")));
        }
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn event(&self, event: &Event<'_>) {
        let mut told = Told::default();
        event.record(&mut told);
        note(told.best().unwrap_or(event.metadata().name()));
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn note(what: &str) {
    let line: Vec<&str> = what.split_whitespace().collect();
    let mut short: String = line.join(" ").chars().take(LONGEST + 1).collect();
    if short.chars().count() > LONGEST {
        short = short.chars().take(LONGEST).chain("…".chars()).collect();
    }
    POLLED.with_borrow(|polled| polled.as_ref().inspect(|place| place.note(format!("after `{short}`"))).is_some());
}

/// The fields that may say what was done.
#[derive(Default)]
struct Told([Option<String>; TELLING.len()]);

impl Told {
    fn best(&self) -> Option<&str> {
        self.0.iter().flatten().map(String::as_str).find(|told| !told.is_empty())
    }
}

impl Visit for Told {
    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(rank) = TELLING.iter().position(|name| *name == field.name()) {
            self.0[rank] = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
