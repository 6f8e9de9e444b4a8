//! `LockRejection` and `FencingToken` in the error types and documents of other crates.

use std::error::Error;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use lock_axum::{FencingToken, KeyError, LockError, LockManager, LockRejection};
use lock_support::Events;
use lock_support::http::{manager, nodes};

/// What `anyhow::Error`, `Box<dyn Error + Send + Sync>` and the like ask of an error.
fn is_an_error_for_every_report<E: Error + Send + Sync + 'static>() {}

const _: fn() = is_an_error_for_every_report::<LockRejection>;
const _: fn() = is_an_error_for_every_report::<LockError>;
const _: fn() = is_an_error_for_every_report::<KeyError>;

async fn twice(locks: &LockManager) -> Result<(), Box<dyn Error + Send + Sync>> {
    async fn once(locks: &LockManager) -> Result<lock_axum::LockGuard, LockRejection> {
        Ok(locks.lock("r").try_acquire().await?)
    }
    let _held = once(locks).await?;
    drop(once(locks).await?);
    Ok(())
}

#[tokio::test]
async fn a_rejection_says_why_and_its_source_is_the_lock_error() {
    let error = twice(&manager(&nodes())).await.unwrap_err();
    let rejection = error.downcast_ref::<LockRejection>().unwrap();
    let source = rejection.source().unwrap();
    assert_eq!(source.downcast_ref::<LockError>(), rejection.lock_error());
    assert!(source.to_string().starts_with("\"r\" is locked by another owner"), "{source}");
    assert_eq!(rejection.to_string(), source.to_string());

    let rejection = LockRejection::from(KeyError::new("the header x-tenant is missing"));
    assert_eq!(rejection.source().unwrap().to_string(), "the header x-tenant is missing");
    assert_eq!(rejection.to_string(), "the header x-tenant is missing");
}

#[test]
fn a_mistake_of_the_service_is_logged_under_its_own_name_and_without_the_resource() {
    let resource = || "secret:\"42\"".to_owned();
    for (error, name) in [
        (LockError::NotALock { resource: resource(), waited: Duration::ZERO, votes: Vec::new() }, "lock.not_a_lock"),
        (LockError::Upgrade { resource: resource() }, "lock.upgrade"),
        (LockError::Delegated { resource: resource() }, "lock.misconfigured"),
        (LockError::Downgrade { resource: resource() }, "lock.misconfigured"),
        (LockError::InvalidSet { resource: resource(), resources: 33 }, "lock.misconfigured"),
    ] {
        let events = Events::record();
        let response = LockRejection::from(error).into_response();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let logged = events.named(name);
        assert!(matches!(&logged[..], [event] if !event.fields.contains("secret")), "{logged:?}");
    }
}

#[test]
fn a_forced_release_of_too_many_readers_is_no_mistake_of_a_handler_and_says_what_to_do() {
    let events = Events::record();
    let error = LockError::TooManyReaders { resource: "r".into(), readers: 1024 };
    assert_eq!(LockRejection::from(error).into_response().status(), StatusCode::CONFLICT);
    assert!(events.named("lock.misconfigured").is_empty());
}

#[tokio::test]
async fn a_token_is_deserialized_only_from_a_number_that_a_token_can_be() {
    let token = manager(&nodes()).lock("r").ttl(Duration::from_secs(5)).acquire().await.unwrap().token();
    let json = serde_json::to_string(&token).unwrap();
    assert_eq!(json, token.to_string(), "a plain number");
    assert_eq!(serde_json::from_str::<FencingToken>(&json).unwrap(), token);

    let largest = (1_u64 << 53) - 1;
    for good in [1, largest] {
        assert_eq!(serde_json::from_value::<FencingToken>(good.into()).unwrap().get(), good);
    }
    for wrong in ["0", "-1", "9007199254740992", "18446744073709551615"] {
        let error = serde_json::from_str::<FencingToken>(wrong).unwrap_err().to_string();
        assert!(error.contains(wrong) && error.contains("a fencing token from 1 to 9007199254740991"), "{error}");
    }
}
