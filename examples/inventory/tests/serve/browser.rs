//! The page in a browser: every button, and the numbers that it shows, against the database.

use std::fs;

use crate::{
    chromium::Browser,
    service::{Books, Service},
};

const LOADED: &str = "state && state.masters.length === 5 && state.quorum";
const BUYERS_LEFT: &str = "state.rush.running === null && state.rush.last";

impl Browser {
    pub(crate) fn on(service: &Service) -> Self {
        let mut browser = Self::open(&format!("http://{}/", service.address));
        browser.until(LOADED);
        browser
    }

    pub(crate) fn books(&mut self) -> Books {
        Books { stock: self.number("stock"), orders: self.number("orders"), oversold: self.number("oversold") }
    }

    /// Presses a button that brings buyers, and waits until they have left.
    pub(crate) fn send_buyers(&mut self, button: &str) {
        let before = self.evaluate("state.feed.length ? state.feed[0].number : -1");
        self.click(button);
        self.until(&format!("state.feed.length && state.feed[0].number > {before} && {BUYERS_LEFT}"));
    }

    pub(crate) fn assert_no_errors(&mut self) {
        let errors = self.take_errors();
        assert!(errors.is_empty(), "{errors:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_holder_oversells_without_the_fence_and_not_with_it() {
    let service = Service::start().await;
    let mut browser = Browser::on(&service);
    browser.send_buyers("freeze");
    assert_eq!(browser.books(), service.books());
    assert_eq!(service.books(), Books { stock: 88, orders: 12, oversold: 0 });
    browser.until("document.querySelector('#feed .refused') && document.querySelector('#feed .lost')");

    browser.click("fence");
    browser.until("at('fence').getAttribute('aria-checked') === 'false'");
    browser.send_buyers("freeze");
    assert!(service.books().oversold > 0, "{:?}", service.books());
    browser.until("at('oversold-box').classList.contains('red')");
    assert_eq!(browser.books(), service.books());

    browser.click("refill");
    browser.until("state.stock === 100");
    assert_eq!(browser.books(), service.books());
    browser.click("slow");
    browser.until("document.querySelector('#holds li') && document.querySelector('#waiting li')");
    browser.until("document.querySelector('#feed .renewed')");
    browser.until(BUYERS_LEFT);
    assert!(browser.evaluate("document.querySelectorAll('#chart circle').length").as_i64() > Some(10));
    browser.assert_no_errors();
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trial_of_the_handlers_is_shown_and_sells_nothing() {
    let service = Service::start().await;
    let mut browser = Browser::on(&service);
    let before = service.books();
    browser.click("trial");
    browser.until("!at('trial-told').hidden");
    let told = browser.evaluate("at('trial-told').textContent");
    let told = told.as_str().unwrap();
    assert!(told.contains("held here") && told.contains("fence claimed\nthe check holds"), "{told}");
    assert_eq!(browser.evaluate("at('message').textContent").as_str(), Some(""));
    assert_eq!((service.books(), browser.books()), (before, before));
    browser.assert_no_errors();
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_button_of_every_master_changes_its_tile() {
    let service = Service::start().await;
    let mut browser = Browser::on(&service);
    let tile = |master: i32, class: &str| format!("at('masters').children[{}].className === '{class}'", master - 1);
    for master in 1..=2 {
        browser.click(&format!("kill-{master}"));
        browser.until(&tile(master, "down"));
    }
    browser.send_buyers("freeze");
    assert_eq!(service.books().orders, 12, "two masters down keep selling");

    for master in 3..=5 {
        browser.click(&format!("hang-{master}"));
        browser.until(&tile(master, "hung"));
    }
    browser.until("state.quorum === false");
    let before = service.books();
    browser.click("slow");
    browser.until("document.querySelector('#feed .unavailable')");
    assert_eq!((service.books(), browser.books()), (before, before), "no sale without a majority");

    for master in 1..=5 {
        browser.click(&format!("revive-{master}"));
        browser.until(&tile(master, "up"));
    }
    browser.until(&format!("state.quorum && {BUYERS_LEFT}"));
    for master in 1..=2 {
        browser.click(&format!("empty-{master}"));
        browser.until(&tile(master, "joining"));
    }
    browser.send_buyers("rush-button");
    assert_eq!((browser.books(), service.books().oversold), (service.books(), 0));
    assert_eq!(service.books().stock, 0);
    browser.assert_no_errors();
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_and_a_restart_show_the_same_books() {
    let service = Service::start().await;
    let mut browser = Browser::on(&service);
    browser.click("lock");
    browser.until("!state.lock");
    browser.send_buyers("rush-button");
    let books = service.books();
    assert!(books.oversold > 0, "{books:?}");

    browser.reload();
    browser.until(LOADED);
    assert_eq!(browser.books(), books);
    assert_eq!(browser.text("lock"), "Lock: off");
    browser.assert_no_errors();

    let service = service
        .restart(|| {
            browser.until("!at('offline').hidden && document.body.className === 'stale'");
            assert_eq!(browser.books(), books, "what it said last");
            browser.evaluate("press('rush')");
            browser.until("at('message').textContent === 'Nothing was done: the service does not answer.'");
        })
        .await;
    browser.until("at('offline').hidden && at('message').hidden && state.lock");
    assert_eq!((browser.books(), service.books()), (books, books));
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_button_that_did_nothing_says_why() {
    let service = Service::start().await;
    let mut browser = Browser::on(&service);
    browser.evaluate("press('masters/9/kill')");
    browser.until("!at('message').hidden");
    assert_eq!(browser.text("message"), "Nothing was done: there is no such in-memory master.");
    browser.click("lock");
    browser.until("at('message').hidden");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_and_a_keyboard_are_enough() {
    let service = Service::start().await;
    let mut browser = Browser::on(&service);
    for width in [320, 390] {
        browser.size(width, 700);
        browser.until(&format!("innerWidth === {width} && document.documentElement.scrollWidth <= {width}"));
    }

    let enabled = "[...document.querySelectorAll('button:not(:disabled)')].map(button => button.id)";
    let buttons = browser.evaluate(enabled);
    assert_eq!(buttons.as_array().unwrap().len(), 37, "{buttons}");
    let mut reached = Vec::new();
    for _ in 0..50 {
        browser.key("Tab");
        reached.push(browser.evaluate("document.activeElement.id"));
    }
    let missed: Vec<_> = buttons.as_array().unwrap().iter().filter(|button| !reached.contains(button)).collect();
    assert!(missed.is_empty(), "not reached with Tab: {missed:?}");
    assert!(reached.contains(&"feed".into()), "the feed scrolls with the keyboard");

    browser.evaluate("at('lock').focus()");
    browser.key(" ");
    browser.until("!state.lock");
    browser.evaluate("at('rush-button').focus()");
    browser.key("Enter");
    browser.until("state.oversold > 0");
    browser.until(BUYERS_LEFT);
    browser.until("document.documentElement.scrollWidth <= 390");
    assert_eq!(browser.books(), service.books());
    browser.assert_no_errors();
    service.stop().await;
}

/// The elements whose text has less contrast than WCAG's AA asks for: 4.5, and 3 for large text.
pub(crate) const LOW_CONTRAST: &str = r"(() => {
    const parts = color => color.match(/[\d.]+/g).map(Number);
    const light = color => parts(color).slice(0, 3).map(c => c / 255)
        .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = node => {
        for (; node; node = node.parentElement) {
            const color = getComputedStyle(node).backgroundColor;
            if (parts(color)[3] !== 0) return color;
        }
        return 'rgb(255, 255, 255)';
    };
    const low = [];
    for (const node of document.querySelectorAll('body *')) {
        const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
        if (!own || node.closest('script, [hidden], .unseen, :disabled, svg') || !node.offsetParent) continue;
        const style = getComputedStyle(node), [a, b] = [light(style.color), light(ground(node))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) low.push(node.textContent + ': ' + ratio);
    }
    return low;
})()";

#[tokio::test(flavor = "multi_thread")]
async fn text_has_contrast_in_light_and_dark() {
    let service = Service::start().await;
    let mut browser = Browser::on(&service);
    browser.click("kill-1");
    browser.click("lock");
    browser.until("!state.lock && document.querySelector('#masters .down')");
    browser.send_buyers("rush-button");
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        browser.colors(scheme);
        grounds.push(browser.evaluate("getComputedStyle(document.body).backgroundColor"));
        let low = browser.evaluate(LOW_CONTRAST);
        assert_eq!(low.as_array().map(Vec::len), Some(0), "{scheme}: {low:#}");
    }
    assert_ne!(grounds[0], grounds[1]);
    service.stop().await;
}

/// Writes the screenshot to the file in `PAGE_SCREENSHOT`, if there is one.
#[tokio::test(flavor = "multi_thread")]
async fn the_screenshot_shows_an_oversell() {
    let service = Service::start().await;
    let mut browser = Browser::on(&service);
    browser.size(1080, 1300);
    browser.click("kill-2");
    browser.click("fence");
    browser.until("!state.fence");
    browser.send_buyers("freeze");
    browser.until("at('oversold-box').classList.contains('red') && document.querySelector('#feed .lost')");
    browser.until("document.querySelector('#lanes .bad').getAttribute('d')");
    browser.evaluate("scrollTo(0, 0)");
    let shot = browser.screenshot(0.8);
    assert!(shot.starts_with(b"\x89PNG") && shot.len() < 150_000, "{} bytes", shot.len());
    if let Some(file) = std::env::var_os("PAGE_SCREENSHOT") {
        fs::write(file, shot).unwrap();
    }
    service.stop().await;
}
