//! Sends requests over one connection: in the order in which they are submitted, and in one command when they come together.
//!
//! A [`Handle`] puts a `Message` into a channel. A `Worker` takes what is there, divides it into [`Batch`]es, writes each with one
//! command, and gives every message its reply; of many, a portion at a time.

mod batch;
mod handle;
mod message;
mod portions;
mod worker;

pub(super) use self::batch::Batch;
pub(super) use self::handle::Handle;
