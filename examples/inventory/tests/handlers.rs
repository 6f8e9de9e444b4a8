//! `inventory trial`: the shop's own handlers. Each run has a bound in real time, so these run beside the tests that wait.

use std::process::Command;

use inventory::try_out;

#[test]
fn each_handler_is_found_by_the_question_that_should_find_it() {
    let report = try_out().unwrap();
    assert!(report.passed(), "{report}");
    println!("{report}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["modes"][1]["broken_by"][0], "frozen");
}

#[test]
fn the_command_prints_the_schedules_for_people_and_for_machines() {
    let trial = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_inventory")).arg("trial").args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = trial(&[]);
    assert!(text.contains("held here") && text.contains("fence claimed\nthe check holds"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&trial(&["--json"])).unwrap();
    assert_eq!(json["modes"][0]["broken_by"][0], "race");
}
