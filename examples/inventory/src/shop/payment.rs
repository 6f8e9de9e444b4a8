//! The payment provider: another service, called between the read and the write.

use std::{fmt::Debug, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::sleep;

/// A client of a payment provider.
pub(crate) trait PaymentProvider: Debug + Send + Sync {
    /// Authorizes the payment of one order.
    ///
    /// A real provider is asked to *authorize* before the write and to *capture* after it, so that
    /// the shop can void the authorization of an order that the store refused.
    fn authorize(&self) -> BoxFuture<'_, ()>;
}

/// A provider that approves every payment after a fixed time.
#[derive(Debug)]
pub(crate) struct SimulatedProvider {
    latency: Duration,
}

impl SimulatedProvider {
    pub(crate) fn new(latency: Duration) -> Self {
        Self { latency }
    }
}

impl PaymentProvider for SimulatedProvider {
    fn authorize(&self) -> BoxFuture<'_, ()> {
        tracing::debug!("asking the payment provider");
        Box::pin(sleep(self.latency))
    }
}
