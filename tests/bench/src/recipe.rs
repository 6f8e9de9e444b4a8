//! The recipe for a lock in ZooKeeper's documentation: a sequential znode for each that wants the lock, of which the first
//! holds it, and each other one watches the one before it.

use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::BoxError;

/// What ours asks for, too, for locks with the time to live of the benchmarks.
const SESSION: Duration = Duration::from_secs(20);

/// A session. Clones share it.
#[derive(Clone)]
pub(super) struct Recipe(Client);

/// The znode of a holder.
pub(super) struct HeldZnode {
    client: Client,
    path: String,
}

impl Recipe {
    pub(super) async fn connect(address: &str) -> Result<Self, BoxError> {
        Ok(Self(Client::connector().with_session_timeout(SESSION).connect(address).await?))
    }

    /// Takes the lock, waiting for it. Dropped while it waits, it leaves a znode until the session ends: the loads drop at their end.
    pub(super) async fn lock(&self, resource: &str) -> Result<HeldZnode, BoxError> {
        let directory = format!("/recipe-{resource}");
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let own = loop {
            match self.0.create(&format!("{directory}/"), b"", &options).await {
                Ok((_, sequence)) => break sequence.to_string(),
                Err(Error::NoNode) => {
                    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
                    match self.0.create(&directory, b"", &options).await {
                        Ok(_) | Err(Error::NodeExists) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error.into()),
            }
        };
        loop {
            let mut before = self.0.list_children(&directory).await?;
            before.retain(|other| *other < own);
            let Some(predecessor) = before.into_iter().max() else {
                return Ok(HeldZnode { client: self.0.clone(), path: format!("{directory}/{own}") });
            };
            let (found, watcher) = self.0.check_and_watch_stat(&format!("{directory}/{predecessor}")).await?;
            if found.is_some() {
                watcher.changed().await;
            }
        }
    }
}

impl HeldZnode {
    pub(super) async fn release(self) -> Result<(), BoxError> {
        Ok(self.client.delete(&self.path, None).await?)
    }
}
