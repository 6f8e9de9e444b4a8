//! The page of the dashboard: where it is, what it is made of, and who may look. In virtual time, except for the shutdown.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use data_encoding::BASE64;
use futures_util::future::join_all;
use lock_axum::{LockManager, dashboard};
use lock_support::http::{PATIENCE, Response, manager, nodes};
use ring::digest::{SHA256, digest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use crate::dashboard::{Page, SECOND, answer, app, get};
use crate::readyz::CountingNode;

/// The page, asked for under a name.
async fn under(app: &Router, path: &str, host: &str) -> Response {
    let request = Request::get(path).header(header::HOST, host).body(Body::empty()).unwrap();
    let (parts, body) = app.clone().oneshot(request).await.unwrap().into_parts();
    // A stream of states does not end.
    let body = if path.ends_with("events") { Body::empty() } else { body };
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    Response { status: parts.status, headers: parts.headers, body }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_not_the_pages_is_refused_with_the_remedy() {
    let locks = manager(&nodes());
    let page = || dashboard(locks.clone());
    let app = Router::new()
        .nest_service("/bare", Router::from(page()))
        .nest_service("/named", Router::from(page().host("locks.example").unwrap()))
        .nest_service("/guarded", Router::from(page().behind_authentication()));
    for (path, host, status) in [
        ("/bare", "127.0.0.1:3000", StatusCode::OK),
        ("/bare", "[::1]:3000", StatusCode::OK),
        ("/bare", "localhost:3000", StatusCode::OK),
        ("/bare", "locks.example", StatusCode::FORBIDDEN),
        ("/bare/events", "evil.example:3000", StatusCode::FORBIDDEN),
        ("/named", "locks.example:3000", StatusCode::OK),
        ("/named/events", "locks.example", StatusCode::OK),
        ("/named", "evil.example", StatusCode::FORBIDDEN),
        ("/guarded", "evil.example", StatusCode::OK),
    ] {
        assert_eq!(under(&app, path, host).await.status, status, "{path} {host}");
    }
    let refused = under(&app, "/bare", "locks.example").await;
    let text = refused.text();
    assert!(
        text.contains("locks.example") && text.contains(".host(") && text.contains("behind_authentication"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_page_is_there_with_and_without_a_slash() {
    let app = Router::new().nest_service("/locks", Router::from(dashboard(manager(&nodes()))));
    for path in ["/locks", "/locks/"] {
        assert_eq!(get(&app, path).await.status, StatusCode::OK, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_while_nobody_looks() {
    let node = CountingNode::new();
    let locks = LockManager::builder().nodes([node.clone()]).connect().await.unwrap();
    let app = app(&locks);
    let asked = async |time: Duration| {
        let before = node.test_votes();
        sleep(time).await;
        node.test_votes() - before
    };
    let unused = asked(SECOND * 100).await;
    assert_eq!(get(&app, "/locks").await.status, StatusCode::OK);
    assert_eq!(asked(SECOND * 100).await, unused, "the page itself asks for nothing");

    let mut page = Page::open(&app).await;
    let before = node.test_votes();
    for _ in 0..100 {
        page.next().await.unwrap();
    }
    assert!(node.test_votes() > before + 40, "the masters are asked while somebody looks");
    drop(page);
    sleep(SECOND * 5).await;
    assert_eq!(asked(SECOND * 100).await, unused);
}

#[tokio::test(start_paused = true)]
async fn sixteen_pages_ask_the_masters_as_often_as_one_and_no_more_are_open() {
    let node = CountingNode::new();
    let locks = LockManager::builder().nodes([node.clone()]).connect().await.unwrap();
    let app = app(&locks);
    let mut pages = join_all((0..16).map(|_| Page::open(&app))).await;
    let before = node.test_votes();
    for _ in 0..100 {
        join_all(pages.iter_mut().map(Page::next)).await;
    }
    let asked = node.test_votes() - before;
    assert!(asked <= 51, "asked {asked} times in 100 seconds");

    let refused = get(&app, "/locks/events").await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.problem()["detail"], "16 pages are open, which is the limit; close one of them");
    pages.pop();
    drop(Page::open(&app).await);
}

#[tokio::test(start_paused = true)]
async fn the_dashboard_changes_nothing() {
    let app = app(&LockManager::in_memory());
    for path in ["/locks", "/locks/events"] {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
            assert_eq!(answer(&app, method.clone(), path).await.0, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        }
    }
    for path in ["/locks/control", "/locks/release", "/locks/events/1"] {
        assert_eq!(answer(&app, Method::POST, path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_page_works_below_any_path_with_a_slash_at_the_end_or_without() {
    let page = || Router::from(dashboard(LockManager::in_memory()));
    let apps = [
        (page(), ["/", "/events"]),
        (Router::new().nest("/locks", page()), ["/locks", "/locks/events"]),
        (Router::new().nest("/admin/locks/", page()), ["/admin/locks/", "/admin/locks/events"]),
        (Router::new().nest_service("/locks", page()), ["/locks", "/locks/events"]),
        (Router::new().nest_service("/locks", page()), ["/locks/", "/locks/events"]),
    ];
    for (app, [page, events]) in apps {
        assert!(get(&app, page).await.text().contains("<title>Locks</title>"), "{page}");
        assert_eq!(answer(&app, Method::GET, events).await.0, StatusCode::OK, "{events}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_page_is_one_small_file_that_runs_nothing_but_its_own_script() {
    let page = get(&app(&LockManager::in_memory()), "/locks").await;
    let policy = page.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    for element in ["style", "script"] {
        let (_, content) = page.text().split_once(&format!("<{element}>")).unwrap();
        let (content, rest) = content.split_once(&format!("</{element}>")).unwrap();
        assert!(!rest.contains(&format!("<{element}")), "one {element}");
        let hash = BASE64.encode(digest(&SHA256, content.as_bytes()).as_ref());
        let source = format!("{element}-src 'sha256-{hash}';");
        assert!(policy.contains(&source), "the policy needs {source} but is {policy}");
    }
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.headers[header::X_FRAME_OPTIONS], "DENY");
    for forbidden in ["innerHTML", "insertAdjacentHTML", "document.write", " onclick=", "src=\"http", "@import"] {
        assert!(!page.text().contains(forbidden), "{forbidden}");
    }
    assert!(page.body.len() < 20_000, "{} bytes", page.body.len());
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_a_page_ends_when_the_manager_is_closed() {
    let locks = LockManager::in_memory();
    let app = app(&locks);
    let mut page = Page::open(&app).await;
    assert!(page.next().await.is_some());
    locks.close();
    assert_eq!(timeout(SECOND / 10, page.next()).await, Ok(None));
    assert_eq!(timeout(SECOND / 10, Page::open(&app).await.next()).await, Ok(None), "also one that is opened later");
}

#[tokio::test]
async fn an_open_page_does_not_hold_up_the_shutdown_of_the_server() {
    let locks = LockManager::in_memory();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, app(&locks)).with_graceful_shutdown(locks.close_on(stopped));
    let server = tokio::spawn(server.into_future());
    let mut page = TcpStream::connect(address).await.unwrap();
    page.write_all(b"GET /locks/events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut received = Vec::new();
    while !received.windows(6).any(|text| text == b"data: ") {
        assert_ne!(page.read_buf(&mut received).await.unwrap(), 0, "the first state");
    }
    stop.send(()).unwrap();
    timeout(PATIENCE, server).await.expect("the server ends").unwrap().unwrap();
}
