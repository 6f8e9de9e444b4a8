//! The machine on which a run measured.

use std::fmt;

use serde::Serialize;

use super::BoxError;
use lock_support::RedisServer;

/// What absolute figures depend on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// How many processors this process may use.
    pub cores: usize,
    /// Their model, if the system reports it.
    pub processor: Option<String>,
    /// The version of the kernel.
    pub kernel: String,
    /// The version of the servers.
    pub redis: String,
    /// The version of the peer.
    pub rslock: String,
    /// The load average of the last minute at the start of the run. Much above zero means that the machine was busy
    /// with something else.
    pub load: f64,
}

impl Machine {
    /// Collects the facts.
    pub(super) async fn inspect() -> Result<Self, BoxError> {
        let server = RedisServer::start().await;
        let info: String = server.try_query("INFO server").await?;
        let redis = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("unknown").to_owned();
        let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = processors.lines().find(|line| line.starts_with("model name"));
        let load = std::fs::read_to_string("/proc/loadavg")?;
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            processor: model.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())),
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            redis,
            rslock: locked_version("rslock").unwrap_or("unknown").to_owned(),
            load: load.split(' ').next().unwrap_or_default().parse()?,
        })
    }
}

/// The version of a package in `Cargo.lock`.
fn locked_version(package: &str) -> Option<&'static str> {
    let locked = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock"));
    let after = locked.split_once(&format!("name = \"{package}\"\nversion = \""))?.1;
    Some(after.split_once('"')?.0)
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, kernel, redis, rslock, load, .. } = self;
        let processor = self.processor.as_deref().unwrap_or("unknown processor");
        write!(
            f,
            "{cores} cores ({processor}), kernel {kernel}, Redis {redis}, rslock {rslock}; load {load} at the start"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_peer_is_known() {
        assert!(locked_version("rslock").is_some_and(|version| version.starts_with("0.")));
    }
}
