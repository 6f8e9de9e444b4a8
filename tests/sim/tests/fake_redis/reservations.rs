use std::time::{Duration, Instant};

use lock_core::node::RESERVATION_TTL;

/// When reservations began, at the earliest and at the latest: on the two servers they begin at slightly different times.
#[derive(Default)]
pub(crate) struct Reservations(pub(crate) Vec<(Instant, Instant)>);

impl Reservations {
    /// Whether a reservation may have ended on one server and not on the other when a command was executed.
    pub(crate) fn may_differ(&self, (began, ended): (Instant, Instant)) -> bool {
        // Remaining times below this look like codes.
        let (last, slack) = (Duration::from_millis(12), Duration::from_millis(3));
        self.0.iter().any(|(earliest, latest)| {
            ended + last > *earliest + RESERVATION_TTL && began < *latest + RESERVATION_TTL + slack
        })
    }

    /// Waits until all have ended on both.
    pub(crate) async fn outlast(&self) {
        if let Some((_, latest)) = self.0.last() {
            tokio::time::sleep_until((*latest + RESERVATION_TTL + Duration::from_millis(5)).into()).await;
        }
    }
}
