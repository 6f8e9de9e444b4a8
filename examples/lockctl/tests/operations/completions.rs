//! The scripts for the shells.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::lockctl::command;

const COMMANDS: [&str; 9] =
    ["health", "members", "replace", "watch", "inspect", "force-release", "form", "max-ttl", "completions"];

/// The script for a shell, which needs no masters.
async fn script(shell: &str) -> String {
    let output = command(&[], &format!("completions {shell}")).env_remove("LOCK_URLS").output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What bash offers for the last of these words.
fn offered(script: &str, words: &[&str]) -> Vec<String> {
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let ask = format!(
        "source {script}; COMP_WORDS=({}); COMP_CWORD={}; _lockctl lockctl '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" "),
        words.len() - 1
    );
    let output = Command::new("bash").args(["--norc", "-c", &ask]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn bash_completes_commands_and_options() {
    let (folder, text) = (TempDir::new().unwrap(), script("bash").await);
    let path = folder.path().join("lockctl");
    fs::write(&path, text).unwrap();
    assert!(Command::new("bash").arg("-n").arg(&path).status().unwrap().success());
    let path = path.to_str().unwrap();
    assert_eq!(offered(path, &["lockctl", "ins"]), ["inspect"]);
    assert_eq!(offered(path, &["lockctl", "inspect", "--js"]), ["--json"]);
    assert_eq!(offered(path, &["lockctl", "completions", "fi"]), ["fish"]);
    let commands = offered(path, &["lockctl", "\"\""]);
    assert!(COMMANDS.iter().all(|command| commands.contains(&(*command).to_owned())), "{commands:?}");
}

#[tokio::test]
async fn zsh_and_fish_complete_each_command() {
    let (zsh, fish) = (script("zsh").await, script("fish").await);
    assert!(zsh.starts_with("#compdef lockctl"), "{zsh}");
    for name in COMMANDS {
        assert!(zsh.contains(&format!("'{name}:")) || zsh.contains(&format!("\n{name}:")), "{name}: {zsh}");
        assert!(fish.contains(&format!("-a \"{name}\"")), "{name}: {fish}");
    }
}
