use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;

use axum::body::{Body, HttpBody as _};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};

/// How much of a body is read.
const BODY_LIMIT: usize = 2 * 1024 * 1024;

/// What became of a request: what a check looks at, beside the state.
#[derive(Clone, Debug)]
pub struct Answer(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Response {
        status: StatusCode,
        headers: HeaderMap,
        /// Or why it broke off.
        body: Result<Bytes, String>,
    },
    /// The output of a task.
    Output(String),
    HungUp,
    Panicked(String),
    /// There was no service to answer it: making it panicked.
    NoService(String),
}

impl Answer {
    /// The status of the response. 200 for a [task](super::Trial::tasks) that ended, 499 for a request whose client hung up, and 500 for one that panicked.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match &self.0 {
            Kind::Response { status, .. } => *status,
            Kind::Output(_) => StatusCode::OK,
            Kind::HungUp => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
            Kind::Panicked(_) | Kind::NoService(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Whether the status is 2xx, and the body came to its end: the client believes that it was done.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status().is_success() && !matches!(self.0, Kind::Response { body: Err(_), .. })
    }

    /// Whether the service would upgrade the connection, if there were one.
    pub(super) fn asks_for_an_upgrade(&self) -> bool {
        matches!(self.status(), StatusCode::SWITCHING_PROTOCOLS | StatusCode::UPGRADE_REQUIRED)
    }

    /// Whether the request did not get to a handler that takes it, or was answered with an error of the service. A panic is the handler's own.
    pub(super) fn is_failure(&self) -> bool {
        let Kind::Response { status, .. } = self.0 else { return false };
        let not_taken = [
            StatusCode::NOT_FOUND,
            StatusCode::METHOD_NOT_ALLOWED,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            StatusCode::UNPROCESSABLE_ENTITY,
        ];
        status.is_server_error() || not_taken.contains(&status)
    }

    /// What a panic said that kept the service from being made.
    pub(super) fn why_no_service(&self) -> Option<&str> {
        if let Kind::NoService(message) = &self.0 { Some(message) } else { None }
    }

    /// Whether the trial hung up, so that the client knows nothing.
    #[must_use]
    pub fn is_hung_up(&self) -> bool {
        matches!(self.0, Kind::HungUp)
    }

    /// The headers of the response; `None` if there is none.
    #[must_use]
    pub fn headers(&self) -> Option<&HeaderMap> {
        match &self.0 {
            Kind::Response { headers, .. } => Some(headers),
            _ => None,
        }
    }

    /// The body of the response, of which 2 MiB are read; the output of a task, as `{:?}` writes it; or what a panic said. Empty if the body
    /// broke off.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.0 {
            Kind::Response { body: Ok(body), .. } => String::from_utf8_lossy(body).into_owned(),
            Kind::Output(text) | Kind::Panicked(text) | Kind::NoService(text) => text.clone(),
            Kind::HungUp | Kind::Response { body: Err(_), .. } => String::new(),
        }
    }

    /// Reads the body, as a client does: the request has not ended before.
    pub(super) async fn read(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        let body = read(body).await.map_err(|error| error.to_string());
        Self(Kind::Response { status: parts.status, headers: parts.headers, body })
    }

    pub(super) fn output(output: &impl fmt::Debug) -> Self {
        Self(Kind::Output(format!("{output:?}")))
    }

    pub(super) fn hung_up() -> Self {
        Self(Kind::HungUp)
    }

    pub(super) fn no_service(message: String) -> Self {
        Self(Kind::NoService(message))
    }

    pub(super) fn panicked(panic: &(dyn Any + Send)) -> Self {
        Self(Kind::Panicked(panic_message(panic)))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Response { status, body: Ok(_), .. } => write!(f, "{}", status.as_u16()),
            Kind::Response { status, body: Err(error), .. } => {
                write!(f, "{}, and the body broke off: {error}", status.as_u16())
            }
            Kind::Output(text) => f.write_str(text),
            Kind::HungUp => f.write_str("hung up"),
            Kind::Panicked(message) | Kind::NoService(message) => write!(f, "panicked: {message}"),
        }
    }
}

/// The beginning of a body.
async fn read(mut body: Body) -> Result<Bytes, axum::Error> {
    let mut read = BytesMut::new();
    while read.len() < BODY_LIMIT
        && let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
    {
        if let Ok(data) = frame?.into_data() {
            read.extend_from_slice(&data);
        }
    }
    read.truncate(BODY_LIMIT);
    Ok(read.freeze())
}

/// What a panic said.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a value that is no text".to_owned())
}
