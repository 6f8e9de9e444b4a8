//! The process of a service.

use std::fs::File;
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
        let number = |flag: &str, number: u64| [flag.to_owned(), number.to_string()];
        let mut command = Command::new(&plan.program);
        command.arg("service");
        command.args(number("--service", args.service as u64)).args(number("--generation", args.generation.into()));
        command.args(number("--seed", args.seed)).args(number("--lifetime", args.lifetime));
        command.args(number("--resources", args.resources as u64)).args(number("--tasks", args.tasks as u64));
        command.args(args.masters.iter().flat_map(|master| ["--master", master]));
        command.arg("--ledger").arg(&args.ledger).arg("--history").arg(&args.history);
        if args.unfenced {
            command.arg("--unfenced");
        }
        let complaints = File::create(args.history.with_extension("stderr")).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(complaints);
        Self { child: command.spawn().expect("a service can be started") }
    }

    /// How it ended, if it did.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
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

    /// Asks it to end. Tells what is wrong if it does not within `limit`, or not well.
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
        // Ends a stopped process, too.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
