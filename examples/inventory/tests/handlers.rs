//! `inventory trial`: the shop's own handlers. Each run has a bound in real time, so these run beside the tests that wait.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

use std::process::{Child, Command, Stdio};

fn begin_trial(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory"));
    command.arg("trial").args(arguments).stdout(Stdio::piped()).spawn().unwrap()
}

fn output_of(trial: Child) -> String {
    let output = trial.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_handler_is_found_by_the_question_that_should_find_it_for_people_and_for_machines() {
    let (for_people, for_machines) = (begin_trial(&[]), begin_trial(&["--json"]));
    let (text, json) = (output_of(for_people), output_of(for_machines));
    assert!(text.contains("held here") && text.contains("fence claimed\nthe check holds"), "{text}");
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let modes = report["modes"].as_array().unwrap();
    assert!(modes.len() == 4 && modes.iter().all(|mode| mode["as_expected"] == true), "{json}");
    assert_eq!([&modes[0]["broken_by"][0], &modes[1]["broken_by"][0]], ["race", "frozen"]);
}
