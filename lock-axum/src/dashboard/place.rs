use std::ffi::OsStr;
use std::path::Path;
use std::{env, fs, process};

use serde_json::{Value, json};

use super::shown::shown;

/// Which process this is, and on which machine: behind a load balancer, each answers with its own locks.
pub(super) fn place() -> Value {
    let program = env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_name).map(OsStr::to_string_lossy);
    json!({
        "program": program.map(|name| shown(&name)),
        "process": process::id(),
        "host": host().map(|name| shown(&name)),
    })
}

/// The name of the machine, or of the container. Not known outside Linux, unless the environment says it.
fn host() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| env::var("HOSTNAME").ok())?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
