//! `tests/programs.sh` knows which programs each file of tests needs, and what `SKIP` leaves out exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::{collect_sources, page, root};

type Words = BTreeSet<String>;

/// The entries `[key]="words"` of a table of the script.
fn table(name: &str) -> BTreeMap<String, Words> {
    let script = page("tests/programs.sh");
    let (_, table) = script.split_once(&format!("declare -A {name}=(")).unwrap();
    let entries = table.split("\n)").next().unwrap().lines().filter_map(|line| line.trim().strip_prefix('['));
    let words = |text: &str| text.trim_matches('"').split(' ').map(str::to_owned).collect();
    entries.map(|entry| entry.split_once("]=").unwrap()).map(|(key, text)| (key.to_owned(), words(text))).collect()
}

/// The sources of every file of tests, by its name.
fn files_of_tests() -> BTreeMap<String, String> {
    let mut sources: BTreeMap<String, String> = BTreeMap::new();
    for folder in ["tests", "examples"] {
        for package in fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()) {
            let Ok(entries) = fs::read_dir(package.join("tests")) else { continue };
            for file in entries.map(|entry| entry.unwrap().path()) {
                let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
                sources.entry(name).or_default().push_str(&text_of(&file));
            }
        }
    }
    sources
}

fn text_of(file: &Path) -> String {
    let mut paths = Vec::new();
    if file.is_dir() {
        collect_sources(file, &mut paths);
    } else {
        paths.push(PathBuf::from(file));
    }
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn the_programs_that_a_file_of_tests_starts_are_those_that_it_is_said_to_need() {
    let starts: [(&str, &[&str]); 5] = [
        ("redis", &["RedisServer", "RedisCluster", "lock_chaos"]),
        ("postgres", &["PostgresServer", "lock_chaos"]),
        ("zookeeper", &["ZooKeeperServer", "ZooKeeperEnsemble", "lock_chaos"]),
        ("chromium", &["chromium"]),
        ("prometheus", &["Command::new(\"prometheus\")"]),
    ];
    let needs = table("needs");
    let files = files_of_tests();
    assert!(files.len() > 15 && needs.keys().all(|file| files.contains_key(file)), "{needs:?}");
    for (file, text) in files.iter().filter(|(file, _)| !["bench", "core"].contains(&file.as_str())) {
        let started = starts.iter().filter(|(_, names)| names.iter().any(|name| text.contains(name)));
        let started: Words = started.map(|(word, _)| (*word).to_owned()).collect();
        assert_eq!(started, needs.get(file).cloned().unwrap_or_default(), "{file}, in tests/programs.sh");
    }
}

#[test]
fn what_skip_leaves_out_exists_and_every_word_has_packages() {
    let (packages, programs, files) = (table("packages"), table("programs"), files_of_tests());
    let text: String = files.values().map(String::as_str).collect();
    for package in packages.values().flatten() {
        assert!(programs.contains_key(package), "{package}");
    }
    for (word, skipped) in table("skipped_files") {
        assert!(packages.contains_key(&word), "{word}");
        for file in skipped {
            assert!(files.contains_key(&file) && table("needs")[&file].contains(&word), "{file}");
        }
    }
    for (word, parts) in table("skipped_names") {
        assert!(packages.contains_key(&word), "{word}");
        for part in parts {
            let module = part.strip_suffix("::").map(|module| format!("mod {module};"));
            let is_part = |line: &str| line.contains("fn ") && line.contains(&part);
            let exists = module.map_or(text.lines().any(is_part), |module| text.contains(&module));
            assert!(exists, "{part}");
        }
    }
}
