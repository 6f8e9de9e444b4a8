mod bus;
mod clock;
mod disk;
mod release;
mod sentinel;
mod slots;
mod standby;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use lock_core::{LockManager, LockManagerBuilder, RedisNode};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, FromRedisValue, RedisResult};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

pub use self::bus::Bus;
pub use self::clock::Clock;
pub use self::disk::Backup;
pub use self::release::Release;
pub use self::sentinel::Sentinel;
pub use self::slots::SlotCluster;
use crate::statistics::executed;
use crate::wait::eventually_async;

/// Serializes the tests of one binary that load the machine or measure time: hold the guard for the whole test.
pub async fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

/// The server that tests use unless they say another one.
const PROGRAM: &str = "redis-server";

/// A real `redis-server` process on a loopback port, with its own directory. It is killed and reaped when this is dropped.
pub struct RedisServer {
    program: PathBuf,
    port: u16,
    arguments: Vec<String>,
    directory: TempDir,
    child: Child,
    /// Its own wall clock, if it is not that of the machine.
    clock: Option<Clock>,
    /// The login in the URL of [`connect`](Self::connect), with its `@`; empty without a password.
    login: String,
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with additional arguments, such as `["--requirepass", "secret"]`.
    pub async fn start_with(arguments: &[&str]) -> Self {
        Self::launch(arguments, None).await
    }

    /// Starts a server with additional arguments, and a clock of its own if there is one.
    pub async fn launch(arguments: &[&str], clock: Option<Clock>) -> Self {
        Self::launch_program(Path::new(PROGRAM), arguments, clock).await
    }

    /// Starts a server of another program.
    pub async fn start_program(program: &Path, arguments: &[&str]) -> Self {
        Self::launch_program(program, arguments, None).await
    }

    async fn launch_program(program: &Path, arguments: &[&str], mut clock: Option<Clock>) -> Self {
        crate::events::keep_two_subscribers();
        let mut directory = TempDir::new().unwrap();
        let mut all: Vec<String> = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"].map(String::from).into();
        all.extend(["--maxmemory-policy", "noeviction"].map(String::from));
        if !release::allows_debug(program) {
            all.extend(["--enable-debug-command", "yes"].map(String::from));
        }
        all.extend(arguments.iter().map(ToString::to_string));
        let password = arguments.iter().skip_while(|argument| **argument != "--requirepass").nth(1);
        let login = password.map(|password| format!(":{password}@")).unwrap_or_default();
        for _ in 0..50 {
            let port = free_port();
            let child = spawn(program, port, &directory, &all, clock.as_ref());
            let (program, arguments, login) = (program.to_owned(), all.clone(), login.clone());
            let mut server = Self { program, port, arguments, directory, child, clock, login };
            if server.comes_up().await {
                return server;
            }
            // Another process took the port.
            clock = server.clock.take();
            directory = std::mem::replace(&mut server.directory, TempDir::new().unwrap());
        }
        panic!("redis-server does not start");
    }

    /// The URL, without a login.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the process (`SIGKILL`).
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the process (`SIGSTOP`): its connections stay open, and no command is answered.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes a stopped process (`SIGCONT`).
    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process and starts a new one at the same address, without any data.
    pub async fn restart_empty(&mut self) {
        self.restart().await;
    }

    /// Kills the process and starts a new one at the same address, with the data that it had.
    pub async fn restart_with_data(&mut self) {
        self.query::<String>("SAVE").await;
        self.restart().await;
        // A later restart without data must not load what was saved for this one.
        std::fs::remove_file(self.directory.path().join("dump.rdb")).unwrap();
    }

    /// Runs a command, whose words are separated by spaces, on a new connection.
    pub async fn query<T: FromRedisValue>(&self, command: &str) -> T {
        self.try_query(command).await.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// How many times the server has run the script of the locks by its hash. The scripts of inspections, which may come at any time, are
    /// sent by their source.
    pub async fn script_calls(&self) -> u64 {
        let executed = executed(&mut self.connect().await.unwrap()).await.unwrap();
        executed.get("evalsha").copied().unwrap_or_default()
    }

    /// Like [`query`](Self::query), without a panic.
    ///
    /// # Errors
    ///
    /// Those of the server.
    pub async fn try_query<T: FromRedisValue>(&self, command: &str) -> RedisResult<T> {
        let mut connection = self.connect().await?;
        let mut words = command.split(' ');
        let mut query = redis::cmd(words.next().unwrap_or_default());
        query.arg(words.collect::<Vec<_>>()).query_async(&mut connection).await
    }

    /// A new connection.
    ///
    /// # Errors
    ///
    /// Those of the server.
    pub async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        // A server may be stopped for a moment, or the machine be busy.
        let patience = Some(Duration::from_secs(20));
        let config = AsyncConnectionConfig::new().set_connection_timeout(patience).set_response_timeout(patience);
        let url = format!("redis://{}{}", self.login, self.address());
        redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
    }

    /// The keys that match a pattern, sorted.
    pub async fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<String> = self.query(&format!("KEYS {pattern}")).await;
        keys.sort();
        keys
    }

    async fn restart(&mut self) {
        self.kill();
        for _ in 0..100 {
            self.child = spawn(&self.program, self.port, &self.directory, &self.arguments, self.clock.as_ref());
            if self.comes_up().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("redis-server does not restart on port {}", self.port);
    }

    /// Waits until the server answers, and has loaded its data. False if its process ended instead.
    async fn comes_up(&mut self) -> bool {
        let (mut up, mut ended) = (false, false);
        let pid = format!("process_id:{}\r\n", self.child.id());
        eventually_async("redis-server answers", async || {
            ended = self.child.try_wait().unwrap().is_some();
            // Another server on this port might answer, so the process id must match.
            let is_up = |info: String| info.contains(&pid) && info.contains("\r\nloading:0\r\n");
            up = !ended && self.try_query::<String>("INFO").await.is_ok_and(is_up);
            up || ended
        })
        .await;
        up
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // `SIGKILL` also ends a stopped process.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn spawn(program: &Path, port: u16, directory: &TempDir, arguments: &[String], clock: Option<&Clock>) -> Child {
    let mut command = Command::new(program);
    command.arg("--port").arg(port.to_string()).arg("--dir").arg(directory.path()).args(arguments);
    command.envs(clock.into_iter().flat_map(Clock::environment));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the server is installed")
}

/// A port that is free now, outside the range from which the kernel takes ports for outgoing connections.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 1_000).unwrap_or_default() * 12;
    loop {
        let port = 20_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// The server at a URL as a node whose connections a factory makes.
pub(crate) fn node_from_factory(name: &str, url: &str) -> RedisNode {
    let client = redis::Client::open(format!("{url}?protocol=resp3")).unwrap();
    RedisNode::from_factory(name, move |config| {
        let client = client.clone();
        async move { client.get_multiplexed_async_connection_with_config(&config).await }
    })
}

/// Real Redis servers, the nodes of a set.
pub struct RedisCluster {
    /// The servers.
    pub servers: Vec<RedisServer>,
}

impl RedisCluster {
    /// The servers as nodes whose connections a factory makes.
    #[must_use]
    pub fn nodes_from_factories(&self) -> Vec<RedisNode> {
        let node = |server: &RedisServer| node_from_factory(&server.address(), &server.url());
        self.servers.iter().map(node).collect()
    }

    /// Starts `count` servers.
    pub async fn start(count: usize) -> Self {
        let servers = (0..count).map(|_| RedisServer::start());
        Self { servers: futures_util::future::join_all(servers).await }
    }

    /// A builder of managers over these servers. Its node timeout is longer than the default, because the servers may be slow
    /// on a busy machine.
    pub fn builder(&self) -> LockManagerBuilder {
        LockManager::builder().redis(self.servers.iter().map(RedisServer::url)).node_timeout(Duration::from_secs(1))
    }

    /// The keys that match a pattern, on all servers.
    pub async fn keys(&self, pattern: &str) -> Vec<String> {
        let keys = self.servers.iter().map(|server| server.keys(pattern));
        futures_util::future::join_all(keys).await.concat()
    }

    /// Waits until no lock key with the default prefix is left on any server.
    pub async fn no_lock_is_left(&self) {
        eventually_async("no lock key is left", async || self.keys("lock:[^{]*").await.is_empty()).await;
    }
}
