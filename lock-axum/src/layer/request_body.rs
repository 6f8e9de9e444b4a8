use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::LengthLimitError;

use crate::buffered_bytes::BufferedBytes;
use crate::problem::Problem;
use crate::upload::{Stopped, Upload};

/// Reads a whole body, including trailers, into memory.
///
/// What has arrived is counted against the manager's limit, not what was announced: a client that sends slowly takes up no more than it
/// has sent.
///
/// # Errors
///
/// 413 if the body has more than `limit` bytes, or more than the manager ever has room for, 503 if it has none now, 408 if it arrives too
/// slowly, 400 if it could not be read.
pub(super) async fn buffer(
    mut body: Body,
    limit: usize,
    mut upload: Upload,
    retry_after: Duration,
) -> Result<Body, Problem> {
    let too_large = || {
        let detail = format!("the request body is larger than {limit} bytes");
        Problem::untyped(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    let stopped = |stopped: Stopped| stopped.problem(retry_after);
    // A `content-length` above the limit: reject without reading.
    if http_body::Body::size_hint(&body).lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(too_large());
    }
    // Copied, because a frame of a few bytes keeps much more alive: the buffer that the server read it into.
    let (mut data, mut trailers) = (Vec::new(), None);
    while let Some(frame) = poll_fn(|cx| upload.poll_frame(Pin::new(&mut body), cx)).await.map_err(stopped)? {
        let frame = frame.map_err(|error| {
            let unreadable = || Problem::untyped(StatusCode::BAD_REQUEST, UNREADABLE);
            if is_length_limit(&error) { too_large() } else { unreadable() }
        })?;
        match frame.into_data() {
            Ok(chunk) if chunk.len() > limit - data.len() => return Err(too_large()),
            Ok(chunk) => data.extend_from_slice(&chunk),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    upload.complete().map_err(stopped)?;
    // Without the capacity that is not used.
    let data = Some(Bytes::from(data.into_boxed_slice())).filter(|data| !data.is_empty());
    Ok(Body::new(BufferedBody { data, trailers, account: Some(upload.into_account()) }))
}

const UNREADABLE: &str = "the request body could not be read";

/// Whether a length limit caused the error, such as one of an outer layer, which wraps the error in its own.
fn is_length_limit(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(<dyn std::error::Error>::is::<LengthLimitError>)
}

/// A body in memory, which counts against the limit of the manager until it is read or dropped. Its length is exact, which
/// the inner service may need, for example to forward the request.
struct BufferedBody {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
    account: Option<BufferedBytes>,
}

impl http_body::Body for BufferedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.account = None;
        let data = self.data.take().map(Frame::data);
        let frame = data.or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, |data| data.len() as u64))
    }
}
