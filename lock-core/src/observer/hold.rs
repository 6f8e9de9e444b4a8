use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tracing::Span;
use tracing::field::{Empty, display};

use super::{HoldEnd, LockEvent, OTHER, RenewalOutcome, Reporter};
use crate::error::{LossReason, NodeError};
use crate::log_event::milliseconds;
use crate::mutex::Mutex;
use crate::options::LockOptions;
use crate::resource::Resource;
use crate::token::FencingToken;

/// One hold of a lock: what observers, spans and events say about it.
///
/// Its span is open as long as the lock is held, but nothing runs in it: what the holder does is in the holder's own span.
pub(crate) struct Hold {
    reporter: Arc<Reporter>,
    template: Option<Arc<str>>,
    resource: Resource,
    token: FencingToken,
    /// `None` once it has ended.
    spans: Mutex<Option<Spans>>,
    renewals: AtomicU64,
    /// Whether the last renewal had no verdict.
    is_unanswered: AtomicBool,
}

struct Spans {
    /// `lock.hold`.
    hold: Span,
    /// The one in which the lock was acquired.
    caller: Span,
}

impl Hold {
    pub(crate) fn begin(
        reporter: &Arc<Reporter>,
        resource: &Resource,
        options: &LockOptions,
        token: FencingToken,
        caller: &Span,
    ) -> Self {
        let (template, resource) = (options.template(), resource.clone());
        reporter.report(&LockEvent::HoldBegan { template });
        let hold = tracing::debug_span!(parent: caller, "lock.hold", template, resource = reporter.shown(resource.as_str()),
            token = token.get(), renewals = Empty, end = Empty);
        let spans = Spans { hold, caller: caller.clone() };
        Self {
            reporter: Arc::clone(reporter),
            template: options.template.clone(),
            resource,
            token,
            spans: Mutex::new(Some(spans)),
            renewals: AtomicU64::new(0),
            is_unanswered: AtomicBool::new(false),
        }
    }

    /// A majority extended the lease. `late` is for how long that was due when the nodes were asked.
    pub(crate) fn renewed(&self, late: Duration, ttl: Duration) {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        self.renewal_ended(RenewalOutcome::Renewed);
        // After renewals without a verdict, it is late for a reason that was logged.
        let was_unanswered = self.is_unanswered.swap(false, Ordering::Relaxed);
        if late >= ttl / 3 && !was_unanswered {
            self.in_spans(|| {
                log_event!(warn: "lock.renewal_late", resource = self.resource(), template = self.template(),
                    token = self.token.get(), late_ms = milliseconds(late),
                    "a lease was renewed late, because this process or its runtime was held up");
            });
        }
    }

    /// Too few nodes took part in a renewal; `remaining` is the validity that is left. The error is the first that a node replied
    /// with, whose name comes before it.
    pub(crate) fn renewal_unknown(&self, remaining: Duration, first_error: Option<(&str, NodeError)>) {
        self.renewal_ended(RenewalOutcome::Unknown);
        self.is_unanswered.store(true, Ordering::Relaxed);
        if !remaining.is_zero() {
            let (node, error) = first_error.map(|(node, error)| (node, display(error))).unzip();
            self.in_spans(|| {
                log_event!(warn: "lock.renewal_unknown", resource = self.resource(), template = self.template(),
                    token = self.token.get(), remaining_ms = milliseconds(remaining), node, error,
                    "too few nodes took part in a renewal; the lease is still valid, and the renewal is retried");
            });
        }
    }

    pub(crate) fn handed_over(&self) {
        self.reporter.report(&LockEvent::HandedOver { template: self.template() });
    }

    /// The hold has ended that began then. Called once.
    pub(crate) fn end(&self, reason: LossReason, since: Instant) {
        let template = self.template();
        // The clock is not read if nobody is told.
        if self.reporter.is_observed() {
            self.reporter.report(&LockEvent::HoldEnded { template, reason, held: since.elapsed() });
        }
        if reason != LossReason::Released {
            self.in_spans(|| {
                log_event!(error: "lock.lost", resource = self.resource(), template, token = self.token.get(), %reason,
                    "a lease was lost");
            });
        }
        let Some(Spans { hold, .. }) = self.spans.lock().take() else { return };
        if !hold.is_disabled() {
            hold.record("renewals", self.renewals.load(Ordering::Relaxed));
            hold.record("end", HoldEnd::from(reason).as_str());
        }
    }

    /// A renewal has ended, and nothing else is to be said of that.
    pub(crate) fn renewal_ended(&self, outcome: RenewalOutcome) {
        self.reporter.report(&LockEvent::RenewalEnded { template: self.template(), outcome });
    }

    /// Logs an event in `lock.hold`, which is in the caller's span. Both are entered, so that a subscriber that records only the second
    /// one finds the event there: subscribers do not look for the parent of a span that they do not record.
    fn in_spans(&self, log: impl FnOnce()) {
        let (hold, caller) = match &*self.spans.lock() {
            Some(Spans { hold, caller }) => (hold.clone(), caller.clone()),
            None => (Span::none(), Span::none()),
        };
        caller.in_scope(|| hold.in_scope(log));
    }

    /// What events show of the name of the resource.
    fn resource(&self) -> Option<&str> {
        self.reporter.shown(self.resource.as_str())
    }

    pub(crate) fn template(&self) -> &str {
        self.template.as_deref().unwrap_or(OTHER)
    }
}
