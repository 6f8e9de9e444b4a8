//! One request to the shop, and what its answer means.

use std::{net::SocketAddr, time::Duration};

use axum::{
    body::Bytes,
    http::{Request, StatusCode, header},
};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::Deserialize;
use tokio::time::timeout;

use crate::shop::SOLD_OUT;

/// The longest a request may take: far more than the lock's `wait`, a pause and the payment together.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BODY: usize = 64 * 1024;

/// An HTTP/1 client that keeps its connections open.
pub(crate) struct Client(HttpClient<HttpConnector, Full<Bytes>>);

/// What the shop answered.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Sold,
    SoldOut,
    Busy,
    Stale,
    LeaseLost,
    /// Nothing was sent, because nobody listens there.
    NotThere,
    Other(StatusCode),
}

impl Client {
    pub(crate) fn new() -> Self {
        Self(HttpClient::builder(TokioExecutor::new()).build_http())
    }

    /// Buys one unit.
    pub(crate) async fn buy(&self, instance: SocketAddr, sku: &str) -> Result<Answer, String> {
        let request = Request::post(format!("http://{instance}/stock/{sku}/deduct"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(r#"{"quantity":1}"#))
            .map_err(|error| error.to_string())?;
        let exchange = async {
            let response = match self.0.request(request).await {
                Ok(response) => response,
                Err(error) if error.is_connect() => return Ok(Answer::NotThere),
                Err(error) => return Err(with_causes(&error)),
            };
            let status = response.status();
            let body =
                Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(|error| error.to_string())?;
            Ok(Answer::new(status, &body.to_bytes()))
        };
        timeout(REQUEST_TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {REQUEST_TIMEOUT:?}")))
    }
}

impl Answer {
    fn new(status: StatusCode, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Problem {
            r#type: String,
        }
        if status.is_success() {
            return Self::Sold;
        }
        let problem = serde_json::from_slice(body).map_or_else(|_| String::new(), |p: Problem| p.r#type);
        let kind = problem.rsplit(['/', ':', '#']).next().unwrap_or_default();
        match (status, kind) {
            (StatusCode::CONFLICT, SOLD_OUT) => Self::SoldOut,
            (StatusCode::CONFLICT, "stale-fencing-token") => Self::Stale,
            (StatusCode::CONFLICT, "lock-busy") | (StatusCode::SERVICE_UNAVAILABLE, _) => Self::Busy,
            (StatusCode::INTERNAL_SERVER_ERROR, "lock-lost") => Self::LeaseLost,
            _ => Self::Other(status),
        }
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_problem_type_tells_answers_apart() {
        let answer = |status, body: &str| Answer::new(status, body.as_bytes());
        let conflict = StatusCode::CONFLICT;
        assert_eq!(answer(StatusCode::OK, "{}"), Answer::Sold);
        assert_eq!(answer(conflict, r#"{"type":"https://a/b/sold-out"}"#), Answer::SoldOut);
        assert_eq!(answer(conflict, r#"{"type":"urn:a:lock-busy"}"#), Answer::Busy);
        assert_eq!(answer(conflict, r#"{"type":"https://a#stale-fencing-token"}"#), Answer::Stale);
        assert_eq!(answer(conflict, "not JSON"), Answer::Other(conflict));
        assert_eq!(answer(StatusCode::SERVICE_UNAVAILABLE, ""), Answer::Busy);
        let failed = StatusCode::INTERNAL_SERVER_ERROR;
        assert_eq!(answer(failed, r#"{"type":"lock-lost"}"#), Answer::LeaseLost);
        assert_eq!(answer(failed, r#"{"type":"about:blank"}"#), Answer::Other(failed));
    }
}
