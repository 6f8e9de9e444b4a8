//! The engine on in-memory masters, nearly all of it in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod broken_variants;
mod documentation;
mod exclusion_and_fencing;
mod lease_life;
mod lines;
mod minority_faults;
mod queues;
mod scopes;
mod settings;
mod waiting_and_closing;
