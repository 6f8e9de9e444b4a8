//! The diagnostics of `#[distributed_lock]`: an error for each mistake, and no warning for correct use.
//!
//! Each file in `ui/pass` must compile without a warning. Each file in `ui/fail` must fail with exactly the errors that its
//! comments expect, and so must those in `ui/renamed`, where the library is the dependency `platform`, and those in `ui/bare`, where
//! it has none of its features. A comment underlines the part of the line above that the error points at, and gives a substring of the
//! message, or of its notes:
//!
//! ```text
//! #[distributed_lock(resource = "stock:{sku}", tll = "10s")]
//! //                                           ^^^ unknown argument `tll`
//! ```
//!
//! Nothing else in rustc's output is compared, so the cases pass on every toolchain.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use serde_json::Value;

// promise: fail-closed
#[test]
fn a_mistake_is_a_compile_error_and_correct_use_is_silent() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cases: Vec<_> = KINDS.into_iter().flat_map(|kind| cases(root, kind)).collect();
    for kind in KINDS {
        assert!(cases.iter().any(|case| case.kind == kind), "no cases in ui/{}", kind.directory());
    }

    let outputs = check(root, &cases);
    let report = CargoReport::read(&outputs);
    let mismatches: Vec<_> = cases.iter().filter_map(|case| case.mismatch(&report)).collect();
    assert!(
        mismatches.is_empty(),
        "{} of {} cases:\n\n{}\n{}{}{}",
        mismatches.len(),
        cases.len(),
        mismatches.join("\n"),
        report.elsewhere,
        String::from_utf8_lossy(&outputs[0].stderr),
        String::from_utf8_lossy(&outputs[1].stderr),
    );
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pass,
    Fail,
    Renamed,
    Bare,
}

const KINDS: [Kind; 4] = [Kind::Pass, Kind::Fail, Kind::Renamed, Kind::Bare];

impl Kind {
    fn directory(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Renamed => "renamed",
            Self::Bare => "bare",
        }
    }

    /// The name of the library in the package of these cases.
    fn dependency(self) -> &'static str {
        match self {
            Self::Pass | Self::Fail | Self::Bare => "lock-axum",
            Self::Renamed => "platform",
        }
    }
}

/// One file of `ui`.
struct Case {
    kind: Kind,
    /// The name of the binary that is built from it.
    name: String,
    path: PathBuf,
    source: String,
}

/// An error, as a comment expects it or as rustc reports it. Sorted by position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Diagnostic {
    line: usize,
    /// In characters from 0, end exclusive.
    columns: (usize, usize),
    message: String,
    notes: String,
}

fn cases(root: &Path, kind: Kind) -> Vec<Case> {
    let directory = root.join("ui").join(kind.directory());
    let mut paths: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    paths.sort();
    let case = |path: PathBuf| Case {
        kind,
        name: format!("{}_{}", kind.directory(), path.file_stem().unwrap().to_str().unwrap()),
        source: fs::read_to_string(&path).unwrap(),
        path,
    };
    paths.into_iter().map(case).collect()
}

impl Case {
    /// The errors that the comments expect.
    fn expected(&self) -> Vec<Diagnostic> {
        let mut expected = Vec::new();
        let mut code = 0;
        for (index, line) in self.source.lines().enumerate() {
            match underline(line) {
                Some((columns, message)) => {
                    let (message, notes) = (message.to_owned(), String::new());
                    expected.push(Diagnostic { line: code, columns, message, notes });
                }
                None => code = index + 1,
            }
        }
        expected.sort();
        expected
    }

    /// How the result differs from what the case expects, or `None` if it does not.
    fn mismatch(&self, report: &CargoReport) -> Option<String> {
        let found = report.messages.get(&self.name).map_or(&[][..], Vec::as_slice);
        let compiled = report.compiled.contains(&self.name);
        let mut wrong = String::new();
        match self.kind {
            Kind::Pass => {
                for message in found {
                    wrong.push_str(&message.rendered);
                }
                if !compiled && found.is_empty() {
                    wrong.push_str("was not compiled\n");
                }
            }
            Kind::Fail | Kind::Renamed | Kind::Bare => {
                let expected = self.expected();
                if expected.is_empty() {
                    wrong.push_str("expects no error\n");
                }
                if compiled {
                    wrong.push_str("compiles\n");
                }
                let errors = || found.iter().filter(|message| message.level == "error");
                let mut found: Vec<_> = errors().map(|message| message.locate(&self.path)).collect();
                found.sort();
                // Some toolchains report the same error twice, with different notes.
                found.dedup_by(|next, last| {
                    (next.line, next.columns, &next.message) == (last.line, last.columns, &last.message)
                });
                self.compare(&expected, &found, &mut wrong);
            }
        }
        (!wrong.is_empty()).then(|| format!("--- {}\n{wrong}", self.path.display()))
    }

    /// Removes each expected error from those found, and describes what is left on either side.
    fn compare(&self, expected: &[Diagnostic], found: &[Diagnostic], wrong: &mut String) {
        let mut found = found.to_vec();
        for expected in expected {
            let fits = |found: &Diagnostic| {
                (found.line, found.columns) == (expected.line, expected.columns)
                    && (found.message.contains(&expected.message) || found.notes.contains(&expected.message))
            };
            match found.iter().position(fits) {
                Some(index) => drop(found.remove(index)),
                None => self.write(wrong, "missing", expected),
            }
        }
        for found in &found {
            self.write(wrong, "unexpected", found);
        }
    }

    /// Writes a diagnostic in the form of the comments.
    fn write(&self, text: &mut String, title: &str, diagnostic: &Diagnostic) {
        let Diagnostic { line, columns: (start, end), message, notes } = diagnostic;
        let source = self.source.lines().nth(line.wrapping_sub(1)).unwrap_or_default();
        let indent = " ".repeat(start.saturating_sub(2));
        let carets = "^".repeat(end.saturating_sub(*start).max(1));
        writeln!(text, "{title}, line {line}:\n{source}\n//{indent}{carets} {message}{notes}").unwrap();
    }
}

/// The columns and the message of a line `//   ^^^ message`; `None` for any other line.
fn underline(line: &str) -> Option<((usize, usize), &str)> {
    let rest = line.trim_start().strip_prefix("//")?;
    let carets = rest.trim_start();
    let message = carets.trim_start_matches('^');
    let count = carets.len() - message.len();
    let start = line.chars().count() - carets.chars().count();
    (count > 0).then(|| ((start, start + count), message.trim()))
}

/// Checks all cases in a separate workspace, with a package for each kind. Each case is a separate binary, so that an
/// error in one does not stop the others. The package without features is checked alone: beside others it would get theirs.
fn check(root: &Path, cases: &[Case]) -> [Output; 2] {
    let workspace = root.ancestors().nth(2).unwrap();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("macro-diagnostics");
    for kind in KINDS {
        let package = directory.join(kind.directory());
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("Cargo.toml"), manifest(workspace, kind, cases)).unwrap();
    }
    let members = KINDS.map(Kind::directory);
    // The profile of the workspace, whose build scripts and macros are then those that it has built.
    let profile = "[profile.dev]\ndebug = false\nlto = \"off\"\n";
    let manifest = format!("[workspace]\nresolver = \"3\"\nmembers = {members:?}\n\n{profile}");
    fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    // The same versions as in the workspace: they are already downloaded.
    fs::copy(workspace.join("Cargo.lock"), directory.join("Cargo.lock")).unwrap();
    [["--workspace", "--exclude=macro-diagnostics-bare"].as_slice(), &["--package=macro-diagnostics-bare"]]
        .map(|packages| cargo_check(&directory, packages))
}

fn cargo_check(directory: &Path, packages: &[&str]) -> Output {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .arg("check")
        .args(packages)
        .args(["--bins", "--keep-going", "--offline", "--message-format=json", "--quiet"])
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap())
        .current_dir(directory)
        // `-D warnings` would turn a warning next to an expected error into an unexpected error.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap()
}

fn manifest(workspace: &Path, kind: Kind, cases: &[Case]) -> String {
    // A JSON string is also a TOML string. The lock file decides the versions.
    let quote = |path: PathBuf| Value::from(path.to_str().unwrap()).to_string();
    let mut manifest = format!(
        r#"
[package]
name = "macro-diagnostics-{name}"
version = "0.0.0"
edition = "2024"
autobins = false

[dependencies]
axum = {{ version = "*", default-features = false, features = ["json", "macros", "query", "tokio"] }}
{dependency} = {{ package = "lock-axum", path = {path}, default-features = {features} }}
serde = {{ version = "*", features = ["derive"] }}
tracing = {{ version = "*", features = ["attributes"] }}
"#,
        name = kind.directory(),
        dependency = kind.dependency(),
        features = kind != Kind::Bare,
        path = quote(workspace.join("lock-axum"))
    );
    for case in cases.iter().filter(|case| case.kind == kind) {
        let path = quote(case.path.clone());
        write!(manifest, "\n[[bin]]\nname = \"{}\"\npath = {path}\n", case.name).unwrap();
    }
    manifest
}

/// What cargo reported for each binary.
#[derive(Default)]
struct CargoReport {
    compiled: BTreeSet<String>,
    messages: BTreeMap<String, Vec<Message>>,
    /// Errors in the dependencies of the cases.
    elsewhere: String,
}

struct Message {
    level: String,
    text: String,
    notes: String,
    rendered: String,
    spans: Vec<Value>,
}

impl CargoReport {
    fn read(outputs: &[Output]) -> Self {
        let mut report = Self::default();
        let text: String = outputs.iter().map(|output| String::from_utf8_lossy(&output.stdout)).collect();
        for line in text.lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            let name = event["target"]["name"].as_str().unwrap_or_default().to_owned();
            let is_case = event["target"]["kind"][0] == "bin";
            match event["reason"].as_str() {
                Some("compiler-artifact") if is_case => {
                    report.compiled.insert(name);
                }
                Some("compiler-message") => {
                    let message = Message::read(&event["message"]);
                    if is_case && !message.is_summary() {
                        report.messages.entry(name).or_default().push(message);
                    } else if message.level == "error" {
                        report.elsewhere.push_str(&message.rendered);
                    }
                }
                _ => {}
            }
        }
        report
    }
}

impl Message {
    fn read(message: &Value) -> Self {
        let text = |field: &str| message[field].as_str().unwrap_or_default().to_owned();
        let notes = message["children"].as_array().into_iter().flatten();
        let notes: String = notes.filter_map(|note| Some(format!("; {}", note["message"].as_str()?))).collect();
        Self {
            level: text("level"),
            text: text("message"),
            notes,
            rendered: text("rendered"),
            spans: message["spans"].as_array().cloned().unwrap_or_default(),
        }
    }

    /// "aborting due to 2 previous errors", "1 warning emitted", …
    fn is_summary(&self) -> bool {
        self.spans.is_empty()
            && (self.level == "failure-note" || self.text.contains("previous error") || self.text.ends_with(" emitted"))
    }

    /// The position of the message in the file of the case. A message inside a macro is at the call of the macro.
    fn locate(&self, path: &Path) -> Diagnostic {
        let primary = self.spans.iter().find(|span| span["is_primary"] == true);
        let mut span = primary.unwrap_or(&Value::Null);
        while !span.is_null() && !path.ends_with(span["file_name"].as_str().unwrap_or("?")) {
            span = &span["expansion"]["span"];
        }
        let number = |value: &Value| usize::try_from(value.as_u64().unwrap_or_default()).unwrap();
        let first = &span["text"][0];
        let columns =
            (number(&first["highlight_start"]).saturating_sub(1), number(&first["highlight_end"]).saturating_sub(1));
        Diagnostic { line: number(&span["line_start"]), columns, message: self.text.clone(), notes: self.notes.clone() }
    }
}
