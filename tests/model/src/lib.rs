//! A model of nodes, network and clients, in which all that can happen happens, in every order.
//!
//! The clients' decisions are the shipped code of [`lock_core::quorum`] ([`Decider`]); the nodes follow the rules told at
//! [`lock_core::Request`], on small numbers. What a [`Setting`] allows is gone through to the last state, with up to
//! [`NODES`] nodes that have no names: states that differ in these alone are one.
//!
//! - **Messages** once sent may be executed at any time, out of order, more than once, or never; so may answers come. A late acquire
//!   of an attempt that was given up is executed like any other. (In settings with time, each is executed at most once.)
//! - **Clients** pause anywhere, which is nothing but a step that does not come; give up anywhere; send releases when they end.
//! - **Keys** end at any step where there is no time. Tokens must be unique and ordered all the same.
//! - **Time**, where there is one, passes in ticks, for all alike, at any step. A key lives for its ticks, and a holder is valid
//!   for as many from before it asked; so is a quarantine as long. Exclusion is checked here.
//! - **Nodes** forget all they know, one at a time, and sit out.
//! - **Other locks** that share the fence move a node's on, at any step, to any number.
//!
//! # Reductions
//!
//! None of these hides a run that breaks a property.
//!
//! - An answer that is given is remembered, one a question, and may be heard at any time or never; where a message is executed
//!   again, either of the two answers is kept. A decider takes no second answer to one question.
//! - What a client hears is told to the decider when it leads to something: who hears and does nothing can not be told from who has
//!   not heard. Silence while an attempt gathers grants leads to failure or to nothing.
//! - That an attempt fails is one with that it gives up, which it may at any step.
//! - Where there is no time, a holder lets go at once: its release may come at any step after, or never, and does what the end of
//!   the key does.
//! - A confirm of an attempt that is over, of a number that the node has reached, changes nothing any more.
//!
//! # Bounds
//!
//! Two or three attempts; numbers up to [`Setting::highest`]; with time, its last tick, and counters that do not outrun the clock;
//! of other locks, [`Setting::neighbours`] moves.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on has to end")]

mod calm;
mod client;
mod decider;
mod event;
mod locks;
mod node;
mod nodes;
mod promise;
mod queue;
mod report;
mod run;
mod setting;
mod sight;
mod state;
mod symmetry;

pub use self::decider::{Decider, Decision};
pub use self::event::{Event, Hearing, Message};
pub use self::locks::Locks;
pub use self::nodes::Nodes;
pub use self::promise::{CALM, EXCLUSIVE, MAJORITY, NOT_REVIVED, ORDERED, OWN_KEYS, UNIQUE};
pub use self::queue::{NARROWER, QueueRules, QueueSetting, SERVED, Waiters};
pub use self::report::{Checked, report};
pub use self::run::{Outcome, Violation, explore, explore_queue};
pub use self::setting::{CLOCK_A_TICK, Rules, Setting, Time};
pub use self::sight::{Sight, Sights};
pub use self::state::{
    Answer, Asking, Breaches, CLIENTS, Client, Key, Line, NODES, Node, Phase, Proposal, Question, Round, State,
};
