//! Layer and macro tell observers the template that they make the resource from, and never the resource.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::Path;
use axum::routing::post as on_post;
use axum::{Extension, Router};
use lock_axum::observer::{AcquireBegan, LockObserver};
use lock_axum::{LockError, LockLayer, LockManager, distributed_lock};
use lock_support::MemoryCluster;
use lock_support::http::request;
use tower::ServiceExt as _;

#[derive(Default)]
struct Templates(Mutex<Vec<String>>);

impl LockObserver for Templates {
    fn acquire_began(&self, event: &AcquireBegan<'_>) {
        self.0.lock().unwrap().push(event.template.to_owned());
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
