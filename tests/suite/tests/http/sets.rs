//! Several locks at once, of handlers and layers, over real connections.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, Request};
use axum::http::{StatusCode, header};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::post as on_post;
use lock_axum::{FencingToken, Lease, Leases, LockError, LockLayer, LockManager, distributed_lock};
use lock_support::eventually_async;
use lock_support::http::{is_free, manager, nodes, post, request, send, serve};

/// What a handler sees of its set.
fn names(leases: &Leases) -> String {
    assert_eq!(Lease::current().unwrap().token(), leases[0].token());
    assert!(leases.iter().all(|lease| Lease::current_for(lease.resource()).unwrap().token() == lease.token()));
    leases.iter().map(Lease::resource).collect::<Vec<_>>().join(" ")
}

#[distributed_lock(resource = ["user:{id}", "stock:{sku}"], wait = "0s")]
async fn guarded(Path((sku, id)): Path<(String, u64)>, leases: Leases, request: Request) -> String {
    assert_eq!(request.extensions().get::<Leases>().unwrap().len(), 2);
    assert!(request.extensions().get::<Lease>().is_none());
    format!("{sku} {id}: {}", names(&leases))
}

async fn layered(leases: Leases, Extension(same): Extension<Leases>) -> String {
    assert_eq!(same[0].token(), leases[0].token());
    names(&leases)
}

/// A service with a guarded handler and a layer.
fn app(locks: &LockManager) -> Router {
    let layer = LockLayer::new_all(locks.clone(), ["user:{header.x-user}", "stock:{sku}"]).wait(Duration::ZERO);
    let body = LockLayer::new_all(locks.clone(), ["stock:1", "body"]).hold_until_body_end();
    Router::new()
        .route("/guarded/{sku}/{id}", on_post(guarded))
        .route("/layered/{sku}", on_post(layered).route_layer(layer))
        .route("/token", on_post(async |_: FencingToken| ()).route_layer(LockLayer::new_all(locks.clone(), ["a", "b"])))
        .route(
            "/body",
            on_post(async || Body::from_stream(futures_util::stream::pending::<Result<String, LockError>>()))
                .route_layer(body),
        )
        .layer(Extension(locks.clone()))
}

// promise: several-locks
#[tokio::test]
async fn a_handler_and_a_layer_lock_several_resources() {
    let nodes = nodes();
    let locks = manager(&nodes);
    let tokens = map_response(async |mut response: Response| {
        let leases = response.extensions().get::<Leases>().map_or(0, Leases::len);
        response.headers_mut().insert("x-leases", leases.into());
        response
    });
    let address = serve(app(&locks).layer(tokens), &locks).await;
    let by_user = |path: &str| request(path).header("x-user", "7").body(Body::empty()).unwrap();

    let response = post(address, "/guarded/a%3Ab/7").await;
    assert_eq!(response.text(), "a:b 7: user:7 stock:a%3Ab");
    assert_eq!(response.headers["x-leases"], "2", "for outer middleware");
    let response = send(address, by_user("/layered/42")).await.unwrap();
    assert_eq!(response.text(), "user:7 stock:42");

    // One of them is held: neither is acquired, and the answer is that for one lock.
    let holder = locks.lock("stock:42").acquire().await.unwrap();
    for response in [post(address, "/guarded/42/7").await, send(address, by_user("/layered/42")).await.unwrap()] {
        assert_eq!((response.status, response.kind().as_str()), (StatusCode::CONFLICT, "lock-busy"));
        assert!(response.headers.contains_key(header::RETRY_AFTER));
        eventually_async("nothing is kept", async || is_free(&nodes, "user:7").await).await;
    }
    drop(holder);

    let response = post(address, "/layered/42").await;
    assert_eq!((response.status, response.kind().as_str()), (StatusCode::BAD_REQUEST, "lock-key-invalid"));
    let response = post(address, "/token").await;
    assert_eq!(response.status, StatusCode::INTERNAL_SERVER_ERROR, "a set has no token of its own");
}

// promise: several-locks
#[tokio::test]
async fn the_locks_of_a_set_are_held_until_the_body_ends() {
    let nodes = nodes();
    let locks = manager(&nodes);
    let address = serve(app(&locks), &locks).await;
    let streaming = tokio::spawn(post(address, "/body"));
    eventually_async("both are held", async || !is_free(&nodes, "stock:1").await && !is_free(&nodes, "body").await)
        .await;
    streaming.abort();
    eventually_async("both are released", async || is_free(&nodes, "stock:1").await && is_free(&nodes, "body").await)
        .await;
}

// promise: several-locks
#[tokio::test]
async fn a_function_locks_several_resources() {
    #[distributed_lock(resource = ["user:{id}", "stock:{sku}"], manager = locks)]
    async fn order(locks: &LockManager, sku: &str, id: u64) -> Result<String, LockError> {
        let stock = Lease::current_for("stock:42").unwrap();
        assert!(stock.is_valid());
        Ok(format!("{} {}", Lease::current().unwrap().resource(), stock.resource()))
    }
    let nodes = nodes();
    let locks = manager(&nodes);
    assert_eq!(order(&locks, "42", 7).await.unwrap(), "user:7 stock:42");
    eventually_async("both are released", async || {
        is_free(&nodes, "user:7").await && is_free(&nodes, "stock:42").await
    })
    .await;
}

#[test]
fn a_layer_that_cannot_lock_its_resources_panics_when_it_is_built() {
    let locks = LockManager::in_memory();
    let panics = |build: &dyn Fn() -> LockLayer| {
        let payload = catch_unwind(AssertUnwindSafe(build)).unwrap_err();
        payload
            .downcast::<String>()
            .map_or_else(|payload| payload.downcast::<&str>().unwrap().to_string(), |text| *text)
    };
    let none = panics(&|| LockLayer::new_all(locks.clone(), [""; 0]));
    assert_eq!(none, "new_all takes between 1 and 32 templates, got 0");
    let invalid = panics(&|| LockLayer::new_all(locks.clone(), ["a", "{"]));
    assert!(invalid.starts_with("invalid resource template \"{\""), "{invalid}");
    let session = panics(&|| LockLayer::new_all(locks.clone(), ["a"]).hold_until_session_end(Duration::from_secs(1)));
    assert!(session.contains("cannot hold them for a session"), "{session}");
}
