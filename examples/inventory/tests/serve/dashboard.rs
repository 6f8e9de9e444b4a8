//! The dashboard of `lock-axum` in a browser, below a path.

use std::{net::SocketAddr, time::Duration};

use axum::Router;
use lock_axum::{LockManager, MemoryNode, dashboard};
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};

use crate::{browser::LOW_CONTRAST, chromium::Browser};

const HOUR: Duration = Duration::from_secs(3600);
/// A resource that would be an image, and run a script, if the page took it for HTML.
const HOSTILE: &str = "file:<img src=x onerror=document.title='taken'>";

async fn serve(address: SocketAddr, locks: &LockManager) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let app: Router = Router::new().nest_service("/admin/locks", Router::from(dashboard(locks.clone()).with_control()));
    let closed = locks.closed();
    let served = tokio::spawn(async move { axum::serve(listener, app).with_graceful_shutdown(closed).await.unwrap() });
    (address, served)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_shows_locks_and_masters_live_and_reconnects() {
    let nodes: [MemoryNode; 5] = std::array::from_fn(|_| MemoryNode::new());
    let manager = || LockManager::builder().nodes(nodes.clone()).connect_lazy().unwrap();
    let locks = manager();
    let (address, served) = serve(SocketAddr::from(([127, 0, 0, 1], 0)), &locks).await;
    let mut browser = Browser::open(&format!("http://{address}/admin/locks"));
    browser.until("at('summary').textContent === 'Nothing is held, and nobody waits.'");

    let stock = locks.lock("stock:1").template("stock:{sku}").acquire().await.unwrap();
    let hostile = locks.lock(HOSTILE).template("file:{path}").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("stock:1").template("stock:{sku}").wait(HOUR).acquire());
    browser.until("at('summary').textContent === '2 locks are held, 1 caller waits.'");
    let of_token = format!(
        "[...document.querySelectorAll('tbody tr')].find(row => row.children[1].textContent === '{}')",
        hostile.token()
    );
    assert_eq!(browser.evaluate(&format!("{of_token}.children[0].textContent")), HOSTILE);
    assert_eq!(browser.evaluate("document.querySelectorAll('main img').length"), 0);
    browser.evaluate("window.row = document.querySelector('.contended')");
    browser.until("row.children[4].textContent === '1' && row.children[2].textContent.match(/^[2-9]\\.\\d s$/)");
    assert_eq!(browser.evaluate("row.isConnected"), true, "a row that stays is left where it is");

    browser.until("document.querySelectorAll('#masters .up').length === 5");
    let buttons = "document.querySelectorAll('tbody button')";
    assert_eq!(browser.evaluate(&format!("{buttons}.length")), 2);
    browser.evaluate(&format!("{of_token}.querySelector('button').focus()"));
    browser.key("Enter");
    browser.until("document.activeElement.textContent === 'Really release?'");
    assert!(hostile.is_valid(), "it is asked once more");
    browser.key("Enter");
    let answered =
        format!("{of_token}.className === 'gone' && {of_token}.textContent.includes('Taken from its holder: token ')");
    browser.until(&answered);
    browser.until(&format!("at('released').textContent.startsWith({HOSTILE:?} + ': claim token ')"));
    browser.until("at('summary').textContent === '1 lock is held, 1 caller waits.'");
    assert!(!hostile.is_valid());

    // A second answer leaves the token of the first one in the list.
    let other = locks.lock("file:2").template("file:{path}").acquire().await.unwrap();
    let of_other = format!(
        "[...document.querySelectorAll('tbody tr')].find(row => row.children[1].textContent === '{}')",
        other.token()
    );
    browser.until(&format!("!!{of_other}"));
    for _ in 0..2 {
        browser.evaluate(&format!("{of_other}.querySelector('button').click()"));
    }
    browser.until("at('released').children.length === 2");
    assert!(browser.text("released").contains(HOSTILE) && browser.text("released").starts_with("file:2: claim token "));

    // Searched for, and folded, also when the next state has come.
    let searches = "(text => { at('search').value = text; at('search').dispatchEvent(new Event('input')); })";
    browser.evaluate(&format!("{searches}('STOCK:1')"));
    browser.until("at('templates').children.length === 1 && at('found').textContent === '1 row'");
    browser.evaluate(&format!("{searches}('')"));
    browser.until("at('templates').children.length === 2 && at('found').textContent === ''");
    browser.evaluate("document.querySelector('#templates summary').click()");
    browser.evaluate("window.before = last");
    browser.until("last !== before");
    assert_eq!(browser.evaluate("document.querySelector('#templates details').open"), false);
    browser.evaluate("document.querySelector('#templates summary').click()");
    assert!(browser.text("place").contains(&format!("process {}", std::process::id())));
    assert_eq!(browser.evaluate("getComputedStyle(document.querySelector('thead td')).borderTopWidth"), "0px");

    nodes[1].set_down(true);
    browser.until("at('masters').children[1].className === 'down'");
    assert_eq!(browser.text("quorum"), "a majority grants locks");
    let calm = browser.evaluate("icon.href");
    for node in [0, 2] {
        nodes[node].set_down(true);
    }
    browser.until("document.title.startsWith('⚠ No quorum: ') && icon.href.includes('b3161b')");
    for node in [0, 2] {
        nodes[node].set_down(false);
    }
    browser.until("at('quorum').textContent === 'a majority grants locks'");
    assert_eq!(browser.evaluate("icon.href"), calm);
    assert_eq!(browser.evaluate("document.title.includes('No quorum')"), false);
    for (width, height) in [(320, 700), (1200, 1000)] {
        browser.size(width, height);
        browser.until(&format!("innerWidth === {width} && document.documentElement.scrollWidth <= {width}"));
    }
    for scheme in ["light", "dark"] {
        browser.colors(scheme);
        let low = browser.evaluate(LOW_CONTRAST);
        assert_eq!(low.as_array().map(Vec::len), Some(0), "{scheme}: {low:#}");
    }
    let errors = browser.take_errors();
    assert!(errors.is_empty(), "{errors:#?}");

    // The manager is closed while a page is open and a lock is held.
    locks.close();
    timeout(Duration::from_secs(30), served).await.expect("the page does not hold up the server").unwrap();
    browser.until("document.body.className === 'stale' && !at('offline').hidden");
    assert!(waiting.await.unwrap().is_err());
    drop((stock, hostile, other));

    let locks = manager();
    let (_, served) = serve(address, &locks).await;
    browser.until("at('offline').hidden && at('summary').textContent === 'Nothing is held, and nobody waits.'");
    assert_eq!(browser.evaluate("document.querySelectorAll('tbody tr:not(.gone)').length"), 0);
    locks.close();
    served.await.unwrap();
}
