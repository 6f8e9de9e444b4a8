use std::fmt::{self, Write as _};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};
use tracing::{Dispatch, Level, Metadata, Subscriber};

/// To be called before a test runs what may log.
///
/// While a process has at most one subscriber, `tracing` decides without a lock whether anybody wants an event that is logged for
/// the first time. If a recording begins at this moment on another thread, that event may be turned off for it. So there are two
/// subscribers, for ever, which record nothing.
pub fn keep_two_subscribers() {
    static KEPT: LazyLock<[Dispatch; 2]> = LazyLock::new(|| [0, 1].map(|_| Dispatch::new(NoSubscriber::default())));
    LazyLock::force(&KEPT);
}

/// Records the events of the lock crates that are logged on this thread, until it is dropped.
pub struct Events {
    recorded: Arc<Mutex<Vec<Event>>>,
    _recording: DefaultGuard,
}

/// An event that was logged.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its name.
    pub name: &'static str,
    /// Its level.
    pub level: Level,
    /// Its fields, the message among them: ` name=value` for each.
    pub fields: String,
}

impl Events {
    /// Records from now on.
    #[must_use]
    pub fn record() -> Self {
        keep_two_subscribers();
        let recorded = Arc::default();
        let recording = set_default(EventLog(Arc::clone(&recorded)));
        Self { recorded, _recording: recording }
    }

    /// All events with this name so far. Each has it as a field, too: that is what is seen of it in a log.
    #[must_use]
    pub fn named(&self, name: &str) -> Vec<Event> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let named: Vec<_> = recorded.iter().filter(|event| event.name == name).cloned().collect();
        let has_field = |event: &Event| event.fields.contains(&format!(" event={name:?}"));
        assert!(named.iter().all(has_field), "no field `event`: {named:?}");
        named
    }
}

struct EventLog(Arc<Mutex<Vec<Event>>>);

impl Subscriber for EventLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("lock_")
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        let metadata = event.metadata();
        let event = Event { name: metadata.name(), level: *metadata.level(), fields: fields.0 };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}
