//! The dashboard: what it shows of locks, waiters and masters. In virtual time.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use lock_axum::{LockManager, LockNode, MemoryNode, dashboard};
use lock_support::ShardedMaster;
use lock_support::http::{Response, manager, nodes};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn app(locks: &LockManager) -> Router {
    Router::new().nest("/locks", dashboard(locks.clone()).into())
}

pub(crate) async fn answer(app: &Router, method: Method, path: &str) -> (StatusCode, HeaderMap, Body) {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let (parts, body) = app.clone().oneshot(request).await.unwrap().into_parts();
    (parts.status, parts.headers, body)
}

pub(crate) async fn get(app: &Router, path: &str) -> Response {
    let (status, headers, body) = answer(app, Method::GET, path).await;
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    Response { status, headers, body }
}

/// An open page: the stream of its states.
pub(crate) struct Page {
    pub(crate) body: BodyDataStream,
    pub(crate) text: String,
}

impl Page {
    pub(crate) async fn open(app: &Router) -> Self {
        let (status, headers, body) = answer(app, Method::GET, "/locks/events").await;
        assert_eq!(
            (status, &headers[header::CONTENT_TYPE]),
            (StatusCode::OK, &HeaderValue::from_static("text/event-stream"))
        );
        Self { body: body.into_data_stream(), text: String::new() }
    }

    /// The next state; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let state = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
                self.text = rest.to_owned();
                return Some(state);
            }
            let data = self.body.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }

    /// The next state that a page shows which is opened now.
    pub(crate) async fn now(app: &Router) -> Value {
        // What other pages were shown is half a second old at most.
        sleep(SECOND).await;
        Self::open(app).await.next().await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn the_process_is_named() {
    let state = Page::now(&app(&manager(&nodes()))).await;
    assert_eq!(state["place"]["process"], std::process::id());
    assert!(state["place"]["program"].is_string() && state["place"].get("host").is_some(), "{}", state["place"]);
}

#[tokio::test(start_paused = true)]
async fn held_locks_are_listed_by_template_with_token_age_validity_and_waiters() {
    let locks = LockManager::in_memory();
    let app = app(&locks);
    let state = Page::now(&app).await;
    assert_eq!((&state["held"], &state["waiting"], &state["templates"]), (&0.into(), &0.into(), &Value::Array(vec![])));

    let stock = |sku: &str| locks.lock(format!("stock:{sku}")).template("stock:{sku}").renew(false);
    let (old, report) = (stock("1").acquire().await.unwrap(), locks.lock("report").acquire().await.unwrap());
    sleep(SECOND * 3).await;
    let contended = stock("2").acquire().await.unwrap();
    let waiting = [(); 2].map(|()| tokio::spawn(stock("2").wait(SECOND * 60).acquire()));
    let state = Page::now(&app).await;

    assert_eq!((&state["held"], &state["waiting"], &state["left_out"]), (&3.into(), &2.into(), &0.into()));
    let [other, stocks] = state["templates"].as_array().unwrap().as_slice() else { panic!("{state}") };
    assert_eq!((&other["template"], &other["held"], &other["waiting"]), (&"other".into(), &1.into(), &0.into()));
    assert_eq!(other["rows"][0]["token"], report.token().to_string());
    assert_eq!(
        (&stocks["template"], &stocks["held"], &stocks["waiting"]),
        (&"stock:{sku}".into(), &2.into(), &2.into())
    );
    // The one that is waited for comes first.
    for (row, guard, resource, age, waiting) in
        [(0, &contended, "stock:2", SECOND, 2), (1, &old, "stock:1", SECOND * 4, 0)]
    {
        let row = &stocks["rows"][row];
        assert_eq!((&row["resource"], &row["waiting"]), (&resource.into(), &waiting.into()));
        assert_eq!(row["token"], guard.token().to_string());
        let millis = |field: &str| Duration::from_millis(row[field].as_u64().unwrap());
        let (held_for, valid_for) = (millis("age_ms"), millis("remaining_ms"));
        assert!(held_for >= age && held_for < age + SECOND, "{row}");
        assert!(valid_for <= guard.remaining() && valid_for > guard.remaining() - SECOND, "{row}");
    }

    drop((old, report, contended));
    waiting.iter().for_each(JoinHandle::abort);
    let state = Page::now(&app).await;
    assert_eq!((&state["held"], &state["waiting"]), (&0.into(), &0.into()));
}

#[tokio::test(start_paused = true)]
async fn locks_that_are_read_or_adopted_are_listed_as_such() {
    let nodes = nodes();
    let (here, there) = (manager(&nodes), manager(&nodes));
    let readers = [here.read("r").acquire().await.unwrap(), here.read("r").acquire().await.unwrap()];
    let writer = here.lock("w").acquire().await.unwrap();
    let theirs = there.lock("a").acquire().await.unwrap();
    let delegation = theirs.delegate().create().unwrap();
    let adopted = here.adopt(delegation.as_str(), "a").await.unwrap();
    let state = Page::now(&app(&here)).await;
    let rows = state["templates"][0]["rows"].as_array().unwrap();
    let mut kinds: Vec<_> = rows.iter().map(|row| (row["resource"].as_str(), row["kind"].as_str())).collect();
    kinds.sort_unstable();
    let reads = (Some("r"), Some("reads"));
    assert_eq!(kinds, [(Some("a"), Some("adopted")), reads, reads, (Some("w"), None)]);
    drop((readers, writer, adopted, theirs));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_held_elsewhere_is_listed_while_callers_wait_for_it() {
    let nodes = nodes();
    let (here, there) = (manager(&nodes), manager(&nodes));
    let _held = there.lock("stock:1").acquire().await.unwrap();
    let waiting = tokio::spawn(here.lock("stock:1").template("stock:{sku}").wait(SECOND * 60).acquire());
    let state = Page::now(&app(&here)).await;
    assert_eq!((&state["held"], &state["waiting"]), (&0.into(), &1.into()));
    let row = &state["templates"][0]["rows"][0];
    assert_eq!((&row["resource"], &row["waiting"]), (&"stock:1".into(), &1.into()));
    assert_eq!((&row["token"], &row["age_ms"], &row["remaining_ms"]), (&Value::Null, &Value::Null, &Value::Null));
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn permits_have_a_row_each_and_those_who_wait_for_any_have_one() {
    let locks = LockManager::in_memory();
    let export = || locks.permits("export", 2).wait(SECOND * 60).acquire();
    let (_lock, _one, _other) = (locks.lock("export").acquire().await, export().await, export().await);
    let waiting = [(); 3].map(|()| tokio::spawn(export()));
    let state = Page::now(&app(&locks)).await;
    assert_eq!((&state["held"], &state["waiting"]), (&3.into(), &3.into()));
    let rows = state["templates"][0]["rows"].as_array().unwrap();
    let mut shown: Vec<_> = rows
        .iter()
        .map(|row| (row["resource"].as_str().unwrap(), row["any_permit"] == true, row["waiting"].as_u64().unwrap()))
        .collect();
    shown.sort_unstable();
    let none = |resource| (resource, false, 0);
    assert_eq!(shown, [none("export"), ("export", true, 3), none("export{0}"), none("export{1}")]);
    waiting.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_rows_are_shown_and_the_others_are_counted() {
    let locks = LockManager::in_memory();
    let lock = |number: usize| locks.lock(format!("stock:{number}")).template("stock:{sku}");
    let guards = join_all((0..1001).map(|number| lock(number).acquire())).await;
    sleep(SECOND).await;
    let _young = locks.lock("young").template("job:{name}").acquire().await.unwrap();
    let waiting = tokio::spawn(lock(7).wait(SECOND * 60).acquire());
    let state = Page::now(&app(&locks)).await;
    assert_eq!((&state["held"], &state["left_out"]), (&1002.into(), &2.into()));
    let [jobs, stocks] = state["templates"].as_array().unwrap().as_slice() else { panic!("two templates") };
    assert_eq!((jobs["held"].as_u64(), jobs["rows"].as_array().unwrap().len()), (Some(1), 0), "counted all the same");
    assert_eq!((stocks["held"].as_u64(), stocks["rows"].as_array().unwrap().len()), (Some(1001), 1000));
    assert_eq!(stocks["rows"][0]["resource"], "stock:7", "the one that is waited for is never left out");
    waiting.abort();
    drop(guards);
}

#[tokio::test(start_paused = true)]
async fn redacted_names_are_absent() {
    let nodes = nodes();
    let locks = LockManager::builder().nodes(nodes.clone()).redact(true).connect().await.unwrap();
    let request = |name: &str| locks.lock(name).template("patient:{name}").wait(SECOND * 60);
    let guard = request("patient:mallory").acquire().await.unwrap();
    let _elsewhere = manager(&nodes).lock("patient:trent").acquire().await.unwrap();
    let waiting = ["patient:mallory", "patient:trent"].map(|name| tokio::spawn(request(name).acquire()));
    let state = Page::now(&app(&locks)).await;
    assert_eq!((&state["held"], &state["waiting"]), (&1.into(), &2.into()));
    assert!(!state.to_string().contains("mallory") && !state.to_string().contains("trent"), "{state}");
    let section = &state["templates"][0];
    assert_eq!((&section["template"], &section["rows"][0]["resource"]), (&"patient:{name}".into(), &Value::Null));
    assert_eq!(section["rows"][0]["token"], guard.token().to_string());
    waiting.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn shards_without_a_majority_are_named_if_others_have_one() {
    let (master, other) = (ShardedMaster::new(4), MemoryNode::new());
    // All shards have to be there when their number is recorded.
    let locks = LockManager::builder().shards(4).nodes([master.clone()]).connect().await.unwrap();
    master.node(2).set_down(true);
    assert_eq!(shown_shards(&locks).await, (Some(false), serde_json::json!([2])));
    let locks = LockManager::builder().shards(4).nodes([other.clone()]).connect_lazy().unwrap();
    other.set_down(true);
    assert_eq!(shown_shards(&locks).await, (Some(false), serde_json::json!([])), "there are no locks at all");
}

/// What the page says of the shards, when it has asked.
async fn shown_shards(locks: &LockManager) -> (Option<bool>, Value) {
    let mut page = Page::open(&app(locks)).await;
    loop {
        let state = page.next().await.unwrap();
        if !state["quorum"].is_null() {
            return (state["quorum"].as_bool(), state["some_shards"].clone());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_master_is_shown_with_what_is_wrong_with_it() {
    let nodes: [MemoryNode; 5] = std::array::from_fn(|_| MemoryNode::new());
    let locks = manager(&nodes);
    let _ = locks.health().await;
    let app = app(&locks);
    let mut page = Page::open(&app).await;
    let state = page.next().await.unwrap();
    assert_eq!((&state["quorum"], &state["masters"]), (&Value::Null, &Value::Array(vec![])), "nobody has asked yet");
    let masters = |state: &Value| -> Vec<String> {
        let masters = state["masters"].as_array().unwrap().iter();
        masters.map(|master| master["state"].as_str().unwrap().to_owned()).collect()
    };
    let state = page.next().await.unwrap();
    assert_eq!((state["quorum"].as_bool(), masters(&state)), (Some(true), vec!["up".to_owned(); 5]));
    assert_eq!(state["masters"][0]["name"], nodes[0].name());

    // One that forgot joins with a majority of the others only.
    nodes[0].set_down(true);
    nodes[2].forget();
    let mut until = async |expected: [&str; 5]| {
        let reached = async {
            loop {
                let state = page.next().await.unwrap();
                if masters(&state) == expected {
                    return state;
                }
            }
        };
        timeout(SECOND * 30, reached).await.expect("each master in its state")
    };
    until(["down", "up", "joining", "up", "up"]).await;
    nodes[1].set_delay(Duration::from_secs(3600));
    let state = until(["down", "hung", "joining", "up", "up"]).await;
    assert_eq!(state["quorum"].as_bool(), Some(false));
    assert!(state["masters"][0]["problem"].as_str().unwrap().starts_with("not reachable"), "{state}");

    drop(page);
    sleep(SECOND * 60).await;
    let state = Page::open(&app).await.next().await.unwrap();
    assert_eq!(state["quorum"], Value::Null, "what the masters said a minute ago is not shown");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_looks_like_another_one_is_shown_with_what_tells_them_apart() {
    let locks = LockManager::in_memory();
    let (plain, turned) = ("stock:42", "stock:\u{202e}24");
    let _guards = [locks.lock(plain).acquire().await.unwrap(), locks.lock(turned).acquire().await.unwrap()];
    let state = Page::now(&app(&locks)).await;
    let rows = state["templates"][0]["rows"].as_array().unwrap();
    let mut names: Vec<_> = rows.iter().map(|row| (row["resource"].as_str(), row["shown"].as_str())).collect();
    names.sort_unstable();
    assert_eq!(names, [(Some(plain), Some(plain)), (Some(turned), Some("stock:\\u{202e}24"))]);
}
