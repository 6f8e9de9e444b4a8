//! The names at the root of the crate go together with axum's.

use axum::extract::*;
use axum::response::*;
use lock_axum::*;

/// Uses names of both: were one of them ambiguous, this would not compile.
async fn deduct(Path(sku): Path<String>, State(locks): State<LockManager>, request: Request) -> Response {
    let guard = locks.lock(format!("stock:{sku}")).acquire().await;
    match guard {
        Ok(guard) => format!("{} {}", request.uri(), guard.token()).into_response(),
        Err(LockError::Contended { .. }) => axum::http::StatusCode::CONFLICT.into_response(),
        Err(_) => axum::http::StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

#[tokio::test]
async fn glob_imports_of_axum_and_lock_axum_do_not_conflict() {
    let request = axum::http::Request::get("/stock/42").body(axum::body::Body::empty()).unwrap();
    let response = deduct(Path("42".to_owned()), State(LockManager::in_memory()), request).await;
    assert_eq!(response.status(), axum::http::StatusCode::OK);
}

#[test]
fn a_rejection_can_be_sent_shared_and_boxed_as_an_error() {
    fn check<E: std::error::Error + Send + Sync + 'static>(error: E) -> Box<dyn std::error::Error + Send + Sync> {
        error.into()
    }
    let rejection = LockRejection::from(KeyError::new("the header x-tenant is missing"));
    assert_eq!(check(rejection).to_string(), "the header x-tenant is missing");
}

#[test]
fn what_only_authors_of_nodes_need_is_in_a_module_of_its_own() {
    let _: lock_axum::node::Operation = lock_axum::node::Operation::LeaveQueue;
}
