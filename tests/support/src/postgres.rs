mod clock;
mod pgbouncer;
mod programs;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub use self::pgbouncer::PgBouncer;
use self::programs::{copy, give_away, psql, spawn, template, unprivileged};
use crate::redis::{Clock, free_port};
use crate::wait::eventually_async;

/// A real PostgreSQL server on a loopback port, with its own directory. It is stopped and reaped when this is dropped.
///
/// It trusts everyone who connects, and does not wait for the disk: what was committed outlives its processes, and not the
/// machine. Every server is a copy of one directory, so that all of them have one system identifier.
pub struct PostgresServer {
    port: u16,
    arguments: Vec<String>,
    directory: TempDir,
    child: Child,
    /// Its own wall clock, if it is not that of the machine.
    clock: Option<Clock>,
}

impl PostgresServer {
    /// Starts a server.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with additional arguments, such as `["-c", "fsync=on"]`.
    pub async fn start_with(arguments: &[&str]) -> Self {
        Self::start_in(|directory| copy(template(), directory), arguments, None).await
    }

    /// Starts a server that also speaks TLS, with this certificate and its key, in PEM.
    pub async fn start_with_tls(certificate: &str, key: &str) -> Self {
        let prepare = |directory: &Path| {
            copy(template(), directory);
            for (name, text) in [("server.crt", certificate), ("server.key", key)] {
                let file = directory.join("data").join(name);
                fs::write(&file, text).unwrap();
                fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
                give_away(&file);
            }
        };
        Self::start_in(prepare, &["-c", "ssl=on"], None).await
    }

    async fn start_in(prepare: impl Fn(&Path), arguments: &[&str], mut clock: Option<Clock>) -> Self {
        crate::events::keep_two_subscribers();
        for _ in 0..50 {
            let directory = TempDir::new().unwrap();
            prepare(directory.path());
            let (port, arguments) = (free_port(), arguments.iter().map(ToString::to_string).collect::<Vec<_>>());
            let child = spawn(port, directory.path(), &arguments, clock.as_ref());
            let mut server = Self { port, arguments, directory, child, clock };
            if server.comes_up().await {
                return server;
            }
            // Another process took the port.
            clock = server.clock.take();
        }
        panic!("postgres does not start");
    }

    /// Starts a standby of a server, with a copy of its data.
    pub async fn standby_of(primary: &Self) -> Self {
        let prepare = |directory: &Path| {
            give_away(directory);
            let mut copy = unprivileged("pg_basebackup");
            copy.arg("-D").arg(directory.join("data")).args(["-R", "--no-sync", "--checkpoint=fast"]);
            let output =
                copy.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &primary.port.to_string()]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        Self::start_in(prepare, &[], None).await
    }

    /// Sets who may connect, and how they prove who they are: lines of `pg_hba.conf`. From the next connection on.
    pub async fn set_authentication(&self, lines: &str) {
        fs::write(self.directory.path().join("data/pg_hba.conf"), format!("{lines}\n")).unwrap();
        assert_eq!(self.query("SELECT pg_reload_conf()").await, "t");
        // The server reads it a moment later.
        _ = self.query("SELECT pg_sleep(0.1)").await;
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of the database `postgres`, as the superuser.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The URL of the database `postgres`, as this user.
    #[must_use]
    pub fn url_of(&self, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/postgres", self.port)
    }

    /// Runs SQL on a new connection, and returns its rows: one a line, with `|` between the columns.
    pub async fn query(&self, sql: &str) -> String {
        psql(&self.url(), sql).await
    }

    /// Stops the server in order ("fast"): it ends all connections, rolls back, and writes a checkpoint.
    pub async fn shut_down(&mut self) {
        self.end_with(Signal::INT).await;
    }

    /// Stops the server at once ("immediate"), without a checkpoint: it has to recover when it starts again.
    pub async fn shut_down_immediately(&mut self) {
        self.end_with(Signal::QUIT).await;
    }

    /// Kills all processes of the server (`SIGKILL`).
    pub fn kill(&mut self) {
        let workers = self.workers();
        // First the one that would start others in the place of those that end.
        self.child.kill().unwrap();
        signal(&workers, Signal::KILL);
        self.child.wait().unwrap();
    }

    /// Stops all processes of the server (`SIGSTOP`): its connections stay open, and nothing is answered.
    pub fn stop(&self) {
        // First the one that would start others meanwhile.
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
        signal(&self.workers(), Signal::STOP);
    }

    /// Resumes a stopped server (`SIGCONT`).
    pub fn cont(&self) {
        signal(&self.workers(), Signal::CONT);
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// Starts a server that was stopped or killed again, at the same address and with the data that it had.
    pub async fn start_again(&mut self) {
        for _ in 0..100 {
            self.child = spawn(self.port, self.directory.path(), &self.arguments, self.clock.as_ref());
            if self.comes_up().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("postgres does not start again on port {}: {}", self.port, self.log());
    }

    /// Stops the server in order, and starts it again.
    pub async fn restart(&mut self) {
        self.shut_down().await;
        self.start_again().await;
    }

    /// Copies the files of a server that does not run, for [`put_back`](Self::put_back).
    #[must_use]
    pub fn copy_files(&self) -> TempDir {
        let files = TempDir::new().unwrap();
        copy(&self.directory.path().join("data"), files.path());
        files
    }

    /// Exchanges the files of a server that does not run for a copy.
    pub fn put_back(&self, files: &TempDir) {
        let data = self.directory.path().join("data");
        fs::remove_dir_all(&data).unwrap();
        fs::create_dir(&data).unwrap();
        copy(files.path(), &data);
    }

    /// The processor time that all processes of the server have taken, in steps of the kernel's clock (10 ms).
    #[must_use]
    pub fn processor_time(&self) -> Duration {
        let own = processor_ticks(Pid::from_child(&self.child), true);
        let ticks = own + self.workers().iter().map(|worker| processor_ticks(*worker, false)).sum::<u64>();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// What the server has logged since it was started.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// The processes that the first one has started.
    fn workers(&self) -> Vec<Pid> {
        let workers = format!("/proc/{0}/task/{0}/children", self.child.id());
        let workers = fs::read_to_string(workers).unwrap_or_default();
        workers.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    }

    async fn end_with(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        eventually_async("postgres stops", async || self.child.try_wait().unwrap().is_some()).await;
    }

    /// Waits until the server accepts connections. False if its process ended instead.
    async fn comes_up(&mut self) -> bool {
        let status = self.directory.path().join("data/postmaster.pid");
        let pid = self.child.id().to_string();
        let mut ended = false;
        eventually_async("postgres accepts connections", async || {
            ended = self.child.try_wait().unwrap().is_some();
            // A process that was killed has left its file, so the process id must match.
            let status = fs::read_to_string(&status).unwrap_or_default();
            let mut lines = status.lines().map(str::trim);
            ended || (lines.next() == Some(pid.as_str()) && matches!(lines.next_back(), Some("ready" | "standby")))
        })
        .await;
        !ended
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // With `SIGQUIT`, it ends its other processes and frees its shared memory. It does so by itself, after five seconds at most.
        // For a client that has connected by now and says nothing, it waits as long as a login may take.
        if matches!(self.child.try_wait(), Ok(None)) {
            // A stopped one does nothing before it goes on.
            self.cont();
            _ = kill_process(Pid::from_child(&self.child), Signal::QUIT);
            _ = self.child.wait();
        }
    }
}

/// User and system time of a process, from `/proc/PID/stat`; with those of its children that have ended. None if it has ended.
fn processor_ticks(process: Pid, with_ended: bool) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    // After the name, which may have spaces and parentheses: the 14th to 17th fields.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let count = if with_ended { 4 } else { 2 };
    fields.skip(11).take(count).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

fn signal(processes: &[Pid], signal: Signal) {
    for process in processes {
        // It may have ended by now.
        _ = kill_process(*process, signal);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Instant;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn what_was_committed_outlives_every_way_to_stop() {
        let mut server = PostgresServer::start().await;
        server.query("CREATE TABLE kept (number INT)").await;
        for (number, signal) in [Some(Signal::INT), Some(Signal::QUIT), None].into_iter().enumerate() {
            server.query(&format!("INSERT INTO kept VALUES ({number})")).await;
            match signal {
                Some(signal) => server.end_with(signal).await,
                None => server.kill(),
            }
            server.start_again().await;
            assert_eq!(
                server.log().contains("not properly shut down"),
                signal != Some(Signal::INT),
                "{}",
                server.log()
            );
        }
        server.restart().await;
        assert_eq!(server.query("SELECT string_agg(number::TEXT, ' ') FROM kept").await, "0 1 2");
    }

    #[tokio::test]
    async fn a_client_that_connects_to_a_server_that_stops_and_says_nothing_does_not_hold_it_up_for_long() {
        let server = PostgresServer::start().await;
        let process = Pid::from_child(&server.child);
        // It finds the client and the signal when it goes on.
        kill_process(process, Signal::STOP).unwrap();
        let _client = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        kill_process(process, Signal::QUIT).unwrap();
        kill_process(process, Signal::CONT).unwrap();
        let began = Instant::now();
        drop(server);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_server_is_started_with_arguments_and_keeps_them() {
        let mut server = PostgresServer::start_with(&["-c", "max_connections=7"]).await;
        server.restart().await;
        assert_eq!(server.query("SHOW max_connections").await, "7");
        assert!(server.url().contains(&server.port().to_string()));
    }

    #[tokio::test]
    async fn a_server_that_was_stopped_answers_when_it_goes_on_and_can_be_dropped_before() {
        let server = PostgresServer::start().await;
        server.stop();
        {
            let mut answer = pin!(server.query("SELECT 1"));
            assert!(timeout(Duration::from_millis(50), &mut answer).await.is_err());
            server.cont();
            assert_eq!(answer.await, "1");
        }
        server.stop();
    }
}
