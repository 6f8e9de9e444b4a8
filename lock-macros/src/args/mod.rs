//! Stage 1: parses the arguments of the attribute.

mod duration;
mod parse;
mod template;
mod value;

pub(crate) use self::parse::{Args, ResourceSource};
pub(crate) use self::template::{Foreign, Placeholder, Segment, Template, of_the_layer};
