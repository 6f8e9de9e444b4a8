use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::{DefaultGuard, set_default};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::Registry;

use crate::events::keep_two_subscribers;

/// What `tracing-subscriber` writes of this thread's events, and of its spans when they end: as text and as JSON, until it is dropped.
pub struct Logs {
    text: Lines,
    json: Lines,
    _recording: DefaultGuard,
}

impl Logs {
    /// Records from now on.
    #[must_use]
    pub fn record() -> Self {
        keep_two_subscribers();
        let (text, json) = (Lines::default(), Lines::default());
        let as_text = fmt::layer().with_ansi(false).with_span_events(FmtSpan::CLOSE).with_writer(text.clone());
        let as_json = fmt::layer().json().with_span_events(FmtSpan::CLOSE).with_writer(json.clone());
        let subscriber = Registry::default().with(LevelFilter::DEBUG).with(as_text).with(as_json);
        Self { text, json, _recording: set_default(subscriber) }
    }

    /// The lines of text.
    #[must_use]
    pub fn text(&self) -> Vec<String> {
        self.text.lines()
    }

    /// The lines of JSON, in the same order.
    #[must_use]
    pub fn json(&self) -> Vec<serde_json::Value> {
        self.json.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn lines(&self) -> Vec<String> {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&written).lines().map(str::to_owned).collect()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
