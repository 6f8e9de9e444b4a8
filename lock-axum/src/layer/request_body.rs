use axum::body::Body;
use http::StatusCode;
use http_body::Body as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::problem::Problem;

/// Reads a whole body, including trailers, into memory.
///
/// # Errors
///
/// 413 if the body has more than `limit` bytes, 400 if it could not be read.
pub(super) async fn buffer(body: Body, limit: usize) -> Result<Body, Problem> {
    let too_large = || {
        let detail = format!("the request body is larger than {limit} bytes");
        Problem::untyped(StatusCode::PAYLOAD_TOO_LARGE, Some(detail))
    };
    // A `content-length` above the limit: reject without reading.
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(too_large());
    }
    match Limited::new(body, limit).collect().await {
        // `Bytes` have an exact size hint, which the inner service may need, for example to forward the request.
        Ok(collected) if collected.trailers().is_none() => Ok(Body::from(collected.to_bytes())),
        Ok(collected) => Ok(Body::new(collected)),
        Err(error) if is_length_limit(error.as_ref()) => Err(too_large()),
        Err(_) => Err(Problem::untyped(StatusCode::BAD_REQUEST, Some("the request body could not be read".to_owned()))),
    }
}

/// Whether a length limit caused the error: this one, or one of a layer outside, which wraps the error in its own.
fn is_length_limit(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(<dyn std::error::Error>::is::<LengthLimitError>)
}
