//! Handlers and layers, over real connections.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod http_endings;
mod http_layer;
mod http_macro;
