//! The engine, and claims, on real PostgreSQL servers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod claims;
mod clock;
mod crashes;
mod credentials;
mod every_kind;
mod forgetting;
mod hosts;
mod locks;
mod poolers;
mod reasons;
mod refusals;
mod rules;
mod shop;
mod slow;
mod standby;
mod tls;
mod trials;
