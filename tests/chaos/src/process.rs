//! A service process, as the nemesis controls it.

use std::fs::{self, File};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::Plan;
use super::service::ServiceArgs;

/// A running service. Killed and reaped when it is dropped.
pub(super) struct ServiceProcess {
    child: Child,
}

impl ServiceProcess {
    pub(super) fn start(plan: &Plan, args: &ServiceArgs) -> Self {
        let flag = |name: &str, value: u64| [name.to_owned(), value.to_string()];
        let mut command = Command::new(&plan.program);
        command.arg("service");
        command.args(flag("--service", args.service as u64)).args(flag("--generation", args.generation.into()));
        command.args(flag("--seed", args.seed)).args(flag("--lifetime", args.lifetime));
        command.args(flag("--resources", args.resources as u64)).args(flag("--tasks", args.tasks as u64));
        command.args(["--store", &args.store.name()]);
        command.args(args.masters.iter().flat_map(|master| ["--master", master]));
        command.arg("--ledger").arg(&args.ledger).arg("--history").arg(&args.history);
        if args.unfenced {
            command.arg("--unfenced");
        }
        if args.no_quarantine {
            command.arg("--no-quarantine");
        }
        if args.crowd {
            command.arg("--crowd");
        }
        if args.probes {
            command.arg("--probes");
        }
        let stderr = File::create(args.history.with_extension("stderr")).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(stderr);
        Self { child: command.spawn().expect("a service can be started") }
    }

    /// Its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Whether it has neither ended nor been stopped.
    pub(super) fn is_running(&mut self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let is_stopped = status.rsplit(')').next().is_some_and(|state| state.trim_start().starts_with('T'));
        self.ended().is_none() && !is_stopped
    }

    /// `SIGKILL`.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// `SIGSTOP`.
    pub(super) fn stop(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
    }

    /// `SIGCONT`.
    pub(super) fn cont(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// Asks it to end. Fails if it does not within `limit`, or not with success.
    pub(super) async fn end(mut self, limit: Duration) -> Result<(), String> {
        drop(self.child.stdin.take());
        let asked = Instant::now();
        loop {
            match self.ended() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("ended with {status}")),
                None if asked.elapsed() > limit => return Err(format!("did not end within {limit:?}")),
                None => sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        // `SIGKILL` also ends a stopped process.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
