//! The Lua scripts: how they are put together from their files, and their hashes.

use std::sync::LazyLock;

use redis::Cmd;

use crate::node::limits::{self, MAX_HEARD};
use crate::node::{Keyspace, RESERVATION_TTL};
use crate::random::OwnerId;

/// Executes a batch of requests.
pub(super) static LEDGER: LazyLock<Script> = LazyLock::new(|| Script::ledger("#KEYS - 1"));
/// The same for a server that insists on the declaration of all keys: then their number does not say how many requests there are.
pub(super) static STRICT_LEDGER: LazyLock<Script> = LazyLock::new(|| Script::ledger("tonumber(table.remove(ARGV))"));
/// Reads what a node has of locks.
pub(super) static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/look.lua")));
/// Evicts holders from a lock.
pub(super) static EVICT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/evict.lua")));
/// Writes the record of a node.
pub(super) static RECORD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/record.lua")));

/// The files that the scripts include, by a line `-- include FILE`.
///
/// Most are the body of a function that few batches call, and stand inside the function that calls it: a server creates functions for
/// each command again, which takes about as long as running one.
const INCLUDED: [(&str, &str); 7] = [
    ("ledger_beside.lua", include_str!("scripts/ledger_beside.lua")),
    ("ledger_readers.lua", include_str!("scripts/ledger_readers.lua")),
    ("lone.lua", include_str!("scripts/lone.lua")),
    ("waiting.lua", include_str!("scripts/waiting.lua")),
    ("waiting_positions.lua", include_str!("scripts/waiting_positions.lua")),
    ("waiting_readers.lua", include_str!("scripts/waiting_readers.lua")),
    ("waiting_slots.lua", include_str!("scripts/waiting_slots.lua")),
];

/// The names in the scripts that stand for values which are the same for every store. They are replaced before a server gets the script:
/// a variable that a function uses from outside would have to be bound each time that the function is created. None is part of another
/// name.
fn values() -> Vec<(&'static str, String)> {
    let own = [
        ("FENCES", Keyspace::FENCES.to_string()),
        ("MAX_HEARD", MAX_HEARD.to_string()),
        ("NOBODY", format!("'{}'", OwnerId::NOBODY)),
        ("OWNER_PREFIX", format!("'{}'", OwnerId::PREFIX)),
        ("RESERVATION_TTL", RESERVATION_TTL.as_millis().to_string()),
        ("SHARED", format!("'{}'", OwnerId::SHARED)),
    ];
    limits::named().into_iter().chain(own).collect()
}

/// The code of a script, with the files that it includes. Comments are left out, because the source travels over each connection that is
/// opened.
fn code(source: &str) -> String {
    let lines = source.lines().map(|line| match line.trim_start().strip_prefix("--") {
        Some(comment) => comment
            .strip_prefix(" include ")
            .and_then(|name| INCLUDED.iter().find(|(file, _)| *file == name))
            .map_or_else(String::new, |(_, source)| code(source)),
        None => format!("{line}\n"),
    });
    lines.collect()
}

/// The code with the values of the names that stand for one.
fn with_values(code: &str) -> String {
    values().into_iter().fold(code.to_owned(), |code, (name, value)| code.replace(name, &value))
}

/// The sources of the scripts, as a server gets them: ledger, record, look and evict. For tests that run them without a server.
#[doc(hidden)]
#[must_use]
pub fn script_sources() -> [&'static str; 4] {
    [&LEDGER.source, &RECORD.source, &LOOK.source, &EVICT.source]
}

/// A script and its hash, which is computed once.
pub(super) struct Script {
    source: String,
    hash: String,
}

/// How a command refers to its script.
#[derive(Clone, Copy)]
pub(super) enum ScriptRef {
    /// `EVALSHA`: nearly always.
    Hash,
    /// `EVAL`: when the server does not have the script.
    Source,
}

impl Script {
    fn new(file: &str) -> Self {
        let source = with_values(&code(file));
        let hash = redis::Script::new(&source).get_hash().to_owned();
        Self { source, hash }
    }

    /// The ledger, with an expression for how many requests a batch has.
    fn ledger(request_count: &str) -> Self {
        Self::new(&include_str!("scripts/ledger.lua").replace("REQUEST_COUNT", request_count))
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// The beginning of a command, with room for about this many arguments and bytes.
    pub(super) fn command(&self, script: ScriptRef, args: usize, bytes: usize) -> Cmd {
        let mut command = Cmd::with_capacity(args, bytes);
        match script {
            ScriptRef::Hash => command.arg("EVALSHA").arg(&self.hash),
            ScriptRef::Source => command.arg("EVAL").arg(&self.source),
        };
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_of_a_script_is_declared() {
        for source in script_sources() {
            check(source);
        }
    }

    fn check(source: &str) {
        let is_name = |c: char| c.is_ascii_uppercase() || c == '_';
        let provided_by_redis = ["KEYS", "ARGV"];
        let code = source.lines().map(|line| line.split("--").next().unwrap_or_default());
        let mut declared: Vec<&str> = provided_by_redis.to_vec();
        for line in code {
            // Letters and words within quotes are replies and Redis commands.
            let unquoted: String = line.split('\'').step_by(2).collect::<Vec<_>>().join(" ");
            if let Some((names, _)) = line.strip_prefix("local ").and_then(|rest| rest.split_once('=')) {
                declared.extend(names.split(',').map(str::trim));
            }
            for name in unquoted.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                let is_constant = name.len() > 1 && name.chars().all(is_name);
                assert!(!is_constant || declared.contains(&name), "{name} in {line}");
            }
        }
        assert!(declared.len() > provided_by_redis.len());
    }
}
