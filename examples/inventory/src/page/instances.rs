//! The instances, which can be frozen, killed and started again.

use std::{net::SocketAddr, sync::Arc, thread};

use futures_util::future::try_join_all;
use tokio::sync::{Mutex, Notify};

use super::{board::Board, switches::Pause};
use crate::proof::{ANY_PORT, Blueprint, Instance, RunError};

/// What a button does to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Freeze,
    Kill,
    Revive,
}

/// All instances, by numbers that count from 1.
pub(crate) struct Instances {
    slots: Vec<Slot>,
    build: Build,
    board: Arc<Board>,
}

struct Slot {
    address: SocketAddr,
    freeze: Arc<Notify>,
    /// Nothing while it is dead.
    running: Mutex<Option<Instance>>,
}

/// Plans an instance that listens at this address, and stands still when it is told to.
pub(crate) type Build = Box<dyn Fn(usize, SocketAddr, Arc<Notify>) -> Blueprint + Send + Sync>;

impl Instances {
    pub(crate) async fn start(count: usize, build: Build, board: Arc<Board>) -> Result<Self, RunError> {
        let slots = try_join_all((1..=count).map(async |number| {
            let freeze = Arc::new(Notify::new());
            let instance = Instance::start(build(number, ANY_PORT, Arc::clone(&freeze))).await?;
            Ok::<_, RunError>(Slot { address: instance.address(), freeze, running: Mutex::new(Some(instance)) })
        }))
        .await?;
        Ok(Self { slots, build, board })
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.slots.iter().map(|slot| slot.address).collect()
    }

    /// Does something to one instance. False if there is no such instance, or it is dead and cannot be frozen.
    pub(crate) async fn act(&self, number: usize, action: Action) -> Result<bool, RunError> {
        let Some(slot) = number.checked_sub(1).and_then(|index| self.slots.get(index)) else { return Ok(false) };
        let mut running = slot.running.lock().await;
        match (action, running.is_some()) {
            (Action::Freeze, true) => slot.freeze.notify_one(),
            (Action::Freeze, false) => return Ok(false),
            (Action::Kill, _) => {
                if let Some(instance) = running.take() {
                    self.board.killed(number);
                    instance.kill().await?;
                }
            }
            (Action::Revive, true) => {}
            (Action::Revive, false) => {
                let plan = (self.build)(number, slot.address, Arc::clone(&slot.freeze));
                *running = Some(Instance::start(plan).await?);
                self.board.revived(number);
            }
        }
        Ok(true)
    }

    /// Shuts all of them down gracefully.
    pub(crate) async fn stop(&self) -> Result<(), RunError> {
        let stop = async |slot: &Slot| match slot.running.lock().await.take() {
            Some(instance) => instance.stop().await,
            None => Ok(()),
        };
        try_join_all(self.slots.iter().map(stop)).await.map(|_| ())
    }
}

impl std::fmt::Debug for Instances {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instances").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

/// Runs in the instance: blocks its only thread each time it is told to, as if the machine was suspended.
pub(crate) async fn stand_still_when_told(instance: usize, freeze: Arc<Notify>, board: Arc<Board>) {
    loop {
        freeze.notified().await;
        board.froze(instance);
        thread::sleep(Pause::TIME);
        board.thawed(instance);
    }
}
