//! Trials of handlers: what they find, what they leave alone, and what they say.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod blocking;
mod databases;
mod inputs;
mod kinds;
mod lock_order;
mod mutants;
mod sets_and_permits;
mod sound;
mod stores;
mod surroundings;
mod telling;
mod upgrades;
mod waiting;
