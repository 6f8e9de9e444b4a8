//! The responses of the lock in an OpenAPI document.

use std::collections::BTreeMap;

use http::StatusCode;
use utoipa::IntoResponses;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, RefOr, Response, ResponseBuilder};

use crate::problem::{BUFFER_FULL, BUSY, KEY_INVALID, LOST, ProblemType, UNAVAILABLE};
use crate::rejection::LockRejection;

/// Each status of a rejection, for any route: what it means, and the types of its problem documents beside `about:blank`.
const RESPONSES: [(StatusCode, &str, &[ProblemType]); 6] = [
    (
        StatusCode::BAD_REQUEST,
        "The lock cannot be named from the request, or the body could not be read.",
        &[KEY_INVALID],
    ),
    (StatusCode::REQUEST_TIMEOUT, "The body of the request did not arrive in time.", &[]),
    (StatusCode::CONFLICT, "The resource is locked by another request. Send it again.", &[BUSY]),
    (StatusCode::PAYLOAD_TOO_LARGE, "The body of the request is larger than the service keeps in memory.", &[]),
    (
        StatusCode::INTERNAL_SERVER_ERROR,
        "The lock was lost before the request completed, which may or may not have taken effect (lock-lost), or the service \
         has a mistake (about:blank).",
        &[LOST],
    ),
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "No lock can be acquired now. Send the request again.",
        &[UNAVAILABLE, BUFFER_FULL],
    ),
];

/// The responses of the lock for `#[utoipa::path]`, with the feature `utoipa`: 400, 408, 409, 413, 500 and 503, as problem documents.
///
/// A route has to document what it sets itself: another `busy_status`, the responses of `on_error`, and 403 with `adopt`.
///
/// # Examples
///
/// ```
/// use axum::extract::Path;
/// use lock_axum::{LockRejection, distributed_lock};
/// use utoipa::OpenApi;
///
/// #[distributed_lock(resource = "stock:{sku}")]
/// #[utoipa::path(post, path = "/stock/{sku}", params(("sku" = String, Path)), responses((status = 200), LockRejection))]
/// async fn deduct(Path(sku): Path<String>) -> String {
///     format!("deducting {sku}")
/// }
///
/// #[derive(OpenApi)]
/// #[openapi(paths(deduct))]
/// struct Api;
///
/// let document = serde_json::to_value(Api::openapi()).unwrap();
/// let responses = &document["paths"]["/stock/{sku}"]["post"]["responses"];
/// assert!(responses["409"]["headers"]["Retry-After"].is_object());
/// ```
impl IntoResponses for LockRejection {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let response = |(status, meaning, types): (StatusCode, &str, &[ProblemType])| {
            (status.as_str().to_owned(), RefOr::T(response(status, meaning, types)))
        };
        RESPONSES.into_iter().map(response).collect()
    }
}

fn response(status: StatusCode, meaning: &str, types: &[ProblemType]) -> Response {
    let has_retry = matches!(status, StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE);
    // Of these two statuses, every response has a type of its own.
    let blank = (!has_retry).then(|| "about:blank".to_owned());
    let uris: Vec<_> = types.iter().map(|problem_type| problem_type.uri()).chain(blank).collect();
    let of = |kind: Type| ObjectBuilder::new().schema_type(kind);
    let mut document = of(Type::Object)
        .property("type", of(Type::String).enum_values(Some(uris)))
        .property("title", of(Type::String))
        .property("status", of(Type::Integer))
        .property("detail", of(Type::String))
        .required("type")
        .required("title")
        .required("status");
    let mut response = ResponseBuilder::new().description(meaning);
    if has_retry {
        document = document.property(
            "retry_after_ms",
            of(Type::Integer).description(Some("When to send the request again, more precisely than Retry-After.")),
        );
        let seconds = HeaderBuilder::new().schema(Some(of(Type::Integer))).description(Some("In seconds."));
        response = response.header("Retry-After", seconds.build());
    }
    response.content("application/problem+json", ContentBuilder::new().schema(Some(document)).build()).build()
}
