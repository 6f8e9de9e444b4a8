//! The way of requests over one connection: in the order in which they were submitted, and in one batch when they come
//! together.

mod batch;
mod inline_task;
mod worker;

pub(super) use self::batch::{AcquireArgs, Batch};
pub(super) use self::worker::Handle;
