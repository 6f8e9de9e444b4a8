//! What takes the place of `tls.rs` without the feature `tls`: no connection is secure.

use std::io;

use super::NodeError;
use super::tcp::Io;

/// There is none.
#[derive(Clone)]
pub(super) enum Tls {}

impl Tls {
    pub(super) fn new(_: &str) -> Result<Self, String> {
        Err("TLS needs the feature `tls` of lock-axum or lock-core".into())
    }

    pub(super) fn at(&self, _: &str) -> Result<Self, String> {
        match *self {}
    }

    pub(super) fn connector(&self) -> Result<(), NodeError> {
        match *self {}
    }

    pub(super) async fn shake_hands(&self, _: impl Io) -> Result<Box<dyn Io>, NodeError> {
        match *self {}
    }
}

pub(super) fn refusal_in(_: &io::Error) -> Option<NodeError> {
    None
}
