//! What the documentation says about the tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Every `file::test` that a text names.
fn named(text: &str) -> BTreeSet<(String, String)> {
    let quoted = text.split('`').skip(1).step_by(2);
    let pairs = quoted.filter_map(|quoted| quoted.split_once("::"));
    let is_name =
        |name: &str| name.len() > 3 && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    pairs.filter(|(file, test)| is_name(file) && is_name(test)).map(|(file, test)| (file.into(), test.into())).collect()
}

#[test]
fn every_test_that_the_guarantees_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../docs/guarantees.md")).unwrap();
    let named = named(&page);
    assert!(named.len() > 40, "{}", named.len());
    let missing = named.iter().filter(|(file, test)| {
        let source = fs::read_to_string(root.join(format!("tests/{file}.rs"))).unwrap_or_default();
        !source.contains(&format!("fn {test}()"))
    });
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&(String, String)>::new());
}
