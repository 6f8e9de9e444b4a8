//! Stage 1: parses the arguments of the attribute.

mod duration;
mod manager;
mod parse;
mod resource;
mod template;
mod value;

pub(crate) use self::parse::Args;
pub(crate) use self::resource::ResourceSource;
pub(crate) use self::template::{Foreign, Placeholder, Segment, Template, of_the_layer};
