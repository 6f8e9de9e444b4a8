//! The resources that layer and macro make of a request, and the template that they tell observers, and never the resource.

use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::post as on_post;
use axum::{Extension, Router};
use lock_axum::observer::{LockEvent, LockObserver};
use lock_axum::{Lease, LockError, LockLayer, LockManager, distributed_lock};
use lock_support::http::request;
use lock_support::{Events, MemoryCluster};
use tower::ServiceExt as _;

#[derive(Default)]
struct Templates(Mutex<Vec<String>>);

impl LockObserver for Templates {
    fn observe(&self, event: &LockEvent<'_>) {
        if let LockEvent::AcquireBegan { template, .. } = event {
            self.0.lock().unwrap().push((*template).to_owned());
        }
    }
}

#[distributed_lock(resource = "stock:{sku}:{shop}")]
async fn handler(Path((sku, shop)): Path<(String, u8)>) -> String {
    format!("{sku} {shop}")
}

#[distributed_lock(key = format!("stock:{sku}"))]
async fn with_key(Path(sku): Path<String>) -> String {
    sku
}

#[distributed_lock(resource = "stock:{sku}", manager = locks, ttl = "5s")]
async fn function(locks: &LockManager, sku: u8) -> Result<u8, LockError> {
    Ok(sku)
}

#[tokio::test]
async fn layer_and_macro_tell_their_template() {
    let templates = Arc::<Templates>::default();
    let locks = MemoryCluster::new(3).builder().observer(templates.clone()).connect().await.unwrap();
    let layer = LockLayer::new(locks.clone(), "layer:{sku}");
    let keyed = LockLayer::with_key(locks.clone(), |parts| Ok(parts.uri.path().to_owned()));
    let app = Router::new()
        .route("/macro/{sku}/{shop}", on_post(handler))
        .route("/macro-key/{sku}", on_post(with_key))
        .route("/layer/{sku}", on_post(async || ()).route_layer(layer))
        .route("/layer-key", on_post(async || ()).route_layer(keyed))
        .layer(Extension(locks.clone()));
    let expected = [
        ("/macro/42/7", "stock:{sku}:{shop}"),
        ("/macro-key/42", "other"),
        ("/layer/42", "layer:{sku}"),
        ("/layer-key", "other"),
    ];
    for (path, template) in expected {
        let response = app.clone().oneshot(request(path).body(Body::empty()).unwrap()).await.unwrap();
        assert!(response.status().is_success(), "{path}");
        assert_eq!(std::mem::take(&mut *templates.0.lock().unwrap()), [template], "{path}");
    }
    function(&locks, 42).await.unwrap();
    assert_eq!(*templates.0.lock().unwrap(), ["stock:{sku}"]);
}

/// Two teams' documents of one number, by nested routers that both call their parameter `id`.
#[tokio::test]
async fn a_path_parameter_that_nested_routers_have_twice_is_refused() {
    let (locks, events) = (LockManager::in_memory(), Events::record());
    let layer = LockLayer::new(locks.clone(), "doc:{id}");
    let document = async |Path(parameters): Path<Vec<(String, String)>>| format!("{parameters:?}");
    let documents = Router::new().route("/doc/{id}", on_post(document).route_layer(layer.clone()));
    let services = Router::new().route("/doc/{id}", on_post(document)).layer(layer.clone());
    let app = Router::new().nest("/team/{id}", documents).nest("/group/{id}", services);
    for path in ["/team/A/doc/7", "/team/B/doc/7", "/group/A/doc/7"] {
        let response = app.clone().oneshot(request(path).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "{path}");
    }
    let refused = events.named("lock.ambiguous_path_parameter");
    let [refused] = &refused[..] else { panic!("one for the layer and its clones: {refused:?}") };
    assert!(refused.fields.contains("parameter=\"id\""), "{}", refused.fields);

    let distinct = LockLayer::new(locks, "doc:{team}/{id}");
    let documents = Router::new().route("/doc/{id}", on_post(async |lease: Lease| lease.resource().to_owned()));
    let app = Router::new().nest("/team/{team}", documents.route_layer(distinct));
    let response = app.oneshot(request("/team/A/doc/7").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(to_bytes(response.into_body(), 100).await.unwrap(), "doc:A/7");
}

/// The attribute locks by what the handler works on, so that there is nothing to confuse.
#[tokio::test]
async fn the_attribute_locks_by_the_parameters_that_the_handler_extracts() {
    #[distributed_lock(resource = "doc:{team}/{id}")]
    async fn document(Path((team, id)): Path<(String, u64)>, lease: Lease) -> String {
        format!("{team} {id} {}", lease.resource())
    }
    #[derive(serde::Deserialize)]
    struct Document {
        id: String,
    }
    #[distributed_lock(resource = "doc:{document.id}")]
    async fn by_name(Path(document): Path<Document>) -> String {
        document.id
    }
    let documents = Router::new().route("/doc/{id}", on_post(document)).route("/named/{id}", on_post(by_name));
    let app = Router::new().nest("/team/{id}", documents).layer(Extension(LockManager::in_memory()));
    let send = async |path| app.clone().oneshot(request(path).body(Body::empty()).unwrap()).await.unwrap();
    let answer = to_bytes(send("/team/A/doc/7").await.into_body(), 100).await.unwrap();
    assert_eq!(answer, "A 7 doc:A/7");
    let status = send("/team/A/named/7").await.status();
    assert!(!status.is_success(), "axum refuses a field that it finds twice: {status}");
}
