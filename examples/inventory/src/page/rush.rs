//! The buyers. One crowd at a time.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde::Serialize;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::books::SKU;
use crate::proof::{Answers, Load, drive};

/// How many buyers are active at the same time.
const CONCURRENCY: usize = 60;
/// After this, buyers give up: of a shop that cannot sell, for example.
const PATIENCE: Duration = Duration::from_secs(15);

/// Sends buyers to the instances.
#[derive(Debug)]
pub(crate) struct Rush {
    instances: Vec<SocketAddr>,
    stop: CancellationToken,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    running: Option<u32>,
    last: Option<Outcome>,
    finished: u64,
    task: Option<JoinHandle<()>>,
}

/// How the last rush ended.
#[derive(Debug, Clone, Serialize)]
struct Outcome {
    buyers: u32,
    answers: Answers,
    took_ms: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct RushView {
    /// The number of buyers, while there are any.
    running: Option<u32>,
    last: Option<Outcome>,
    /// How many crowds have left.
    finished: u64,
}

/// There are buyers already.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running;

impl Rush {
    pub(crate) fn new(instances: Vec<SocketAddr>, stop: CancellationToken) -> Self {
        Self { instances, stop, state: Arc::default() }
    }

    /// Sends this many buyers, if there are none.
    pub(crate) fn start(&self, buyers: u32) -> Result<(), Running> {
        let mut state = lock(&self.state);
        if state.running.is_some() {
            return Err(Running);
        }
        state.running = Some(buyers);
        let start = Instant::now();
        let load = Load {
            buyers,
            concurrency: CONCURRENCY,
            instances: self.instances.clone(),
            sku: SKU.to_owned(),
            deadline: start + PATIENCE,
        };
        let (stop, shared) = (self.stop.clone(), Arc::clone(&self.state));
        state.task = Some(tokio::spawn(async move {
            let answers = drive(&load, &stop).await.answers;
            let took_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
            let mut state = lock(&shared);
            state.running = None;
            state.finished += 1;
            state.last = Some(Outcome { buyers, answers, took_ms });
        }));
        Ok(())
    }

    pub(crate) fn is_running(&self) -> bool {
        lock(&self.state).running.is_some()
    }

    pub(crate) fn view(&self) -> RushView {
        let state = lock(&self.state);
        RushView { running: state.running, last: state.last.clone(), finished: state.finished }
    }

    /// Waits for the last buyers. They send no new requests once the service stops.
    pub(crate) async fn finish(&self) {
        let task = lock(&self.state).task.take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the buyers failed");
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
