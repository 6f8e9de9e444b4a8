use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// What became of a future that was polled a limited number of times.
#[derive(Debug)]
pub enum Polled<T> {
    /// It completed.
    Done(T),
    /// It was dropped while it was pending.
    Dropped,
}

/// Polls a future at most `times` times, each time after it was woken, and drops it if it is still pending. With `times` 0 it
/// is dropped before its first poll.
pub async fn poll_times<F: Future>(times: usize, future: F) -> Polled<F::Output> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(Polled::Dropped);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Polled::Done(output)),
            Poll::Pending if left == 0 => Poll::Ready(Polled::Dropped),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
