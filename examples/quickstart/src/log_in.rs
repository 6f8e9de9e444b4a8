//! HTTP basic authentication with one user. The password travels with every request, so put TLS in front of it.

use axum::{
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use data_encoding::BASE64;
use subtle::ConstantTimeEq;

/// The `Authorization` header of a user.
pub(crate) fn credentials(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes()))
}

/// A middleware that lets only requests with these credentials pass.
pub(crate) async fn log_in(State(credentials): State<String>, request: Request, next: Next) -> Response {
    let sent = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    // Takes as long for a password that is nearly right as for any other of its length.
    if bool::from(sent.ct_eq(credentials.as_bytes())) {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, r#"Basic realm="locks", charset="UTF-8""#)];
    (StatusCode::UNAUTHORIZED, challenge).into_response()
}
