use std::{sync::Arc, thread, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::sleep;

use super::{
    board::Board,
    switches::{Pause, Switches},
};
use crate::shop::PaymentProvider;

const LATENCY: Duration = Duration::from_millis(15);

/// The payment provider of one instance, during whose calls the purchase stops if a button says so.
#[derive(Debug)]
pub(crate) struct PagePayments {
    pub(crate) instance: usize,
    pub(crate) switches: Arc<Switches>,
    pub(crate) board: Arc<Board>,
}

impl PaymentProvider for PagePayments {
    fn authorize(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            match self.switches.take_pause() {
                // The instance has a single thread, so everything in it stops, as it would for a suspended machine.
                // The purchase goes on to its write without an await at which it could be cancelled.
                Some(Pause::Freeze) => {
                    self.board.froze(self.instance);
                    thread::sleep(Pause::TIME);
                    self.board.thawed(self.instance);
                }
                Some(Pause::SlowPayment) => {
                    self.board.slow_payment(self.instance);
                    sleep(Pause::TIME).await;
                }
                None => sleep(LATENCY).await,
            }
        })
    }
}
