//! Mistakes in the settings of a `LockLayer` are found when the router is built, and one that only a request can show is
//! logged once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post as on_post;
use lock_axum::limits::{MAX_HOLD, MAX_WAIT, MIN_TTL};
use lock_axum::{LockLayer, LockManager};
use lock_support::Events;
use lock_support::http::{manager, nodes, post, serve};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The message of the panic, if a layer with these settings panics.
fn panic_of(locks: &LockManager, set: impl FnOnce(LockLayer) -> LockLayer) -> Option<String> {
    let layer = LockLayer::new(locks.clone(), "r");
    let panic = catch_unwind(AssertUnwindSafe(|| drop(set(layer)))).err()?;
    let literal = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    literal.or_else(|| panic.downcast_ref::<String>().cloned())
}

#[test]
fn a_setting_out_of_range_panics_at_construction_and_names_value_and_range() {
    type Set = fn(LockLayer) -> LockLayer;
    let locks = LockManager::builder().nodes(nodes()).max_ttl(SECOND * 30).max_buffered_bytes(1000).connect_lazy();
    let locks = locks.unwrap();
    let wrong: [(Set, &str); 13] = [
        (|layer| layer.ttl(SECOND * 31), "ttl must be between 100ms and 30s, got 31s"),
        (|layer| layer.ttl(MS * 99), "ttl must be between 100ms and 30s, got 99ms"),
        (|layer| layer.wait(MAX_WAIT + SECOND), "wait must be between 0ns and 86400s, got 86401s"),
        (|layer| layer.max_hold(Duration::ZERO), "max_hold must be between 1ms and 604800s, got 0ns"),
        (|layer| layer.max_hold(MAX_HOLD + SECOND), "max_hold must be between 1ms and 604800s, got 604801s"),
        (|layer| layer.body_limit(1001), "body_limit must be at most the manager's max_buffered_bytes, 1000, got 1001"),
        (|layer| layer.permits(0), "permits must be between 1 and 100, got 0"),
        (|layer| layer.permits(101), "permits must be between 1 and 100, got 101"),
        (|layer| layer.read().permits(3), "read cannot be combined with permits: each permit has one holder"),
        (|layer| layer.permits(3).read(), "read cannot be combined with permits: each permit has one holder"),
        (|layer| layer.busy_status(StatusCode::OK), "busy_status must be one of [409, 423, 429, 503], got 200 OK"),
        (|layer| layer.retry_after(SECOND / 2), "retry_after must be whole seconds between 1s and 3600s, got 500ms"),
        // A setting that is made later does not hide one that was wrong.
        (|layer| layer.wait(SECOND).ttl(SECOND * 31).ttl(SECOND), "ttl must be between 100ms and 30s, got 31s"),
    ];
    for (set, message) in wrong {
        assert_eq!(panic_of(&locks, set).as_deref(), Some(message));
    }
    let good: [Set; 8] = [
        |layer| layer.ttl(MIN_TTL),
        |layer| layer.ttl(SECOND * 30),
        |layer| layer.wait(MAX_WAIT),
        |layer| layer.max_hold(MS),
        |layer| layer.permits(1),
        |layer| layer.permits(100),
        |layer| layer.max_hold(MAX_HOLD),
        |layer| layer.body_limit(1000),
    ];
    for set in good {
        assert_eq!(panic_of(&locks, set), None);
    }
}

#[test]
#[should_panic(expected = "permits cannot be combined with several resources: a set has locks only")]
fn permits_of_several_resources_panic_at_construction() {
    drop(LockLayer::new_all(LockManager::in_memory(), ["a", "b"]).permits(2));
}

#[test]
fn a_ttl_that_is_too_short_for_the_min_validity_of_the_manager_panics_at_construction() {
    let locks = LockManager::builder().nodes(nodes()).min_validity(SECOND).connect_lazy().unwrap();
    assert_eq!(
        panic_of(&locks, |layer| layer.ttl(MS * 500)).as_deref(),
        Some(
            "the manager's min_validity does not fit a ttl of 500ms: min_validity must be between 0ns and 493ms, got 1s"
        )
    );
    assert_eq!(panic_of(&locks, |layer| layer.ttl(SECOND * 2)), None);
}

#[test]
#[should_panic(expected = "nothing separates the value of `{warehouse}` from that of `{query.sku}`")]
fn placeholders_without_a_separator_panic_at_construction() {
    drop(LockLayer::new(LockManager::in_memory(), "stock:{warehouse}-{query.sku}"));
}

#[test]
#[should_panic(expected = "invalid resource template \"stock:{sku\"")]
fn a_malformed_template_panics_at_construction() {
    drop(LockLayer::new(LockManager::in_memory(), "stock:{sku"));
}

/// The message of the panic, if a layer with this template panics.
fn panic_of_template(template: &str) -> Option<String> {
    let panic = catch_unwind(|| drop(LockLayer::new(LockManager::in_memory(), template))).err()?;
    let literal = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    literal.or_else(|| panic.downcast_ref::<String>().cloned())
}

#[test]
fn a_placeholder_that_no_request_could_fill_panics_at_construction_and_names_the_remedy() {
    for (template, message) in [
        ("files:{*rest}", "`{*rest}` is not a valid placeholder: write `{rest}`"),
        ("{ a }", "`{ a }` is not a valid placeholder: write `{a}`"),
        ("{a:?}", "`{a:?}` is not a valid placeholder: write `{a}`"),
        ("{:a}", "`{:a}` is not a valid placeholder: write `{a}`"),
        ("{a b}", "`{a b}` is not a valid placeholder: path parameters have names of letters, digits, `_` and `-`"),
        ("{header.a b}", "`{header.a b}` is not a valid placeholder: `a b` is not a header name"),
        ("{query.a b}", "`{query.a b}` is not a valid placeholder: query parameters have names without whitespace"),
    ] {
        let panic = panic_of_template(template).expect(template);
        assert_eq!(panic, format!("invalid resource template {template:?}: {message}"));
    }
    for valid in ["{sku}", "{sku-2_b}", "{größe}", "{header.x-tenant}", "{query.q}", "{query.filter[a.b]:x}"] {
        assert_eq!(panic_of_template(valid), None, "{valid}");
    }
}

#[tokio::test]
async fn a_path_parameter_that_no_route_has_is_logged_once_for_each_layer() {
    let events = Events::record();
    let locks = manager(&nodes());
    let (stock, order) = (LockLayer::new(locks.clone(), "stock:{sku}"), LockLayer::new(locks.clone(), "order:{id}"));
    let app = Router::new()
        .route("/stock", on_post(async || ()).route_layer(stock.clone()))
        .route("/returns", on_post(async || ()).route_layer(stock))
        .route("/order", on_post(async || ()).route_layer(order));
    let address = serve(app, &locks).await;
    for path in ["/stock", "/stock", "/order", "/returns", "/order"] {
        let response = post(address, path).await;
        assert_eq!(response.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(response.problem()["type"], "about:blank");
    }
    let logged = events.named("lock.no_path_parameter");
    assert!(
        logged[0].fields.contains("parameter=\"sku\"") && logged[1].fields.contains("parameter=\"id\""),
        "{logged:?}"
    );
    assert_eq!((logged.len(), logged[0].level), (2, tracing::Level::ERROR));
}
