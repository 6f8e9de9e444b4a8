//! The Lua scripts: their sources, their hashes, and the constants that they share with Rust.

use std::sync::LazyLock;

use redis::Cmd;

use crate::node::limits::{
    MAX_EVICTED, MAX_GONE, MAX_HEARD, MAX_READERS_SEEN, MAX_RESERVATIONS, MAX_TOKEN, MAX_WAITERS, MAX_WOKEN_READERS,
    QUEUE_TTL, RESERVED_TTL, WRITER_HEARD,
};
use crate::node::wakeup::RESERVATION_TTL;
use crate::node::{EVICTION_GAP, Keyspace};
use crate::random::OwnerId;

/// Executes a batch of requests.
pub(super) static LEDGER: LazyLock<Script> = LazyLock::new(|| {
    let (max_token, ledger) = (constants(&[MAX_TOKENS]), include_str!("scripts/ledger.lua"));
    Script::new(&format!("{}{}{max_token}{}{ledger}", load_beside(), lone(), shared()))
});

/// Reads what a node has of locks.
pub(super) static LOOK: LazyLock<Script> = LazyLock::new(|| {
    let constants = constants(&[("MAX_READERS_SEEN", MAX_READERS_SEEN as u128)]);
    Script::new(&format!("{constants}{}{}", shared(), include_str!("scripts/look.lua")))
});

/// Evicts holders from a lock.
pub(super) static EVICT: LazyLock<Script> = LazyLock::new(|| {
    let source = include_str!("scripts/evict.lua");
    let constants = constants(&[("MAX_EVICTED", MAX_EVICTED as u128), ("EVICTION_GAP", EVICTION_GAP.as_millis())]);
    let nobody = format!("local NOBODY = '{}'\n", OwnerId::NOBODY);
    Script::new(&format!("{}{constants}{nobody}{}{}{source}", load_beside(), owner_prefix(), shared()))
});

/// Writes the record of a node.
pub(super) static RECORD: LazyLock<Script> = LazyLock::new(|| {
    let constants = constants(&[("FENCES", u128::from(Keyspace::FENCES))]);
    Script::new(&format!("{constants}{}", include_str!("scripts/record.lua")))
});

/// The sources of the scripts, as a server gets them: ledger, record, look and evict. For tests that run them without a server.
#[doc(hidden)]
#[must_use]
pub fn script_sources() -> [&'static str; 4] {
    [&LEDGER.source, &RECORD.source, &LOOK.source, &EVICT.source]
}

const MAX_TOKENS: (&str, u128) = ("MAX_TOKEN", MAX_TOKEN as u128);
const MAX_RESERVED: (&str, u128) = ("MAX_RESERVATIONS", MAX_RESERVATIONS as u128);
const RESERVATION_TTLS: [(&str, u128); 2] =
    [("RESERVATION_TTL", RESERVATION_TTL.as_millis()), ("RESERVED_TTL", RESERVED_TTL.as_millis())];

/// The function that `lone.lua` is the body of.
fn lone() -> String {
    let constants = constants(&[&[MAX_TOKENS, MAX_RESERVED], &RESERVATION_TTLS[..]].concat());
    format!("local function lone(...)\n{constants}{}end\n", include_str!("scripts/lone.lua"))
}

/// The function that `ledger_beside.lua` is the body of, with `ledger_readers.lua` and the waiting room inside. The constants of each are
/// inside as well, because a function that uses variables from outside takes longer to create.
fn load_beside() -> String {
    let (shared, max_token, waiting) = (shared(), constants(&[MAX_TOKENS]), load_waiting());
    let (beside, readers) = (include_str!("scripts/ledger_beside.lua"), include_str!("scripts/ledger_readers.lua"));
    format!(
        "local function load_beside(...)\n{shared}\
         local function load_readers(...)\n{max_token}{shared}{readers}end\n\
         {waiting}{beside}end\n"
    )
}

/// The function that `waiting.lua` is the body of, with those of the other files of the waiting room inside.
fn load_waiting() -> String {
    let positions_constants = constants(
        &[&[("QUEUE_TTL", QUEUE_TTL.as_millis()), ("MAX_WAITERS", MAX_WAITERS as u128)], &RESERVATION_TTLS[..]]
            .concat(),
    );
    let readers_constants = constants(&[
        ("WRITER_HEARD", WRITER_HEARD.as_millis()),
        ("MAX_HEARD", MAX_HEARD as u128),
        ("MAX_WOKEN_READERS", MAX_WOKEN_READERS as u128),
    ]);
    let waiting_constants =
        constants(&[&[MAX_RESERVED, ("MAX_GONE", MAX_GONE as u128)], &RESERVATION_TTLS[..]].concat());
    let (owner_prefix, shared) = (owner_prefix(), shared());
    let waiting = include_str!("scripts/waiting.lua");
    let (positions, readers) =
        (include_str!("scripts/waiting_positions.lua"), include_str!("scripts/waiting_readers.lua"));
    format!(
        "local function load_waiting(...)\n{waiting_constants}{owner_prefix}{shared}\
         local function load_positions(...)\n{positions_constants}{positions}end\n\
         local function load_waiting_readers(...)\n{readers_constants}{readers}end\n\
         {waiting}end\n"
    )
}

/// What a lock key contains while readers hold it.
fn shared() -> String {
    format!("local SHARED = '{}'\n", OwnerId::SHARED)
}

fn owner_prefix() -> String {
    format!("local OWNER_PREFIX = '{}'\n", OwnerId::PREFIX)
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
    /// Comments are left out, because the source travels over each connection that is opened.
    fn new(commented: &str) -> Self {
        let is_code = |line: &&str| !line.trim_start().starts_with("--");
        let source: String = commented.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect();
        let hash = redis::Script::new(&source).get_hash().to_owned();
        Self { source, hash }
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

/// Lua declarations, one line each.
fn constants(constants: &[(&str, u128)]) -> String {
    constants.iter().map(|(name, value)| format!("local {name} = {value}\n")).collect()
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
