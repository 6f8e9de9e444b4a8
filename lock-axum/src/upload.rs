//! Bodies that are read before a lock is acquired: in a given time, and as far as the manager has room.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use http_body::{Body as _, Frame};
use thiserror::Error;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::buffered_bytes::BufferedBytes;
use crate::problem::{BUFFER_FULL, Problem};

/// How long a body may take to arrive by default, in milliseconds.
pub(crate) const DEFAULT_TIMEOUT_MS: u64 = 30_000;

/// Limits a body while it arrives: its time, and its room in the manager.
pub(crate) struct Upload {
    account: BufferedBytes,
    timeout: Duration,
    ends: Instant,
    /// Not before the body has to be waited for: most have arrived with their head.
    timer: Option<Pin<Box<Sleep>>>,
}

/// Why a body is not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Stopped {
    /// The manager has no room for it.
    #[error("the bodies of waiting requests exceed max_buffered_bytes")]
    Full,
    /// It alone is larger than this, the limit for all of them.
    #[error("the request body is larger than max_buffered_bytes, {0}")]
    TooLarge(usize),
    /// It takes longer than this.
    #[error("the request body did not arrive within {0:?}")]
    TimedOut(Duration),
    /// It was the slowest when another one needed its room.
    #[error("the request body was the slowest when max_buffered_bytes was reached")]
    GivenUp,
}

/// The next part of a body.
pub(crate) type Part = Result<Frame<Bytes>, axum::Error>;

impl Upload {
    pub(crate) fn new(account: BufferedBytes, timeout: Duration) -> Self {
        Self { account, timeout, ends: Instant::now() + timeout, timer: None }
    }

    /// Polls the body for its next part.
    pub(crate) fn poll_frame(
        &mut self,
        mut body: Pin<&mut Body>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Part>, Stopped>> {
        match body.as_mut().poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let to_come = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
                Poll::Ready(self.count(&frame, to_come).map(|()| Some(Ok(frame))))
            }
            Poll::Ready(end) => Poll::Ready(Ok(end)),
            Poll::Pending => self.poll_stopped(cx).map(Err),
        }
    }

    /// The body is not given up any more. What is read of it from now on still counts.
    ///
    /// # Errors
    ///
    /// If it was given up before.
    pub(crate) fn complete(&mut self) -> Result<(), Stopped> {
        if self.account.complete() { Ok(()) } else { Err(Stopped::GivenUp) }
    }

    /// What counts against the limit of the manager until it is dropped.
    pub(crate) fn into_account(self) -> BufferedBytes {
        self.account
    }

    /// Counts a frame, behind which at least so many bytes come.
    fn count(&mut self, frame: &Frame<Bytes>, to_come: usize) -> Result<(), Stopped> {
        if Instant::now() >= self.ends {
            return Err(Stopped::TimedOut(self.timeout));
        }
        match frame.data_ref() {
            Some(data) if !self.account.take(data.len()) => {
                if !self.account.complete() {
                    return Err(Stopped::GivenUp);
                }
                // If it alone is too large, it will not fit later either.
                let more = data.len().saturating_add(to_come);
                Err(self.account.exceeds_all(more).map_or(Stopped::Full, Stopped::TooLarge))
            }
            _ => Ok(()),
        }
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Stopped> {
        if self.account.poll_given_up(cx).is_ready() {
            return Poll::Ready(Stopped::GivenUp);
        }
        let ends = self.ends;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(ends)));
        timer.as_mut().poll(cx).map(|()| Stopped::TimedOut(self.timeout))
    }
}

impl Stopped {
    pub(crate) fn problem(self, retry_after: Duration) -> Problem {
        let detail = match self {
            Self::Full => {
                let detail =
                    "the bodies of requests that wait for locks take up all the memory that is set aside for them";
                return Problem::unavailable(BUFFER_FULL, detail, retry_after);
            }
            Self::TooLarge(most) => {
                let detail = format!("the request body is larger than {most} bytes");
                return Problem::untyped(StatusCode::PAYLOAD_TOO_LARGE, detail);
            }
            Self::TimedOut(timeout) => format!("the request body did not arrive within {timeout:?}"),
            Self::GivenUp => {
                "the request body arrived too slowly: the memory that is set aside for bodies was needed for others"
                    .to_owned()
            }
        };
        Problem::untyped(StatusCode::REQUEST_TIMEOUT, detail)
    }
}
