use tokio::time::Instant;

use super::{AcquireBegan, AcquireEnded, AcquireOutcome, AttemptBegan, Reporter};
use crate::error::LockError;
use crate::options::LockOptions;

/// One acquisition, from the call to its end. Dropped before it was [ended](Self::end), it was cancelled.
pub(crate) struct Acquiring<'a> {
    reporter: &'a Reporter,
    template: &'a str,
    started: Instant,
    outcome: AcquireOutcome,
}

impl<'a> Acquiring<'a> {
    pub(crate) fn begin(reporter: &'a Reporter, options: &'a LockOptions) -> Self {
        let template = options.template();
        reporter.report(|observer| observer.acquire_began(&AcquireBegan { template }));
        Self { reporter, template, started: Instant::now(), outcome: AcquireOutcome::Cancelled }
    }

    /// The nodes are asked.
    pub(crate) fn attempt_began(&self) {
        self.reporter.report(|observer| observer.attempt_began(&AttemptBegan { template: self.template }));
    }

    /// The caller has the lock, or is told why not.
    pub(crate) fn end(mut self, error: Option<&LockError>) {
        self.outcome = AcquireOutcome::of(error);
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        let Self { template, outcome, .. } = *self;
        self.reporter.report(|observer| {
            observer.acquire_ended(&AcquireEnded { template, outcome, waited: self.started.elapsed() });
        });
    }
}
