//! All states of each model, and its mutants, each of which must violate a property.
//!
//! In the library, which is built only once for them: to optimize it takes a while.

mod delegation;
mod evictions;
mod membership;
mod permits;
mod protocol;
mod queue;
mod readers;
mod reservations;
mod sets;
