//! Servers with a wall clock of their own.

use std::time::Duration;

use super::PostgresServer;
use super::programs::{copy, template};
use crate::redis::Clock;

impl PostgresServer {
    /// Starts a server with a clock that can be stepped, and with additional arguments.
    pub async fn start_with_clock(arguments: &[&str]) -> Self {
        let clock = Clock::new(0);
        clock.let_others_read();
        Self::start_in(|directory| copy(template(), directory), arguments, Some(clock)).await
    }

    /// Steps the clock of a server that was started with one: it is ahead by this much from now on.
    pub fn step_clock(&self, offset: Duration) {
        let offset = i64::try_from(offset.as_micros()).unwrap();
        self.clock.as_ref().expect("the server was started with a clock").set_micros(offset);
    }
}
