//! The tables of events and metrics in the documentation of the crates have what the sources have, and other pages name nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{collect_sources, page, root};

/// The sources of the libraries. The guide is a page of examples.
fn sources() -> Vec<String> {
    let mut paths = Vec::new();
    for folder in ["lock-core/src", "lock-axum/src"] {
        collect_sources(&root().join(folder), &mut paths);
    }
    paths.retain(|path| !path.components().any(|part| part.as_os_str() == "guide"));
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// The names in the first column of the tables below a heading, each with its row.
fn rows(heading: &str) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for docs in ["lock-core/src/lib.rs", "lock-axum/src/lib.rs"].map(page) {
        let lines = docs.lines().filter_map(|line| line.strip_prefix("//! "));
        let below = lines.skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with("# "));
        let names =
            below.filter_map(|row| Some((row.strip_prefix("| `")?.split_once('`')?.0.to_owned(), row.to_owned())));
        rows.extend(names.collect::<Vec<_>>());
    }
    rows
}

/// Every name in quotation marks that begins like this.
fn quoted(sources: &[String], beginning: &str) -> BTreeSet<String> {
    let literals = sources.iter().flat_map(|source| source.split('"'));
    let is_name = |text: &&str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte == b'.');
    literals.filter(|text| text.starts_with(beginning)).filter(is_name).map(str::to_owned).collect()
}

/// An event that a source logs.
struct Logged<'a> {
    level: &'a str,
    name: &'a str,
    message: String,
}

/// The events of a source: those that `log_event!` logs, which gives them their names.
fn logged<'a>(source: &'a str) -> Vec<Logged<'a>> {
    let parse = |call: &'a str| {
        let (level, rest) = call.split_once(": \"")?;
        let (name, rest) = rest.split_once('"')?;
        // The message is the last argument. It goes on in the next line behind a backslash.
        let arguments = rest.split_once("\")")?.0.replace("\\\"", "'");
        let message = arguments.rsplit('"').next()?.split("\\\n").map(str::trim_start).collect();
        Some(Logged { level, name, message })
    };
    source.split("log_event!(").skip(1).filter_map(parse).collect()
}

/// `log_event!` gives an event the field without which its name is in no log. A program in an example logs what it likes.
#[test]
fn every_event_is_logged_with_its_name() {
    let levels = ["trace", "debug", "info", "warn", "error", "event"];
    let code = |source: String| -> String {
        source.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
    };
    let others = sources().into_iter().map(code).flat_map(|source| {
        let calls = levels.iter().filter(move |level| source.contains(&format!("tracing::{level}!(")));
        calls.copied().collect::<Vec<_>>()
    });
    assert_eq!(others.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn every_event_is_documented_with_its_levels() {
    let (sources, rows) = (sources(), rows("# Events"));
    let mut levels: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for Logged { level, name, .. } in sources.iter().flat_map(|source| logged(source)) {
        levels.entry(name.to_owned()).or_default().insert(level);
    }
    assert!(levels.len() > 30, "{levels:?}");
    assert_eq!(levels.keys().collect::<Vec<_>>(), rows.keys().collect::<Vec<_>>());
    for (name, levels) in levels {
        for level in levels {
            assert!(rows[&name].contains(level), "`{name}` is logged with level {level}: {}", rows[&name]);
        }
    }
}

#[test]
fn every_metric_is_documented() {
    let with_metrics: Vec<String> = sources().into_iter().filter(|source| source.contains("metrics::")).collect();
    let metrics = quoted(&with_metrics, "lock_");
    assert!(metrics.len() > 8, "{metrics:?}");
    assert_eq!(metrics, rows("# Metrics").into_keys().collect());
}

/// Who searches a log, or found a line in it, has the message of an event before the eyes.
#[test]
fn the_runbooks_show_the_messages_of_events() {
    let (sources, runbooks) = (sources(), page("docs/operations.md"));
    let all: Vec<Logged<'_>> = sources.iter().flat_map(|source| logged(source)).collect();
    let rows = runbooks.lines().filter_map(|line| line.strip_prefix("| `lock."));
    let rows: Vec<(String, &str)> = rows
        .map(|row| {
            let (name, rest) = row.split_once('`').unwrap();
            let cell =
                rest.split(" | ").find(|cell| cell.ends_with('”')).unwrap_or_else(|| panic!("no message in {row}"));
            (format!("lock.{name}"), cell.trim_matches(['“', '”']))
        })
        .collect();
    assert!(rows.len() > 15, "{rows:?}");
    for (name, shown) in rows {
        let messages = all.iter().filter(|event| event.name == name).map(|event| &event.message);
        // A long message is shown from its beginning.
        let fits = |message: &String| match shown.strip_suffix(" …") {
            Some(beginning) => message.starts_with(beginning),
            None => message == shown,
        };
        assert!(messages.clone().any(fits), "{name} says {:?}", messages.collect::<Vec<_>>());
    }
}

#[test]
fn the_runbooks_the_dashboard_and_the_alerts_name_no_other_event_or_metric() {
    let headings = ["# Events", "# Spans", "# Metrics"].into_iter();
    let known: BTreeSet<String> = headings.flat_map(|heading| rows(heading).into_keys()).collect();
    let runbooks = page("docs/operations.md");
    let named = runbooks.split('`').skip(1).step_by(2);
    let events: BTreeSet<&str> = named.filter(|name| name.starts_with("lock.")).collect();
    let shown = page("examples/inventory/grafana.json") + &page("examples/inventory/rules.yml");
    let words = shown.split(|c: char| !c.is_ascii_lowercase() && c != '_').filter(|word| word.starts_with("lock_"));
    let metrics: BTreeSet<&str> =
        words.map(|word| word.trim_end_matches("_bucket").trim_end_matches("_count")).collect();
    assert!(events.len() > 12 && metrics.len() > 5, "{events:?}, {metrics:?}");
    let unknown: Vec<_> = events.iter().chain(&metrics).filter(|name| !known.contains(**name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
