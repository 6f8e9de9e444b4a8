use std::time::Duration;

use lock_core::{Kind as LockKind, Lease};
use tokio::time::{sleep, timeout};

use super::client::{Worker, granted, kind, released};
use super::history::{Call, Event};
use super::plan::{PERMITS, Plan, Scenario};
use super::rng::Rng;

/// The kinds of locks that a run mixes. The place for a further one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Write,
    Read,
    /// To write, and then to read.
    Downgrade,
    /// All resources, each to read or to write.
    Set,
    /// One of the permits of a resource.
    Permit,
    /// For another client, which adopts it.
    Delegate,
    /// To take the lock from its holder.
    Force,
}

impl Kind {
    pub(super) fn draw(plan: &Plan, rng: &mut Rng) -> Self {
        // Where all servers may forget, a token may be in use already.
        let forced = match plan.scenario {
            Scenario::Promised | Scenario::Clusters => 3,
            Scenario::ClockJumps => 5,
            Scenario::Amnesia | Scenario::Elsewhere => 0,
        };
        match rng.between(0, 99) {
            drawn if drawn < forced => Self::Force,
            0..=33 => Self::Write,
            34..=51 => Self::Permit,
            52..=58 if plan.resources > 1 => Self::Set,
            52..=83 => Self::Read,
            84..=92 => Self::Downgrade,
            _ => Self::Delegate,
        }
    }
}

/// How long a forced release may take: its rounds wait for a majority.
const FORCED_IN: Duration = Duration::from_secs(20);

/// How a lock is asked for.
pub(super) struct Terms {
    pub(super) ttl: Duration,
    pub(super) wait: Duration,
    pub(super) renew: bool,
    pub(super) dropped_after: Duration,
}

impl Worker {
    /// Does with locks what no client does with one that it just writes under.
    pub(super) async fn mix(&mut self, kind: Kind) {
        match kind {
            Kind::Write => self.attempt().await,
            Kind::Read => self.read().await,
            Kind::Downgrade => self.downgrade().await,
            Kind::Set => self.set().await,
            Kind::Permit => self.permit().await,
            Kind::Delegate => self.delegate().await,
            Kind::Force => self.force_release().await,
        }
    }

    pub(super) fn terms(&mut self) -> Terms {
        let ttl = Duration::from_millis(self.mixer.pick(&[150, 300, 300, 300, 600, 1000]));
        let wait = Duration::from_millis(self.mixer.pick(&[0, 200, 1000, 2000, 2000]));
        let dropped_after = if self.mixer.percent(10) { self.mixer.millis(0, 60) } else { Duration::MAX };
        Terms { ttl, wait, renew: !self.mixer.percent(20), dropped_after }
    }

    /// A call for some resource, that has begun.
    pub(super) fn begin_any(&mut self, terms: &Terms) -> Call {
        let resource = usize::try_from(self.mixer.between(0, self.plan.resources as u64 - 1)).unwrap_or_default();
        self.begin(resource, terms)
    }

    /// A call for this resource, that has begun.
    fn begin(&self, resource: usize, Terms { ttl, wait, .. }: &Terms) -> Call {
        let call = self.world.call(self.client, resource);
        self.world.record(Event::Began { call, ttl: *ttl, wait: *wait });
        call
    }

    /// Works for a while, sometimes for longer than the lock lives, and cut off from all servers.
    pub(super) async fn work(&mut self, ttl: Duration) {
        match self.mixer.between(0, 19) {
            0 => {
                let pause = ttl.mul_f64(1.3);
                self.world.request_pause(self.client, pause);
                sleep(pause).await;
            }
            1 | 2 => sleep(ttl.mul_f64(1.6)).await,
            _ => sleep(self.mixer.millis(0, 30)).await,
        }
    }

    /// Adds one under a lease to what it protects.
    pub(super) async fn update(&mut self, call: Call, lease: &Lease, ttl: Duration) {
        let (resource, token) = (lease.resource(), lease.token().get());
        let value = self.world.with_register(resource, |register| register.read(token));
        self.work(ttl).await;
        if let Some(value) = value {
            let accepted = self.world.with_register(resource, |register| register.write(token, value + 1));
            self.world.record(Event::Wrote { call, token, accepted });
        }
    }

    async fn read(&mut self) {
        let terms = self.terms();
        let call = self.begin_any(&terms);
        let request = self.locks.read(Plan::resource_name(call.resource));
        let request = request.ttl(terms.ttl).wait(terms.wait).renew(terms.renew);
        match timeout(terms.dropped_after, request.acquire()).await {
            Ok(Ok(guard)) => {
                granted(&self.world, call, guard.lease());
                self.work(terms.ttl).await;
                if self.mixer.percent(70) {
                    released(&self.world, call, &guard.release().await);
                }
            }
            Ok(Err(error)) => self.world.record(Event::Failed { call, why: kind(&error) }),
            Err(_) => self.world.record(Event::Dropped { call }),
        }
    }

    async fn downgrade(&mut self) {
        let terms = self.terms();
        let call = self.begin_any(&terms);
        let request = self.locks.lock(Plan::resource_name(call.resource));
        let request = request.ttl(terms.ttl).wait(terms.wait).renew(terms.renew);
        match timeout(terms.dropped_after, request.acquire()).await {
            Ok(Ok(guard)) => {
                granted(&self.world, call, guard.lease());
                self.update(call, &guard, terms.ttl).await;
                self.world.record(Event::Downgraded { call });
                // If that fails, its end has been recorded.
                let Ok(guard) = guard.downgrade().await else { return };
                self.work(terms.ttl).await;
                if self.mixer.percent(70) {
                    released(&self.world, call, &guard.release().await);
                }
            }
            Ok(Err(error)) => self.world.record(Event::Failed { call, why: kind(&error) }),
            Err(_) => self.world.record(Event::Dropped { call }),
        }
    }

    async fn permit(&mut self) {
        let terms = self.terms();
        let (resource, permits) = PERMITS;
        let call = self.world.call(self.client, resource);
        self.world.record(Event::Began { call, ttl: terms.ttl, wait: terms.wait });
        let request = self.locks.permits(Plan::resource_name(resource), permits);
        let request = request.ttl(terms.ttl).wait(terms.wait).renew(terms.renew);
        match timeout(terms.dropped_after, request.acquire()).await {
            Ok(Ok(guard)) => {
                self.world.count("permit granted");
                granted(&self.world, call, guard.lease());
                self.update(call, &guard, terms.ttl).await;
                if self.mixer.percent(70) {
                    released(&self.world, call, &guard.release().await);
                }
            }
            Ok(Err(error)) => self.world.record(Event::Failed { call, why: kind(&error) }),
            Err(_) => self.world.record(Event::Dropped { call }),
        }
    }

    async fn set(&mut self) {
        let terms = self.terms();
        let calls: Vec<Call> =
            (0..self.plan.resources).map(|resource| self.world.call(self.client, resource)).collect();
        let reads: Vec<bool> = calls.iter().map(|_| self.mixer.percent(40)).collect();
        let of = |mode: bool| {
            let named = calls.iter().zip(&reads).filter(move |(_, reads)| **reads == mode);
            named.map(|(call, _)| Plan::resource_name(call.resource)).collect::<Vec<_>>()
        };
        let request = self.locks.lock_all(of(false)).read(of(true));
        let request = request.ttl(terms.ttl).wait(terms.wait).renew(terms.renew);
        for call in &calls {
            self.world.record(Event::Began { call: *call, ttl: terms.ttl, wait: terms.wait });
        }
        let wanted = calls.iter().map(|call| Plan::resource_name(call.resource)).collect();
        match timeout(terms.dropped_after, request.acquire()).await {
            Ok(Ok(guard)) => {
                let lease = |call: &Call| guard.get(&Plan::resource_name(call.resource)).cloned();
                let held: Vec<(Call, Lease)> = calls.iter().filter_map(|call| Some((*call, lease(call)?))).collect();
                let names = guard.iter().map(|lease| lease.resource().to_owned()).collect();
                self.world.record(Event::SetGranted { call: calls[0], wanted, granted: names });
                self.world.count("set granted");
                held.iter().for_each(|(call, lease)| granted(&self.world, *call, lease.clone()));
                for (call, lease) in &held {
                    if lease.kind() == LockKind::Write {
                        self.update(*call, lease, terms.ttl).await;
                    } else {
                        self.work(terms.ttl).await;
                    }
                    let twice = held.iter().chain(&held).map(|(_, lease)| lease.is_valid());
                    self.world.record(Event::SetSeen { call: calls[0], valid: twice.collect() });
                }
                if self.mixer.percent(70) {
                    let result = guard.release().await;
                    calls.iter().for_each(|call| _ = released(&self.world, *call, &result));
                }
            }
            Ok(Err(error)) => {
                calls.iter().for_each(|call| self.world.record(Event::Failed { call: *call, why: kind(&error) }));
            }
            Err(_) => calls.iter().for_each(|call| self.world.record(Event::Dropped { call: *call })),
        }
    }

    /// Locks what was just taken from its holder, while others in the process of that holder ask for it, too.
    async fn succeed(&mut self, resource: usize) {
        let terms = Terms { wait: Duration::from_millis(200), dropped_after: Duration::MAX, ..self.terms() };
        let call = self.begin(resource, &terms);
        let request = self.locks.lock(Plan::resource_name(resource));
        match request.ttl(terms.ttl).wait(terms.wait).renew(terms.renew).acquire().await {
            Ok(guard) => {
                self.world.count("successor of an evicted holder");
                granted(&self.world, call, guard.lease());
                self.update(call, &guard, terms.ttl).await;
                released(&self.world, call, &guard.release().await);
            }
            Err(error) => self.world.record(Event::Failed { call, why: kind(&error) }),
        }
    }

    /// Takes a lock from its holder, and claims the token. It must be unique and in order with those of the holders.
    async fn force_release(&mut self) {
        let resource = usize::try_from(self.mixer.between(0, self.plan.resources as u64 - 1)).unwrap_or_default();
        let (call, mut name) = (self.world.call(self.client, resource), Plan::resource_name(resource));
        if resource == PERMITS.0 && self.mixer.percent(50) {
            let slot = u32::from(self.mixer.percent(50));
            name = Plan::slot_name(slot);
            self.world.record(Event::Slot { call, slot });
        }
        self.world.record(Event::Forcing { call });
        self.world.record(Event::Began { call, ttl: Duration::ZERO, wait: FORCED_IN });
        match self.locks.force_release(&name).await {
            Ok(forced) => {
                let token = forced.token.get();
                self.world.count(if forced.freed_on.is_empty() { "force-release" } else { "force-release, evicting" });
                self.world.record(Event::Granted { call, token, reads: false, remaining: Duration::ZERO });
                self.world.record(Event::Ended { call, why: "forced" });
                self.world.with_register(&name, |register| register.read(token));
                self.succeed(resource).await;
            }
            Err(error) => self.world.record(Event::Failed { call, why: kind(&error) }),
        }
    }
}
