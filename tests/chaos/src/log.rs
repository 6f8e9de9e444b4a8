//! Records the names of the events that the engine logs.

use std::sync::Arc;

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};

use super::history::{Event, Journal};

pub(super) struct Log(Arc<Journal>);

impl Log {
    pub(super) fn new(journal: Arc<Journal>) -> Self {
        Self(journal)
    }
}

impl Subscriber for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("lock_core")
    }

    fn event(&self, event: &tracing::Event<'_>) {
        self.0.write(Event::Logged { name: event.metadata().name().to_owned() });
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
