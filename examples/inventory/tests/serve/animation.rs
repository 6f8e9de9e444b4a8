//! The swim lanes of four runs, as an animated SVG for the README.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use axum::http::StatusCode;
use serde_json::Value;

use crate::service::{Books, Service};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const LANE: f64 = 36.0;
const TOP: f64 = 62.0;
/// Each scene is drawn for this long, in seconds, and stays for as long again.
const DRAWN: f64 = 2.5;

/// What is pressed before the buyers come, what brings them, and what is said about it.
const SCENES: [([&str; 2], &str, &str); 4] = [
    (["lock/off", "fence/off"], "rush", "No lock: 300 buyers, 100 units, three instances"),
    (["lock/on", "fence/off"], "rush", "A distributed lock: one at a time"),
    (["lock/on", "fence/off"], "freeze", "A holder is frozen for longer than its lease, and writes when it wakes up"),
    (["lock/on", "fence/on"], "freeze", "The same, with the fence: the database refuses the late write"),
];

/// Writes the animation to the file in `PAGE_ANIMATION`, if there is one.
#[tokio::test]
async fn the_animation_shows_the_oversell_and_the_refusal() {
    let service = Service::start().await;
    let mut scenes = String::new();
    let mut oversold = Vec::new();
    for (index, (switches, button, caption)) in SCENES.into_iter().enumerate() {
        for press in switches.into_iter().chain(["refill"]) {
            assert_eq!(service.press(press).await, StatusCode::NO_CONTENT, "{press}");
        }
        assert_eq!(service.press(button).await, StatusCode::ACCEPTED);
        let over =
            |state: &Value| state["rush"]["finished"] == index + 1 && state["holds"].as_array().unwrap().is_empty();
        let state = service.until("the end of the rush", over).await;
        let books = Books::of(&state);
        oversold.push(books.oversold > 0);
        let refused = state["lanes"]["refused"].as_array().unwrap().len();
        assert_eq!(refused > 0, index == 3, "{state}");
        scenes += &scene(index, caption, books.oversold, refused, &state["lanes"]);
    }
    assert_eq!(oversold, [true, false, true, false]);
    service.stop().await;

    let height = TOP + 3.0 * LANE + 12.0;
    let animation = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"14\">\n\
         <title>Who is between reading and writing the stock: without a lock, with one, with a pause, and with the fence</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"6\" fill=\"#fff\" stroke=\"#c9cfd6\"/>\n{scenes}</svg>\n"
    );
    assert!(animation.len() < 150_000, "{} bytes", animation.len());
    if let Some(file) = std::env::var_os("PAGE_ANIMATION") {
        fs::write(file, animation).unwrap();
    }
}

fn scene(index: usize, caption: &str, oversold: i64, refused: usize, lanes: &Value) -> String {
    let (from, to) = (lanes["from_ms"].as_f64().unwrap(), lanes["to_ms"].as_f64().unwrap());
    let room = WIDTH - LEFT - RIGHT;
    let x = |ms: f64| LEFT + (ms - from).max(0.0) * room / (to - from);
    let mut marks = String::new();
    for (color, path) in paths(lanes, from, x) {
        let _ = writeln!(marks, "<path shape-rendering=\"crispEdges\" fill=\"{color}\" d=\"{path}\"/>");
    }
    for refusal in lanes["refused"].as_array().unwrap() {
        let (x, y) = (x(refusal[1].as_f64().unwrap()), lane(refusal[0].as_u64().unwrap()) + 20.0);
        let _ = writeln!(
            marks,
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\" font-size=\"22\" font-weight=\"700\" fill=\"#8a4f00\">✕</text>"
        );
    }
    let names: String = (1..=3)
        .map(|n| format!("<text x=\"12\" y=\"{}\" fill=\"#555c65\">Instance {n}</text>", lane(n) + 17.0))
        .collect();
    let verdict = match (oversold, refused) {
        (0, 0) => "0 oversold".to_owned(),
        (0, _) => format!("0 oversold, {refused} refused"),
        _ => format!("{oversold} oversold"),
    };
    let color = if oversold > 0 { "#b3161b" } else { "#176b2f" };

    // Times as shares of the whole loop.
    let all = 2.0 * DRAWN * SCENES.len() as f64;
    let start = index as f64 / SCENES.len() as f64;
    let (drawn, end) = (start + DRAWN / all, start + 2.0 * DRAWN / all);
    let animate = |attribute: &str, values: &str, times: &str, mode: &str| {
        format!(
            "<animate attributeName=\"{attribute}\" dur=\"{all}s\" repeatCount=\"indefinite\" calcMode=\"{mode}\" \
             values=\"{values}\" keyTimes=\"{times}\"/>"
        )
    };
    let shown = animate("opacity", "0;1;0", &format!("0;{start};{end}"), "discrete");
    let reveal = animate("width", &format!("0;0;{WIDTH};{WIDTH}"), &format!("0;{start};{drawn};1"), "linear");
    let judged = animate("opacity", "0;1", &format!("0;{drawn}"), "discrete");
    // A visitor who does not play it sees the third scene.
    let still = u8::from(index == 2);
    let height = TOP + 3.0 * LANE;
    format!(
        "<g opacity=\"{still}\">{shown}\n<text x=\"12\" y=\"26\" font-size=\"17\" font-weight=\"600\" fill=\"#1a1d21\">{caption}</text>\n\
         <text x=\"12\" y=\"50\" font-weight=\"700\" fill=\"{color}\">{verdict}{judged}</text>\n{names}\n\
         <clipPath id=\"c{index}\"><rect x=\"{LEFT}\" y=\"0\" width=\"{WIDTH}\" height=\"{height}\">{reveal}</rect></clipPath>\n\
         <g clip-path=\"url(#c{index})\">\n{marks}</g></g>\n"
    )
}

fn lane(instance: u64) -> f64 {
    TOP + (instance - 1) as f64 * LANE
}

/// One path a colour: blue where one was inside, red where there were more.
fn paths(lanes: &Value, from: f64, x: impl Fn(f64) -> f64) -> BTreeMap<&'static str, String> {
    let mut turns: Vec<(f64, i32, u64)> = Vec::new();
    for bar in lanes["bars"].as_array().unwrap() {
        let instance = bar[0].as_u64().unwrap();
        turns.push((bar[1].as_f64().unwrap().max(from), 1, instance));
        turns.push((bar[2].as_f64().unwrap(), -1, instance));
    }
    turns.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut paths = BTreeMap::new();
    let mut inside: BTreeMap<u64, i32> = BTreeMap::new();
    let mut last = from;
    for (when, change, instance) in turns {
        let total: i32 = inside.values().sum();
        if when > last && total > 0 {
            let color = if total > 1 { "#d0262c" } else { "#0b5cad" };
            let width = (x(when) - x(last)).max(0.5);
            for (instance, _) in inside.iter().filter(|(_, count)| **count > 0) {
                let path: &mut String = paths.entry(color).or_default();
                let _ = write!(path, "M{:.1} {}h{width:.1}v24h-{width:.1}z", x(last), lane(*instance));
            }
        }
        last = when;
        *inside.entry(instance).or_default() += change;
    }
    paths
}
