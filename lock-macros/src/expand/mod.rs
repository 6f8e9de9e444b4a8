//! Stage 4: generates the code that acquires the lock around the function.

mod attributes;
mod fallback;
mod function;
mod handler;
mod mentions;
mod policy;
mod resource;
mod span;
mod unfilled;

pub(crate) use self::fallback::expand as expand_fallback;
pub(crate) use self::function::expand as expand_function;
pub(crate) use self::handler::expand as expand_handler;
