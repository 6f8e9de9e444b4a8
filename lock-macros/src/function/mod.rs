//! Stage 2: parses the function below the attribute, and answers questions about its parameters and its return type.

mod borrow;
mod item;
mod output;
mod param;
mod path;
mod pattern;

pub(crate) use self::borrow::{borrowed, impl_trait};
pub(crate) use self::item::Function;
pub(crate) use self::output::{is_boxed_future, returns_future};
pub(crate) use self::param::{
    Injected, InjectedValue, Wrapper, can_be_extracted, injected, is_extractor, is_hold, may_read_body,
};
pub(crate) use self::path::{ends_with, tuple_members};
pub(crate) use self::pattern::{bindings, by_reference};
