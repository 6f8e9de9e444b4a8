use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::redis::free_port;
use crate::wait::eventually_async;

/// The `tickTime` of a server that stands alone, in milliseconds.
const TICK: u64 = 100;
/// That of the members of an ensemble, which have to keep in step on a busy machine.
const ENSEMBLE_TICK: u64 = 300;

/// A real ZooKeeper server on a loopback port, with its own directory. It ends when this is dropped, or this process ends.
pub struct ZooKeeperServer {
    port: u16,
    directory: TempDir,
    running: Option<Running>,
}

/// The shell that started the server, and ends it with its own input.
struct Running {
    shell: Child,
    server: Pid,
}

impl ZooKeeperServer {
    /// The `tickTime` of a server that stands alone.
    pub const TICK_TIME: Duration = Duration::from_millis(TICK);

    /// Starts a server that stands alone.
    pub async fn start() -> Self {
        Self::start_with("").await
    }

    /// Starts a server that stands alone, with additional lines in its configuration.
    pub async fn start_with(configuration: &str) -> Self {
        crate::events::keep_two_subscribers();
        for _ in 0..20 {
            let port = free_port();
            let mut server =
                Self::create(port, &format!("tickTime={TICK}\nmaxSessionTimeout=60000\n{configuration}\n"), 1);
            server.run();
            if server.comes_up().await {
                return server;
            }
            // Another process took the port.
        }
        panic!("zookeeper does not start");
    }

    /// One server for all tests of this process, and a path of its own for each call: `host:port/path`.
    pub async fn shared() -> String {
        static SHARED: OnceCell<ZooKeeperServer> = OnceCell::const_new();
        static PATHS: AtomicU32 = AtomicU32::new(1);
        let server = SHARED.get_or_init(Self::start).await;
        format!("{}/test-{}", server.address(), PATHS.fetch_add(1, Ordering::Relaxed))
    }

    /// Where it is: `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Stops the processes of the server (`SIGSTOP`). Connections stay, and nobody answers.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on (`SIGCONT`).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the server (`SIGKILL`).
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Starts a server that was killed again, at the same address and with the data that it had.
    pub async fn start_again(&mut self) {
        for _ in 0..20 {
            self.run();
            if self.comes_up().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("zookeeper does not start again: {}", self.log());
    }

    /// Deletes all data of a server that was killed.
    pub fn lose_data(&self) {
        fs::remove_dir_all(self.directory.path().join("data/version-2")).unwrap();
    }

    /// What it is, as it says: `standalone`, `leader` or `follower`. `None` while it is neither.
    #[must_use]
    pub fn mode(&self) -> Option<String> {
        self.says("srvr", "Mode: ")
    }

    /// How many watches it keeps. `None` while it does not serve.
    #[must_use]
    pub fn watches(&self) -> Option<usize> {
        self.says("wchs", "Total watches:")?.parse().ok()
    }

    /// What it says behind this label when it is sent a four-letter word.
    fn says(&self, word: &str, label: &str) -> Option<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        stream.write_all(word.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.lines().find_map(|line| line.strip_prefix(label)).map(str::to_owned)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn create(port: u16, configuration: &str, id: usize) -> Self {
        let directory = TempDir::new().unwrap();
        let data = directory.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("myid"), id.to_string()).unwrap();
        let common = "4lw.commands.whitelist=srvr,wchs\nadmin.enableServer=false\nmaxClientCnxns=0\nforceSync=no\n";
        let file = format!(
            "dataDir={}\n{common}clientPort={port}\nclientPortAddress=127.0.0.1\n{configuration}",
            data.display()
        );
        fs::write(directory.path().join("zoo.cfg"), file).unwrap();
        Self { port, directory, running: None }
    }

    fn run(&mut self) {
        // When this process ends, however it does, the shell's input ends, and the shell ends the server.
        let log = self.directory.path().join("log");
        let script = r#"log=$1; shift; "$@" </dev/null >"$log" 2>&1 & echo $!; cat >/dev/null; kill -9 $!; wait"#;
        let java =
            ["java", "-Xmx256m", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"];
        let settings = ["-Dreadonlymode.enabled=true", "-Dzookeeper.forceSync=no", "-Dzookeeper.cnxTimeout=500"];
        let main = ["-cp", "/usr/share/java/zookeeper.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain"];
        let mut shell = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(log)
            .args(java)
            .args(settings)
            .args(main)
            .arg(self.directory.path().join("zoo.cfg"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let server = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        self.running = Some(Running { shell, server });
    }

    /// Waits until the server answers. False if its process ended instead.
    async fn comes_up(&mut self) -> bool {
        let mut ended = false;
        eventually_async("zookeeper answers", async || {
            ended = !self.is_running();
            ended || self.mode().is_some()
        })
        .await;
        !ended
    }

    fn is_running(&self) -> bool {
        let Some(running) = &self.running else { return false };
        // A process that has ended and was not waited for has no command line.
        let command_line = fs::read(format!("/proc/{}/cmdline", running.server.as_raw_nonzero()));
        command_line.is_ok_and(|command_line| !command_line.is_empty())
    }

    fn signal(&self, signal: Signal) {
        let running = self.running.as_ref().expect("it runs");
        kill_process(running.server, signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        _ = self.shell.wait();
    }
}

/// Three real ZooKeeper servers that elect a leader.
pub struct ZooKeeperEnsemble {
    /// The servers.
    pub servers: Vec<ZooKeeperServer>,
}

impl ZooKeeperEnsemble {
    /// The `tickTime` of the servers.
    pub const TICK_TIME: Duration = Duration::from_millis(ENSEMBLE_TICK);

    /// Starts the servers, and waits until all of them serve.
    pub async fn start() -> Self {
        let ensemble = Self::launch();
        ensemble.all_serve().await;
        ensemble
    }

    /// Starts the processes of the servers, and waits for nothing: no port is open yet, and no leader is elected.
    #[must_use]
    pub fn launch() -> Self {
        crate::events::keep_two_subscribers();
        let ports: Vec<[u16; 3]> = (0..3).map(|_| [free_port(), free_port(), free_port()]).collect();
        let members = ports
            .iter()
            .enumerate()
            .map(|(at, [_, quorum, election])| format!("server.{}=127.0.0.1:{quorum}:{election}\n", at + 1));
        // Now and then a server that was elected waits for followers in vain, and elects again only after `initLimit`, which is 3 s here.
        let timing = format!("tickTime={ENSEMBLE_TICK}\ninitLimit=10\nsyncLimit=20\nmaxSessionTimeout=60000\n");
        let configuration = members.fold(timing, |all, member| all + &member);
        let create = |(at, [port, ..]): (usize, &[u16; 3])| ZooKeeperServer::create(*port, &configuration, at + 1);
        let mut servers: Vec<ZooKeeperServer> = ports.iter().enumerate().map(create).collect();
        servers.iter_mut().for_each(ZooKeeperServer::run);
        Self { servers }
    }

    /// All servers: `host:port,host:port,host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.servers.iter().map(ZooKeeperServer::address).collect::<Vec<_>>().join(",")
    }

    /// Which server leads.
    pub async fn leader(&self) -> usize {
        let mut leader = None;
        eventually_async("a server leads", async || {
            leader = self
                .servers
                .iter()
                .position(|server| server.running.is_some() && server.mode().as_deref() == Some("leader"));
            leader.is_some()
        })
        .await;
        leader.unwrap()
    }

    /// Waits until all servers are there.
    pub async fn all_serve(&self) {
        let serves = |server: &ZooKeeperServer| matches!(server.mode().as_deref(), Some("leader" | "follower"));
        eventually_async("all servers serve", async || self.servers.iter().all(serves)).await;
    }
}
