use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// Records the spans of this thread, and the events in them, until it is dropped.
pub struct Traces {
    recorded: Arc<Mutex<Vec<Trace>>>,
    _recording: DefaultGuard,
}

/// A span, or an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Its name.
    pub name: &'static str,
    /// Its level.
    pub level: Level,
    /// The name of the span that it is in.
    pub parent: Option<&'static str>,
    /// Its fields, with the values that they were given last.
    pub fields: BTreeMap<&'static str, String>,
    /// How often each field was set.
    pub set: BTreeMap<&'static str, u32>,
    /// Whether it has ended; an event has.
    pub is_closed: bool,
    id: Option<Id>,
}

impl Traces {
    /// Records from now on what has this level or a more severe one.
    #[must_use]
    pub fn record(level: Level) -> Self {
        let recorded = Arc::<Mutex<Vec<Trace>>>::default();
        let log = TraceLog(Arc::clone(&recorded)).with_filter(LevelFilter::from_level(level));
        Self { recorded, _recording: set_default(Registry::default().with(log)) }
    }

    /// All spans and events so far.
    #[must_use]
    pub fn all(&self) -> Vec<Trace> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All spans and events with this name so far. Events of locks have it as a field, too: that is what is seen of it in a log.
    #[must_use]
    pub fn named(&self, name: &str) -> Vec<Trace> {
        let named: Vec<_> = self.all().into_iter().filter(|trace| trace.name == name).collect();
        let mut events = named.iter().filter(|trace| trace.id.is_none() && trace.name.starts_with("lock."));
        assert!(events.all(|event| event.field("event") == Some(name)), "no field `event`: {named:?}");
        named
    }
}

struct TraceLog(Arc<Mutex<Vec<Trace>>>);

impl TraceLog {
    fn lock(&self) -> MutexGuard<'_, Vec<Trace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, id: &Id, change: impl FnOnce(&mut Trace)) {
        // From the end: ids are used again.
        if let Some(trace) = self.lock().iter_mut().rev().find(|trace| trace.id.as_ref() == Some(id)) {
            change(trace);
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceLog {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        let parent = context.span(id).and_then(|span| span.parent()).map(|parent| parent.name());
        let mut span = Trace::new(metadata, parent, Some(id.clone()));
        attributes.record(&mut span);
        self.lock().push(span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.change(id, |span| values.record(span));
    }

    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        let parent = context.event_span(event).map(|parent| parent.name());
        let mut recorded = Trace::new(event.metadata(), parent, None);
        event.record(&mut recorded);
        self.lock().push(recorded);
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        self.change(&id, |span| span.is_closed = true);
    }
}

impl Trace {
    fn new(metadata: &tracing::Metadata<'_>, parent: Option<&'static str>, id: Option<Id>) -> Self {
        let (fields, set, is_closed) = (BTreeMap::new(), BTreeMap::new(), id.is_none());
        Self { name: metadata.name(), level: *metadata.level(), parent, fields, set, is_closed, id }
    }

    /// The value of a field, if it has one.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

impl Visit for Trace {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
        *self.set.entry(field.name()).or_default() += 1;
    }
}
