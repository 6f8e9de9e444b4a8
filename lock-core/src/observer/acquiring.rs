use tokio::time::Instant;
use tracing::Span;
use tracing::field::Empty;

use super::{AcquireOutcome, LockEvent, Reporter};
use crate::error::{LockError, Vote};
use crate::log_event::milliseconds;
use crate::mutex::Mutex;
use crate::options::LockOptions;

/// One acquisition, from the call to its end. Dropped before it was [ended](Self::end), it was cancelled.
pub(crate) struct Acquiring<'a> {
    reporter: &'a Reporter,
    template: &'a str,
    /// When the caller asked for the lock.
    pub(crate) started: Instant,
    outcome: AcquireOutcome,
    /// The caller's span: of its request, usually.
    pub(crate) caller: Span,
    /// `lock.acquire`.
    pub(crate) span: Span,
    attempts: Mutex<Attempts>,
}

/// What the span is told of the attempts.
#[derive(Default)]
struct Attempts {
    made: u64,
    /// How many of the [`VOTES`] there were in the last one.
    votes: Option<[u64; VOTES.len()]>,
}

/// The fields of the span that count votes.
const VOTES: [&str; 4] = ["granted", "held", "failed", "pending"];

impl<'a> Acquiring<'a> {
    pub(crate) fn begin(reporter: &'a Reporter, resource: &str, options: &'a LockOptions) -> Self {
        let template = options.template();
        reporter.report(&LockEvent::AcquireBegan { template });
        let resource = reporter.shown(resource);
        let span = tracing::debug_span!(
            "lock.acquire",
            template,
            resource,
            attempts = Empty,
            granted = Empty,
            held = Empty,
            failed = Empty,
            pending = Empty,
            waited_ms = Empty,
            outcome = Empty
        );
        Self {
            reporter,
            template,
            started: Instant::now(),
            outcome: AcquireOutcome::Cancelled,
            caller: Span::current(),
            span,
            attempts: Mutex::default(),
        }
    }

    /// The nodes are asked.
    pub(crate) fn attempt_began(&self) {
        self.reporter.report(&LockEvent::AttemptBegan { template: self.template });
        if !self.span.is_disabled() {
            self.attempts.lock().made += 1;
        }
    }

    /// The nodes have voted.
    pub(crate) fn attempt_ended(&self, votes: &[Vote]) {
        if !self.span.is_disabled() {
            let mut counts = [0; VOTES.len()];
            for vote in votes {
                counts[match vote {
                    Vote::Granted { .. } => 0,
                    Vote::Held { .. } | Vote::Free => 1,
                    Vote::Failed(_) | Vote::NotALock => 2,
                    Vote::Pending => 3,
                }] += 1;
            }
            self.attempts.lock().votes = Some(counts);
        }
    }

    /// The caller has the lock, or is told why not.
    pub(crate) fn end(mut self, error: Option<&LockError>) {
        self.outcome = AcquireOutcome::of(error);
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        let Self { template, outcome, started, .. } = *self;
        // The clock is not read if nobody is told.
        if self.reporter.is_observed() {
            self.reporter.report(&LockEvent::AcquireEnded { template, outcome, waited: started.elapsed() });
        }
        if self.span.is_disabled() {
            return;
        }
        let Attempts { made, votes } = &*self.attempts.lock();
        self.span.record("attempts", made);
        for (field, count) in votes.iter().flat_map(|counts| VOTES.iter().zip(counts)) {
            self.span.record(*field, count);
        }
        self.span.record("waited_ms", milliseconds(started.elapsed()));
        self.span.record("outcome", outcome.as_str());
    }
}
