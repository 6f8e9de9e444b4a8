//! `docs/evidence.md` is generated from the tests, which say in a comment above their attributes which promise of
//! `docs/promises.md` they try (`// promise: exclusion, fencing`), or which they break so that a check has to notice
//! (`// mutant: exclusion`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::{env, fs};

use super::{anchor, collect_sources, page, root};

const COMMAND: &str = "WRITE_EVIDENCE=1 cargo test -p lock-suite --all-features --test core documentation";

/// The tests of one promise, by their files.
#[derive(Default)]
struct Evidence {
    tests: BTreeMap<String, Vec<String>>,
    mutants: BTreeMap<String, Vec<String>>,
}

/// A comment that marks a test.
struct Mark {
    is_mutant: bool,
    promises: Vec<String>,
    test: String,
}

/// The anchor and the first bold sentence of each promise: the headings of the third level.
fn promises(page: &str) -> Vec<(String, String)> {
    let sections = page.split("\n### ").skip(1).map(|section| section.split("\n## ").next().unwrap_or(section));
    let promise = |section: &str| {
        let (title, text) = section.split_once('\n').unwrap();
        let sentence = text.split("**").nth(1).unwrap_or_else(|| panic!("{title}: nothing is promised in bold"));
        (anchor(title), sentence.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    sections.map(promise).collect()
}

/// The marks of a source. A mark above anything but a test is an error with its line.
fn marks(source: &str) -> Result<Vec<Mark>, String> {
    let mut lines = source.lines().map(str::trim).enumerate();
    let mut marks = Vec::new();
    while let Some((at, line)) = lines.next() {
        let (is_mutant, names) = match (line.strip_prefix("// promise: "), line.strip_prefix("// mutant: ")) {
            (Some(names), _) => (false, names),
            (_, Some(names)) => (true, names),
            _ => continue,
        };
        let mut attributes = String::new();
        let below = lines.by_ref().map(|(_, line)| line).find(|line| {
            attributes.push_str(line);
            !line.starts_with("#[")
        });
        let name = below.and_then(|line| line.split_once("fn ")?.1.split_once('(')).map(|(name, _)| name);
        let test = name.filter(|_| attributes.contains("test]") || attributes.contains("test("));
        let test = test.ok_or_else(|| format!("line {}: no test follows `{line}`", at + 1))?;
        let promises = names.split(", ").map(Into::into).collect();
        marks.push(Mark { is_mutant, promises, test: test.into() });
    }
    Ok(marks)
}

/// What the tests of the workspace say, for each promise; and what is wrong with it.
fn collect(promises: &[(String, String)]) -> (BTreeMap<String, Evidence>, Vec<String>) {
    let mut sources = Vec::new();
    for folder in ["tests", "examples", "lock-core", "lock-macros", "lock-axum"] {
        collect_sources(&root().join(folder), &mut sources);
    }
    let mut found: BTreeMap<String, Evidence> =
        promises.iter().map(|(name, _)| (name.clone(), Evidence::default())).collect();
    let mut wrong = Vec::new();
    for path in sources {
        let file = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let marks = marks(&fs::read_to_string(&path).unwrap()).unwrap_or_else(|error| {
            wrong.push(format!("{file}, {error}"));
            Vec::new()
        });
        for Mark { is_mutant, promises, test } in marks {
            for promise in promises {
                if let Some(evidence) = found.get_mut(&promise) {
                    let tests = if is_mutant { &mut evidence.mutants } else { &mut evidence.tests };
                    tests.entry(file.clone()).or_default().push(test.clone());
                } else {
                    wrong.push(format!("{file}: `{test}` names `{promise}`, which docs/promises.md does not promise"));
                }
            }
        }
    }
    let without_test = found.iter().filter(|(_, evidence)| evidence.tests.is_empty());
    wrong.extend(without_test.map(|(name, _)| format!("no test says `// promise: {name}`")));
    (found, wrong)
}

fn write_tests(text: &mut String, tests: &BTreeMap<String, Vec<String>>) {
    for (file, tests) in tests {
        writeln!(text, "\n[{file}](../{file})\n").unwrap();
        tests.iter().for_each(|test| writeln!(text, "- `{test}`").unwrap());
    }
}

fn generate(promises: &[(String, String)], found: &BTreeMap<String, Evidence>) -> String {
    let mut text = format!(
        "# Evidence\n\n\
         Which tests try which [promise](promises.md), and which *mutants* break it on purpose, so that a check that could\n\
         not fail would be noticed. [The tests](../tests/README.md) says what each kind of test can find.\n\n\
         This page is generated from comments above the tests, `// promise: NAME` and `// mutant: NAME`. Do not edit it:\n\n\
         ```console\n$ {COMMAND}\n```\n"
    );
    for (name, sentence) in promises {
        let Evidence { tests, mutants } = &found[name];
        write!(text, "\n## [{name}](promises.md#{name})\n\n{sentence}\n").unwrap();
        write_tests(&mut text, tests);
        if !mutants.is_empty() {
            text.push_str("\n**Mutants**\n");
            write_tests(&mut text, mutants);
        }
    }
    text
}

#[test]
fn every_promise_has_a_test_and_the_page_of_evidence_lists_it() {
    let promises = promises(&page("docs/promises.md"));
    assert!(promises.len() > 20, "{promises:?}");
    let (found, wrong) = collect(&promises);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let generated = generate(&promises, &found);
    if env::var_os("WRITE_EVIDENCE").is_some() {
        fs::write(root().join("docs/evidence.md"), &generated).unwrap();
    }
    assert!(generated == page("docs/evidence.md"), "docs/evidence.md differs from the tests; to write it: {COMMAND}");
}

#[test]
fn a_mark_that_no_test_follows_is_an_error() {
    let test = "// promise: exclusion, fencing\n#[tokio::test(start_paused = true)]\nasync fn one_holder() {}\n";
    let [mark] = &marks(test).unwrap()[..] else { panic!("one mark") };
    assert_eq!(
        (mark.is_mutant, mark.test.as_str(), &mark.promises[..]),
        (false, "one_holder", &["exclusion".to_owned(), "fencing".into()][..])
    );
    for wrong in [
        "// mutant: exclusion\nfn helper() {}",
        "// promise: exclusion\n\n#[test]\nfn one_holder() {}",
        "// promise: exclusion",
    ] {
        assert_eq!(marks(wrong).err().unwrap().split(':').next(), Some("line 1"), "{wrong}");
    }
}
