use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tracing::Span;
use tracing::field::Empty;

use super::{AcquireBegan, AcquireEnded, AcquireOutcome, AttemptBegan, Reporter};
use crate::error::{LockError, Vote};
use crate::options::LockOptions;

/// One acquisition, from the call to its end. Dropped before it was [ended](Self::end), it was cancelled.
pub(crate) struct Acquiring<'a> {
    reporter: &'a Reporter,
    template: &'a str,
    started: Instant,
    outcome: AcquireOutcome,
    /// The caller's span: of its request, usually.
    caller: Span,
    /// `lock.acquire`.
    span: Span,
    attempts: Mutex<Attempts>,
}

/// What the span is told of the attempts.
#[derive(Default)]
struct Attempts {
    made: u64,
    /// The votes of the last one.
    votes: Option<Votes>,
}

#[derive(Default)]
struct Votes {
    granted: u64,
    held: u64,
    failed: u64,
    pending: u64,
}

impl<'a> Acquiring<'a> {
    pub(crate) fn begin(reporter: &'a Reporter, resource: &str, options: &'a LockOptions) -> Self {
        let template = options.template();
        reporter.report(|observer| observer.acquire_began(&AcquireBegan { template }));
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
            waited = Empty,
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

    /// The span `lock.acquire`.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// The span in which the caller asked for the lock.
    pub(crate) fn caller(&self) -> &Span {
        &self.caller
    }

    /// The nodes are asked.
    pub(crate) fn attempt_began(&self) {
        self.reporter.report(|observer| observer.attempt_began(&AttemptBegan { template: self.template }));
        if !self.span.is_disabled() {
            self.attempts().made += 1;
        }
    }

    /// The nodes have voted.
    pub(crate) fn attempt_ended(&self, votes: &[Vote]) {
        if !self.span.is_disabled() {
            self.attempts().votes = Some(Votes::count(votes));
        }
    }

    /// The caller has the lock, or is told why not.
    pub(crate) fn end(mut self, error: Option<&LockError>) {
        self.outcome = AcquireOutcome::of(error);
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes the span.
    fn record(&self) {
        let Attempts { made, votes } = &*self.attempts();
        self.span.record("attempts", made);
        if let Some(Votes { granted, held, failed, pending }) = votes {
            self.span.record("granted", granted).record("held", held);
            self.span.record("failed", failed).record("pending", pending);
        }
        self.span.record("waited", tracing::field::debug(self.started.elapsed()));
        self.span.record("outcome", self.outcome.as_str());
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        let Self { template, outcome, .. } = *self;
        self.reporter.report(|observer| {
            observer.acquire_ended(&AcquireEnded { template, outcome, waited: self.started.elapsed() });
        });
        if !self.span.is_disabled() {
            self.record();
        }
    }
}

impl Votes {
    fn count(votes: &[Vote]) -> Self {
        let mut count = Self::default();
        for vote in votes {
            *match vote {
                Vote::Granted { .. } => &mut count.granted,
                Vote::Failed(_) | Vote::NotALock => &mut count.failed,
                Vote::Pending => &mut count.pending,
                Vote::Held { .. } => &mut count.held,
            } += 1;
        }
        count
    }
}
