//! The tests, files and functions that the documentation names exist, its links lead somewhere, the matrix of what is tried together is
//! complete, the page of evidence lists the tests of each promise, and the tables of events and metrics have all of them.

mod evidence;
mod names;
mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Test = (String, String);

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Every `file::test` that a text names.
fn tests_named_in(text: &str) -> BTreeSet<Test> {
    let quoted = text.split('`').skip(1).step_by(2);
    let pairs = quoted.filter_map(|quoted| quoted.split_once("::"));
    let is_name =
        |name: &str| name.len() > 2 && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    pairs.filter(|(file, test)| is_name(file) && is_name(test)).map(|(file, test)| (file.into(), test.into())).collect()
}

/// Collects every Rust source below a folder.
fn collect_sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            collect_sources(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
}

/// Those of the tests that are in no source.
fn missing(named: BTreeSet<Test>) -> Vec<Test> {
    let mut paths = Vec::new();
    for folder in ["tests", "examples", "lock-core/src", "lock-axum/src"] {
        collect_sources(&root().join(folder), &mut paths);
    }
    let mut sources: BTreeMap<&str, String> = BTreeMap::new();
    for path in &paths {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        sources.entry(stem).or_default().push_str(&fs::read_to_string(path).unwrap());
    }
    let exists =
        |(file, test): &Test| sources.get(file.as_str()).is_some_and(|source| source.contains(&format!("fn {test}()")));
    named.into_iter().filter(|test| !exists(test)).collect()
}

#[test]
fn every_test_that_is_named_exists() {
    let mut named = BTreeSet::new();
    for (path, least) in
        [("docs/promises.md", 0), ("docs/operations.md", 12), ("tests/matrix.md", 40), ("tests/README.md", 10)]
    {
        let tests = tests_named_in(&page(path));
        assert!(tests.len() >= least, "{path}: {}", tests.len());
        named.extend(tests);
    }
    assert_eq!(missing(named), Vec::<Test>::new());
}

/// The anchor that a heading gets on GitHub.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

fn has_anchor(page: &str, wanted: &str) -> bool {
    // Every second piece is code, where a `#` begins a comment.
    let text = page.split("\n```").step_by(2).flat_map(str::lines);
    let mut headings = text.filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
    headings.any(|heading| anchor(heading) == wanted) || page.contains(&format!("<a id=\"{wanted}\">"))
}

/// The links of a page that lead to no file, or to no heading of a page.
fn broken_links(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let is_broken = |link: &&str| {
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() { path.into() } else { path.with_file_name(file) };
        let is_page = target.extension().is_some_and(|extension| extension == "md");
        let has_heading = |page: String| heading.is_empty() || has_anchor(&page, heading);
        !target.exists() || is_page && !fs::read_to_string(&target).is_ok_and(has_heading)
    };
    let inside = links.filter(|link| !link.starts_with("http")).filter(is_broken);
    inside.map(|link| format!("{}: {link}", path.display())).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let pages: Vec<PathBuf> =
        files().into_iter().filter(|file| file.ends_with(".md")).map(|file| root().join(file)).collect();
    assert!(pages.len() > 15, "{pages:?}");
    let broken: Vec<String> = pages.iter().flat_map(|page| broken_links(page)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_alert_has_a_runbook() {
    let rules = page("examples/inventory/rules.yml");
    let alerts = rules.matches("- alert: ").count();
    let runbooks: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("runbook: ")).collect();
    assert!(alerts >= 5 && runbooks.len() == alerts, "{alerts} alerts, {runbooks:?}");
    for runbook in runbooks {
        let (path, heading) = runbook.split_once('#').unwrap();
        assert!(has_anchor(&page(path), heading), "{runbook}");
    }
}

/// What stands between the first two pairs of asterisks of a line that begins like this, and what follows.
fn bold_after<'a>(line: &'a str, beginning: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(beginning)?.strip_prefix("**")?.split_once("**")
}

#[test]
fn the_matrix_has_a_cell_for_every_pair() {
    let page = page("tests/matrix.md");
    let number = |line: &str| line.split_once(". ").filter(|(number, _)| number.parse::<u32>().is_ok()).is_some();
    let features: Vec<&str> = page
        .lines()
        .filter(|line| number(line))
        .filter_map(|line| bold_after(line.split_once(". ")?.1, "").map(|(name, _)| name))
        .collect();
    assert!(features.len() >= 20, "{features:?}");
    let (mut section, mut cells) = ("", Vec::new());
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            section = name;
        } else if let Some((other, cell)) = bold_after(line, "- ") {
            cells.push((section, other, cell.trim_start_matches(':').trim()));
        }
    }
    let mut pairs =
        features.iter().enumerate().flat_map(|(at, one)| features[at + 1..].iter().map(move |other| (*one, *other)));
    for (one, other, cell) in &cells {
        assert_eq!(Some((*one, *other)), pairs.next(), "each pair has one cell, in the order of the list");
        let has_reason = cell.strip_prefix("never: ").is_some_and(|reason| reason.len() > 10);
        let is_tried = !tests_named_in(cell).is_empty();
        assert!(has_reason || is_tried, "{one} and {other}: name a test, or say why they never meet");
    }
    assert_eq!(pairs.next(), None, "no pair is missing");
}

/// The files of the workspace, by their paths below its root.
fn files() -> Vec<String> {
    fn collect(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_str().unwrap();
            if entry.is_dir() && !["target", "node_modules"].contains(&name) && !name.starts_with('.') {
                collect(&entry, found);
            } else if entry.is_file() {
                found.push(entry.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    collect(root(), &mut found);
    found
}

/// A target that is not built as a test is one whose manifest says so. What is marked as a test in it would never run.
#[test]
fn no_test_is_in_a_target_that_is_not_tested() {
    let files = files();
    let (mut lost, mut count) = (Vec::new(), 0);
    for manifest in files.iter().filter(|file| file.ends_with("Cargo.toml")) {
        let text = page(manifest);
        let sources = format!("{}src/", manifest.strip_suffix("Cargo.toml").unwrap());
        for target in text.split("\n\n").filter(|section| section.contains("\ntest = false")) {
            count += 1;
            let is_library = target.contains("[lib]");
            let is_program_alone = !files.contains(&format!("{sources}lib.rs"));
            let is_in_it = |file: &&String| {
                let Some(name) = file.strip_prefix(&sources) else { return false };
                is_program_alone || is_library != (name == "main.rs" || name.starts_with("bin/"))
            };
            let has_tests = |file: &&String| page(file).contains("#[test]") || page(file).contains("#[tokio::test");
            lost.extend(files.iter().filter(is_in_it).filter(has_tests));
        }
    }
    assert!(lost.is_empty() && count >= 7, "{count} targets; these have tests that never run: {lost:?}");
}

/// Pages shorten paths, so a file is one whose path ends with the name. Before "in" stand the functions that are in the file.
#[test]
fn every_file_and_function_that_is_named_exists() {
    let is_file = |name: &str| {
        let is_source =
            [".rs", ".lua", ".sql"].iter().any(|end| name.strip_suffix(end).is_some_and(|stem| !stem.is_empty()));
        is_source && !name.contains([' ', '*', ':'])
    };
    let is_function = |name: &str| !name.contains(['/', '.', ' ']) && name.chars().any(char::is_lowercase);
    let (files, mut wrong, mut count) = (files(), Vec::new(), 0);
    for path in ["docs/architecture.md", "docs/glossary.md", "docs/protocol.md"] {
        let text = page(path);
        // Every second piece is quoted.
        let pieces: Vec<&str> = text.split('`').collect();
        for (at, name) in pieces.iter().enumerate().skip(1).step_by(2).filter(|(_, name)| is_file(name)) {
            count += 1;
            let fits = |file: &&String| {
                file.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))
            };
            let sources: Vec<_> = files.iter().filter(fits).map(|file| page(file)).collect();
            let mut before = at - 1;
            while pieces[before] == if before == at - 1 { " in " } else { " and " } && is_function(pieces[before - 1]) {
                let function = pieces[before - 1].rsplit("::").next().unwrap_or_default();
                if !sources.iter().any(|source| source.contains(function)) {
                    wrong.push(format!("{path}: {function} in {name}"));
                }
                before -= 2;
            }
            if sources.is_empty() {
                wrong.push(format!("{path}: {name}"));
            }
        }
    }
    assert!(count > 100, "{count}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
