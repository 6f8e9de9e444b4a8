use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// How a future stood when it was left.
#[derive(Debug)]
pub enum Polled<T> {
    /// It was done before.
    Done(T),
    /// It was dropped where it stood.
    Dropped,
}

/// Polls a future `times` times, whenever it asks for it, and then drops it where it stands. With `times` 0 it is dropped
/// before its first poll.
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
