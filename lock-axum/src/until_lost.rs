use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use lock_core::LockError;

use crate::held::Held;
use crate::policy::OnLost;

/// Runs `work` to its end or, with [`OnLost::Cancel`], until the lease is lost.
///
/// # Cancel safety
///
/// Dropping the future drops `work`.
pub(crate) async fn run_until_lost<T>(
    held: &impl Held,
    work: impl Future<Output = T>,
    on_lost: OnLost,
) -> Result<T, LockError> {
    let OnLost::Cancel = on_lost else { return Ok(work.await) };
    let mut work = pin!(work);
    // Once the lease has ended, the work must not take another step.
    let work = poll_fn(|cx| match held.check() {
        Ok(()) => work.as_mut().poll(cx).map(Ok),
        Err(error) => Poll::Ready(Err(error)),
    });
    tokio::select! {
        biased;
        // Polled first, because work that ends at once needs no timer for the loss.
        output = work => output,
        error = loss(held) => Err(error),
    }
}

/// Waits until the lease has ended, and returns why.
async fn loss(held: &impl Held) -> LockError {
    loop {
        held.clone().lost().await;
        if let Err(error) = held.check() {
            return error;
        }
    }
}
