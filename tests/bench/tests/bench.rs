//! The benchmarks run and report what they should. Never how fast: that takes an idle machine. For figures: `cargo run
//! --release -p lock-bench`.

use std::path::Path;
use std::process::Stdio;

use lock_support::alone;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

/// Runs some parts quickly. Returns the report.
async fn bench(parts: &[&str], more: &[&str]) -> Value {
    let _alone = alone().await;
    let directory = TempDir::new().expect("a temporary directory can be created");
    let [json, markdown] = ["report.json", "table.md"].map(|name| directory.path().join(name));
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command
        .arg("--quick")
        .arg("--json")
        .arg(&json)
        .arg("--table")
        .arg(&markdown)
        .args(more)
        .arg("--only")
        .args(parts)
        .kill_on_drop(true);
    let done = command.stdin(Stdio::null()).output().await.expect("the binary runs");
    let (table, progress) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{table}\n{progress}");
    let report = std::fs::read_to_string(json).expect("the report can be read");
    let report: Value = serde_json::from_str(&report).expect("the report is JSON");
    let markdown = std::fs::read_to_string(markdown).expect("the table can be read");
    assert_eq!(report["errors"], Value::Array(Vec::new()));
    for row in rows(&report) {
        let figure = row["figure"].as_str().unwrap_or("no name");
        assert!(table.contains(figure), "not in the table: {row}\n{table}");
        assert!(markdown.contains(&format!("\n| {figure} |")), "not in the file: {row}\n{markdown}");
    }
    report
}

fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().map_or(&[], Vec::as_slice)
}

/// A median between its minimum and its maximum.
fn assert_spread(spread: &Value) {
    let [min, median, max] = ["min", "median", "max"].map(|name| spread[name].as_f64().unwrap_or(f64::NAN));
    assert!(min <= median && median <= max, "{spread}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_has_figures_ratios_and_targets() {
    let report = bench(&["uncontended", "memory", "layer"], &[]).await;
    for fact in ["cores", "kernel", "redis", "rslock", "load"] {
        assert!(!report["machine"][fact].is_null(), "{fact}: {report}");
    }
    let parts: Vec<_> = rows(&report).iter().map(|row| row["part"].as_str().unwrap_or_default()).collect();
    assert_eq!(parts, ["uncontended", "uncontended", "uncontended", "uncontended", "memory", "layer"]);
    for row in rows(&report) {
        assert_spread(&row["ours"]);
        if !row["baseline"].is_null() {
            assert_spread(&row["baseline"]["figure"]);
            assert_spread(&row["ratio"]);
        }
        assert_eq!(row["met"].is_boolean(), !row["target"].is_null(), "{row}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_processes_take_part() {
    let report = bench(&["processes"], &[]).await;
    // Six figures with work inside of the lock, and six without.
    assert_eq!(rows(&report).len(), 12);
    for row in rows(&report) {
        assert_spread(&row["ours"]);
    }
    for cycles in rows(&report).iter().step_by(6) {
        assert!(cycles["ours"]["min"].as_f64() > Some(0.0), "{cycles}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distant_masters_are_measured() {
    let report = bench(&["distance"], &[]).await;
    // A median and a 99th percentile of three figures, one against the floor, one of a crowd, and two figures as a control.
    assert_eq!(rows(&report).len(), 6 + 2 + 4);
    for row in rows(&report) {
        assert_spread(&row["ours"]);
        assert_spread(&row["ratio"]);
        let (figure, seconds) = (row["figure"].as_str().unwrap_or_default(), row["ours"]["min"].as_f64());
        assert!(figure.ends_with("cycles") || seconds > Some(1e-3), "no message is faster than its link: {row}");
    }
}

#[tokio::test]
async fn curves_are_drawn() {
    let directory = TempDir::new().expect("a temporary directory can be created");
    let curve = lock_bench::Curve {
        name: "curve",
        title: "A curve",
        x: "tasks",
        y: "cycles a second",
        series: vec![lock_bench::Series { name: "ours", points: vec![(1.0, 5.0), (1024.0, 50_000.0), (2048.0, 0.0)] }],
    };
    lock_bench::draw(&[curve], directory.path()).expect("the curve can be drawn");
    let drawing = std::fs::read_to_string(Path::new(directory.path()).join("curve.svg")).expect("the file can be read");
    assert!(drawing.contains("A curve") && drawing.trim_end().ends_with("</svg>"), "{drawing}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_store_is_measured_beside_what_its_users_would_take_instead() {
    let report = bench(&["stores"], &[]).await;
    // Two sets of Redis, three of PostgreSQL, and ZooKeeper: alone, with a key for each task, and with one key.
    assert_eq!(rows(&report).len(), 6 * 3);
    for row in rows(&report) {
        assert_spread(&row["ours"]);
        assert_spread(&row["ratio"]);
    }
}
