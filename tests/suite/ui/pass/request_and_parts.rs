//! `Request` and `Parts` carry the lease in their extensions; other types of that name are left alone.

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path};
use axum::http::request;
use axum::routing::post;
use lock_axum::{Lease, distributed_lock};

#[distributed_lock(resource = "{id}")]
async fn with_request(Path(id): Path<u8>, request: axum::extract::Request) -> String {
    let lease = request.extensions().get::<Lease>();
    format!("{id} {:?}", lease.map(Lease::token))
}

#[distributed_lock(resource = "{id}")]
async fn with_body(Path(id): Path<u8>, mut request: axum::http::Request<Body>) -> String {
    request.extensions_mut().insert(id);
    request.uri().to_string()
}

#[distributed_lock(resource = "{parts.method}")]
async fn with_parts(parts: request::Parts, body: String) -> String {
    format!("{} {body}", parts.extensions.get::<Lease>().is_some())
}

use axum::extract::Request as Rq;

type Head = request::Parts;

#[distributed_lock(resource = "all")]
async fn under_other_names(head: Head, request: Rq) -> String {
    format!("{:?} {:?}", head.extensions.get::<Lease>(), request.extensions().get::<Lease>())
}

mod graphql {
    pub struct Request(pub String);
}

impl<S: Sync> FromRequestParts<S> for graphql::Request {
    type Rejection = ();

    async fn from_request_parts(parts: &mut request::Parts, _: &S) -> Result<Self, ()> {
        Ok(Self(parts.uri.to_string()))
    }
}

#[distributed_lock(resource = "{query.0}")]
async fn with_another(query: graphql::Request) -> String {
    query.0
}

fn main() {
    let _: Router = Router::new()
        .route("/a/{id}", post(with_request))
        .route("/b/{id}", post(with_body))
        .route("/c", post(with_parts))
        .route("/d", post(with_another))
        .route("/e", post(under_other_names));
}
