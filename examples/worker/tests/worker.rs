//! Instances that are killed, frozen and stopped while they run the job, on real Redis servers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use lock_support::{RedisCluster, RedisServer, eventually};
use rusqlite::{Connection, Row};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How many parts the report of a period has.
const PARTS: i64 = 12;

/// A part that was written.
struct Part {
    period: i64,
    number: i64,
    token: i64,
    process: u32,
}

/// Instances of the worker, which are killed when this is dropped.
struct Fleet {
    workers: Vec<Child>,
    database: PathBuf,
    _folder: TempDir,
    _masters: RedisCluster,
}

impl Fleet {
    async fn start(size: usize) -> Self {
        let (folder, masters) = (TempDir::new().unwrap(), RedisCluster::start(3).await);
        let database = folder.path().join("report.sqlite");
        let urls: Vec<_> = masters.servers.iter().map(RedisServer::url).collect();
        let workers = (0..size).map(|_| start_worker(&database, &urls.join(","))).collect();
        Self { workers, database, _folder: folder, _masters: masters }
    }

    /// All parts, in the order in which they were written.
    fn parts(&self) -> Vec<Part> {
        let part = |row: &Row<'_>| {
            Ok(Part { period: row.get(0)?, number: row.get(1)?, token: row.get(2)?, process: row.get(3)? })
        };
        let Ok(db) = Connection::open(&self.database) else { return Vec::new() };
        db.busy_timeout(Duration::from_secs(5)).unwrap();
        // The first instance has yet to create the table.
        let Ok(mut query) = db.prepare("SELECT period, part, token, process FROM parts ORDER BY id") else {
            return Vec::new();
        };
        query.query_map([], part).unwrap().map(Result::unwrap).collect()
    }

    /// Waits until an instance has just written a part that is not the last one. Returns its index.
    async fn in_a_run(&self) -> usize {
        let before = self.parts().len();
        let mut last = None;
        eventually("an instance is in a run", || {
            let parts = self.parts();
            last = parts.last().filter(|part| parts.len() > before && part.number < PARTS / 2).map(|part| part.process);
            last.is_some()
        })
        .await;
        self.workers.iter().position(|worker| Some(worker.id()) == last).unwrap()
    }

    /// Waits until other instances have written something.
    async fn others_go_on(&self, without: u32) {
        let before = self.parts().len();
        eventually("another instance goes on", || self.parts().iter().skip(before).any(|part| part.process != without))
            .await;
    }

    fn signal(&self, worker: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.workers[worker]), signal).unwrap();
    }

    /// Waits until a worker has ended.
    async fn ended(&mut self, worker: usize) -> ExitStatus {
        let mut status = None;
        eventually("the worker ends", || {
            status = self.workers[worker].try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }

    /// Every part was written once and in order, by holders whose tokens never decrease.
    fn assert_once_and_in_order(&self) {
        let parts = self.parts();
        assert!(parts.is_sorted_by_key(|part| part.token));
        let mut next: HashMap<i64, i64> = HashMap::new();
        for part in parts {
            let expected = next.entry(part.period).or_default();
            assert_eq!(part.number, *expected, "in period {}", part.period);
            *expected += 1;
        }
        assert!(next.values().all(|parts| *parts <= PARTS), "{next:?}");
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            _ = worker.kill();
            _ = worker.wait();
        }
    }
}

fn start_worker(database: &Path, masters: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    command.arg(database).env("LOCK_URLS", masters);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

// promise: claims
#[tokio::test]
async fn a_job_goes_on_once_and_in_order_when_instances_are_killed_and_frozen() {
    let mut fleet = Fleet::start(3).await;

    let killed = fleet.in_a_run().await;
    fleet.workers[killed].kill().unwrap();
    fleet.others_go_on(fleet.workers[killed].id()).await;
    fleet.ended(killed).await;

    let frozen = fleet.in_a_run().await;
    fleet.signal(frozen, Signal::STOP);
    fleet.others_go_on(fleet.workers[frozen].id()).await;
    // It resumes in the middle of a run that is another's now.
    fleet.signal(frozen, Signal::CONT);
    fleet.in_a_run().await;
    fleet.assert_once_and_in_order();
}

#[tokio::test]
async fn a_stopped_instance_ends_its_run_with_its_lock_renewed_and_leaves_the_next_to_others() {
    let mut fleet = Fleet::start(2).await;
    let stopped = fleet.in_a_run().await;
    fleet.signal(stopped, Signal::TERM);
    assert!(fleet.ended(stopped).await.success());
    let process = fleet.workers[stopped].id();
    let parts = fleet.parts();
    let last = parts.iter().rev().find(|part| part.process == process).unwrap();
    assert_eq!(last.number, PARTS - 1, "its run was ended");
    let tokens = parts.iter().filter(|part| part.period == last.period).map(|part| part.token);
    assert!(
        tokens.into_iter().all(|token| token == last.token),
        "one lock for a run that is longer than its time to live"
    );
    fleet.others_go_on(process).await;
    fleet.assert_once_and_in_order();
}

#[test]
fn masters_that_are_not_named_are_not_taken_for_locks_in_memory() {
    let folder = TempDir::new().unwrap();
    for masters in ["", "10.0.0.1:6379"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
        let output = command.arg(folder.path().join("report.sqlite")).env("LOCK_URLS", masters).output().unwrap();
        assert!(!output.status.success());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("LOCK_URLS names no master: write redis://"), "{error}");
    }
}
