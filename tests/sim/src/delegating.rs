use std::time::Duration;

use lock_core::Kind as LockKind;
use tokio::time::{sleep, timeout};

use super::client::{Worker, granted, kind, record_end, released};
use super::history::Event;
use super::plan::Plan;
use super::world::now;

/// How often clients look for delegations, and for their answers.
const POLL: Duration = Duration::from_millis(10);
/// How long a client waits for the answer to a delegation.
const PATIENCE: Duration = Duration::from_millis(250);

impl Worker {
    /// Lets another client work under a lock, and waits for its answer.
    pub(super) async fn delegate(&mut self) {
        let terms = self.terms();
        let call = self.begin_any(&terms);
        let name = Plan::resource_name(call.resource);
        let request = if self.mixer.percent(30) { self.locks.read(name) } else { self.locks.lock(name) };
        let request = request.ttl(terms.ttl).wait(terms.wait).renew(terms.renew);
        match timeout(terms.dropped_after, request.acquire()).await {
            Ok(Ok(guard)) => {
                granted(&self.world, call, guard.lease());
                if let Ok(delegation) = guard.delegate().create() {
                    self.world.record(Event::Delegated { call });
                    let id = self.world.delegate(self.client, call.resource, delegation.as_str());
                    let (world, until) = (self.world.clone(), now() + PATIENCE);
                    let answer = async move {
                        while now() < until {
                            if world.is_answered(id) {
                                return Ok(());
                            }
                            sleep(POLL).await;
                        }
                        Err(())
                    };
                    if delegation.around(answer).await.is_ok() {
                        self.world.record(Event::Answered { call });
                    }
                }
                if self.mixer.percent(70) {
                    released(&self.world, call, &guard.release().await);
                }
            }
            Ok(Err(error)) => self.world.record(Event::Failed { call, why: kind(&error) }),
            Err(_) => self.world.record(Event::Dropped { call }),
        }
    }

    /// Adopts what other clients delegate, while there are faults.
    pub(super) async fn adopt(mut self) {
        while now() < self.plan.fault_phase {
            if let Some((id, resource, credential)) = self.world.take_delegation(self.client) {
                self.work_under(resource, &credential).await;
                if self.mixer.percent(90) {
                    self.world.answer(id);
                }
                if self.mixer.percent(10) {
                    sleep(self.mixer.millis(0, 60)).await;
                    self.replay(resource, &credential).await;
                }
            }
            sleep(POLL).await;
        }
    }

    async fn work_under(&mut self, resource: usize, credential: &str) {
        let call = self.world.call(self.client, resource);
        self.world.record(Event::Adopting { call });
        let Ok(adopted) = self.locks.adopt(credential, Plan::resource_name(resource)).await else { return };
        let lease = adopted.lease();
        let (token, reads) = (lease.token().get(), lease.kind() == LockKind::Read);
        self.world.record(Event::Adopted { call, token, reads });
        self.world.count("adopted");
        record_end(&self.world, call, lease.clone());
        if reads {
            self.work(PATIENCE).await;
        } else {
            self.update(call, &lease, PATIENCE).await;
        }
    }

    /// Adopts a lock once more, and relies on nothing: its holder need not wait.
    async fn replay(&mut self, resource: usize, credential: &str) {
        let call = self.world.call(self.client, resource);
        self.world.record(Event::Adopting { call });
        if let Ok(adopted) = self.locks.adopt(credential, Plan::resource_name(resource)).await {
            self.world.record(Event::Replayed { call, token: adopted.token().get() });
        }
    }
}
