//! A step of the clock of one PostgreSQL server. All that the server has for a while ends at once, and nothing notices.
//!
//! So the clock may only be stepped while a majority has each lock without this server. All services are stopped meanwhile, so that this
//! stays so for a moment.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::quorum::majority;
use tokio::time::sleep;

use super::MAX_TTL;
use super::history::Event;
use super::store::postgres;
use super::world::World;

/// Longer than any lock lives.
const STEP: Duration = MAX_TTL.saturating_mul(2);
/// How long the requests of stopped services may take to be executed.
const IN_FLIGHT: Duration = Duration::from_millis(50);
/// How often it tries to find such a moment.
const TRIES: usize = 40;
/// How many milliseconds apart servers execute the same request.
const APART: i64 = 25;

impl World<'_> {
    /// Steps the clock of a server forward, if there is a moment at which that may be done.
    pub(super) async fn step_clock(&mut self, server: usize) {
        let tries = if self.servers.len() > 2 { TRIES } else { 0 };
        for _ in 0..tries {
            let frozen = self.freeze();
            sleep(IN_FLIGHT).await;
            let kept = self.others_have_all_of(server).await;
            if let Some(server) = self.servers[server].postgres().filter(|_| kept) {
                self.problems.extend(postgres::step_clock(server, STEP).await.err());
            }
            self.thaw(&frozen);
            if kept {
                self.journal.write(Event::ClockStepped { seconds: i64::try_from(STEP.as_secs()).unwrap_or_default() });
                return;
            }
            sleep(IN_FLIGHT).await;
        }
    }

    /// Whether a majority of all servers has what this one has, without it, and for as long.
    async fn others_have_all_of(&self, server: usize) -> bool {
        let mut kept: HashMap<String, Vec<i64>> = HashMap::new();
        let mut own = None;
        for (index, server_of) in self.servers.iter().enumerate() {
            let Some(of_this) = server_of.postgres() else { return false };
            let Some(held) = postgres::held(of_this).await else { return false };
            if index == server {
                own = Some(held);
            } else {
                held.into_iter().for_each(|(what, lives)| kept.entry(what).or_default().push(lives));
            }
        }
        own.unwrap_or_default().iter().all(|(what, lives)| {
            let others = kept.get(what).map_or(&[][..], Vec::as_slice);
            others.iter().filter(|other| **other + APART >= *lives).count() >= majority(self.servers.len())
        })
    }
}
