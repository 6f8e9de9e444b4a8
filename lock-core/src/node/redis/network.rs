//! Another network than TCP: that of a simulation.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::node::NodeFuture;
use crate::node::tcp::Io;

/// Opens streams to hosts and ports. Clones are the same network.
#[doc(hidden)]
#[derive(Clone)]
pub struct Network(Arc<Dial>);

type Dial = dyn Fn(&str, u16) -> NodeFuture<io::Result<Box<dyn Io>>> + Send + Sync;

impl Network {
    /// A network in which `dial` opens streams.
    pub fn new<F, Fut, S>(dial: F) -> Self
    where
        F: Fn(&str, u16) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self(Arc::new(move |host, port| {
            let dialing = dial(host, port);
            Box::pin(async move { Ok(Box::new(dialing.await?) as Box<dyn Io>) })
        }))
    }

    pub(super) async fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Io>> {
        (self.0)(host, port).await
    }
}
