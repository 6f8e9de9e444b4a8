//! The tour of the page, and its swim lanes.

use std::time::{Duration, Instant};

use crate::{
    chromium::Browser,
    service::{Books, Service},
};

const EXACTLY: Books = Books { stock: 0, orders: 100, oversold: 0 };
/// The ids of all buttons that are filled with the accent.
const FILLED: &str = "(() => {
    const probe = document.body.appendChild(document.createElement('i'));
    probe.style.color = 'var(--accent)';
    const accent = getComputedStyle(probe).color;
    probe.remove();
    return [...document.querySelectorAll('button')].filter(button => getComputedStyle(button).backgroundColor === accent).map(button => button.id);
})()";
/// Whether the button of the step and the number are on the screen.
const ON_ONE_SCREEN: &str = "['step', 'oversold-box', 'lanes'].every(id => {
    const box = at(id).getBoundingClientRect();
    return box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth;
})";

impl Browser {
    /// Waits until the step with this number can be taken.
    fn at_step(&mut self, number: usize) {
        self.until(&format!("step === {} && at('step').getAttribute('aria-disabled') === 'false'", number - 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_the_tour_sees_each_promise_and_its_limit() {
    let service = Service::start().await;
    let mut browser = Browser::on(&service);
    let start = Instant::now();
    browser.at_step(1);
    browser.click("step");
    browser.at_step(2);
    assert!(service.books().oversold > 0);
    assert_eq!(browser.books(), service.books());
    assert_eq!(browser.evaluate("getComputedStyle(at('oversold-box')).backgroundColor"), "rgb(179, 22, 27)");
    assert_eq!(browser.evaluate("!!document.querySelector('#lanes .bad').getAttribute('d')"), true);

    browser.click("step");
    browser.at_step(3);
    assert_eq!((service.books(), browser.books()), (EXACTLY, EXACTLY));
    assert_eq!(browser.evaluate("document.querySelector('#lanes .bad').getAttribute('d')"), "");
    assert_eq!(browser.evaluate("getComputedStyle(at('oversold-box')).backgroundColor"), "rgba(0, 0, 0, 0)");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());

    browser.click("step");
    browser.at_step(4);
    assert!(service.books().oversold > 0, "a pause oversells without the fence");
    browser.click("step");
    browser.at_step(5);
    assert_eq!(service.books().oversold, 0, "the fence refuses it");
    assert!(browser.evaluate("document.querySelectorAll('#lanes .refusal').length").as_i64() > Some(0));
    browser.click("step");
    browser.at_step(6);
    assert_eq!(browser.evaluate("state.killed.length"), 1);
    browser.click("step");
    browser.at_step(7);
    assert_eq!((service.books(), browser.evaluate("state.killed.length")), (EXACTLY, 0.into()));
    browser.click("step");
    browser.at_step(8);
    assert_eq!(service.books().orders, 0, "no sale without a majority");
    browser.click("step");
    browser.at_step(9);
    assert_eq!(browser.text("step"), "Begin again");
    browser.click("step");
    browser.at_step(1);
    browser.assert_no_errors();
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_is_right_for_whoever_comes_after_another() {
    let service = Service::start().await;
    service.press("rush").await;
    service.until_buyers_left().await;
    service.press("lock/off").await;
    service.press("masters/1/kill").await;
    service.press("instances/2/kill").await;
    assert_eq!(service.books(), EXACTLY);

    let mut browser = Browser::on(&service);
    browser.at_step(1);
    browser.click("step");
    browser.at_step(2);
    assert!(service.books().oversold > 0);
    assert_eq!(browser.evaluate("state.killed.length"), 0);
    browser.reload();
    browser.at_step(2);
    browser.click("step");
    browser.at_step(3);
    assert_eq!(service.books(), EXACTLY);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_has_the_number_and_the_button_that_turns_it_red_on_one_screen() {
    let service = Service::start().await;
    let mut browser = Browser::on(&service);
    browser.size(390, 700);
    browser.until("innerWidth === 390 && document.documentElement.scrollWidth <= 390");
    browser.at_step(1);
    let places =
        "['lanes', 'step', 'oversold-box'].map(id => `${id} ends at ${at(id).getBoundingClientRect().bottom}`)";
    assert_eq!(browser.evaluate(ON_ONE_SCREEN), true, "{}", browser.evaluate(places));

    // With the keyboard, which stays on the button from step to step.
    browser.evaluate("at('step').focus()");
    browser.key("Enter");
    browser.at_step(2);
    assert_eq!(browser.evaluate("scrollY === 0 && document.activeElement === at('step')"), true);
    assert_eq!(browser.evaluate(ON_ONE_SCREEN), true, "{}", browser.evaluate(places));
    assert_eq!(browser.evaluate("at('oversold-box').className"), "red");
    browser.key(" ");
    browser.at_step(3);
    assert_eq!(service.books(), EXACTLY);
    browser.assert_no_errors();
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_button_of_the_present_step_is_filled() {
    let service = Service::start().await;
    let mut browser = Browser::on(&service);
    browser.at_step(1);
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "dark")] {
        browser.size(width, 800);
        browser.colors(scheme);
        browser.until(&format!("innerWidth === {width} && document.documentElement.scrollWidth <= {width}"));
        assert_eq!(browser.evaluate(FILLED), serde_json::json!(["step"]), "{width} {scheme}");
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_in_a_row_are_folded_and_stay_unfolded() {
    let service = Service::start().await;
    let mut browser = Browser::on(&service);
    browser.send_buyers("rush-button");
    browser.until("document.querySelector('#feed details')");
    let first = browser.evaluate("document.querySelector('#feed details ol li').textContent");
    assert!(first.as_str().unwrap().contains("token +"), "{first}");
    browser.evaluate("document.querySelector('#feed details').open = true");
    browser.click("fence");
    browser.until("!state.fence && document.querySelector('#feed .control').textContent.includes('fence')");
    assert_eq!(browser.evaluate("document.querySelector('#feed details').open"), true);
    browser.assert_no_errors();
    service.stop().await;
}
