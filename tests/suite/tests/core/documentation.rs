//! The tests that the documentation names exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Every `file::test` that a text names.
fn tests_named_in(text: &str) -> BTreeSet<(String, String)> {
    let quoted = text.split('`').skip(1).step_by(2);
    let pairs = quoted.filter_map(|quoted| quoted.split_once("::"));
    let is_name =
        |name: &str| name.len() > 3 && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
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

#[test]
fn every_test_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let named_in = |page: &str| tests_named_in(&fs::read_to_string(root.join("docs").join(page)).unwrap());
    let (guarantees, runbooks) = (named_in("guarantees.md"), named_in("operations.md"));
    assert!(guarantees.len() > 40 && runbooks.len() > 12, "{} and {}", guarantees.len(), runbooks.len());
    let named = guarantees.union(&runbooks);
    let mut files = Vec::new();
    collect_sources(&root.join("tests"), &mut files);
    collect_sources(&root.join("examples"), &mut files);
    let missing = named.filter(|(file, test)| {
        let mut of_that_name = files.iter().filter(|path| path.file_stem().is_some_and(|stem| stem == file.as_str()));
        !of_that_name.any(|path| fs::read_to_string(path).unwrap().contains(&format!("fn {test}()")))
    });
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&(String, String)>::new());
}
