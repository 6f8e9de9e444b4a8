use std::sync::Arc;
use std::time::Duration;

use super::{HandedOver, HoldBegan, HoldEnded, OTHER, RenewalEnded, RenewalOutcome, Reporter};
use crate::error::LossReason;
use crate::options::LockOptions;

/// One hold of a lock, as observers see it.
pub(crate) struct Hold {
    reporter: Arc<Reporter>,
    template: Option<Arc<str>>,
}

impl Hold {
    pub(crate) fn begin(reporter: &Arc<Reporter>, options: &LockOptions) -> Self {
        let template = options.template();
        reporter.report(|observer| observer.hold_began(&HoldBegan { template }));
        Self { reporter: Arc::clone(reporter), template: options.template.clone() }
    }

    pub(crate) fn renewal_ended(&self, outcome: RenewalOutcome) {
        let template = self.template();
        self.reporter.report(|observer| observer.renewal_ended(&RenewalEnded { template, outcome }));
    }

    pub(crate) fn handed_over(&self) {
        let template = self.template();
        self.reporter.report(|observer| observer.handed_over(&HandedOver { template }));
    }

    /// The hold has ended. Called once.
    pub(crate) fn end(&self, reason: LossReason, held: Duration) {
        let template = self.template();
        self.reporter.report(|observer| observer.hold_ended(&HoldEnded { template, reason, held }));
    }

    fn template(&self) -> &str {
        self.template.as_deref().unwrap_or(OTHER)
    }
}
