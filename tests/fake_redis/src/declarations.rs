use std::collections::BTreeSet;

use super::resp::Reply;

/// Which keys a script may use: all of them, unless the server insists that its command declared them.
#[derive(Clone, Debug, Default)]
pub(super) struct Declarations {
    pub(super) insists: bool,
    /// Those of the script that is running.
    declared: BTreeSet<Vec<u8>>,
    /// The keys that scripts were refused whose commands declared others.
    pub(super) refused: BTreeSet<String>,
}

impl Declarations {
    /// A script begins to run.
    pub(super) fn begin(&mut self, keys: &[Vec<u8>]) {
        if self.insists {
            self.declared = keys.iter().cloned().collect();
        }
    }

    /// The reply to a command of a script, if it uses a key that was not declared. The name is in capitals.
    pub(super) fn refuse(&mut self, name: &str, arguments: &[Vec<u8>]) -> Option<Reply> {
        if !self.insists {
            return None;
        }
        let undeclared = keys_of(name, arguments).iter().find(|key| !self.declared.contains(*key))?;
        let undeclared = String::from_utf8_lossy(undeclared).into_owned();
        let reply = Reply::error(format!("ERR script tried accessing undeclared key, key: {undeclared}"));
        // Without a key, it only asks whether it may.
        if !self.declared.is_empty() {
            self.refused.insert(undeclared);
        }
        Some(reply)
    }
}

/// The keys of a command of a script. The name is in capitals.
pub(super) fn keys_of<'a>(name: &str, arguments: &'a [Vec<u8>]) -> &'a [Vec<u8>] {
    match name {
        "TIME" | "PUBLISH" | "SPUBLISH" => &[],
        "MGET" | "DEL" | "EXISTS" => arguments,
        _ => &arguments[..arguments.len().min(1)],
    }
}
