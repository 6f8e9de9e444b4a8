//! Fleets in which one client is a plain Redlock: with an empty prefix, its keys are ours. No two clients hold the lock at
//! once, and ours get their share.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::LockManager;
use lock_support::{Dice, RedisCluster, RedisServer, alone, eventually};
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const RESOURCE: &str = "hot";
/// How many clients are ours. One more is a plain Redlock.
const OURS: usize = 2;
/// How many cycles are shared; or a tenth of them, if they take longer than that on a busy machine.
const CYCLES: usize = 1_500;
const LONGEST: Duration = ms(20_000);
/// How long every client holds the lock. It wants it again at once.
const HOLD: Duration = ms(2);
const TTL: Duration = ms(10_000);
/// After how many milliseconds a plain Redlock tries again: from 4, and less than 64.
const RETRY: [u64; 2] = [4, 64];

/// A room for the holder of the lock: a file that exists while somebody is inside, so that other processes can enter it, too.
#[derive(Clone)]
struct Room {
    file: PathBuf,
    cycles: Arc<[AtomicUsize; 2]>,
    overlaps: Arc<AtomicUsize>,
}

/// Who enters.
#[derive(Clone, Copy)]
enum Client {
    Ours,
    Plain,
}

impl Room {
    fn new(directory: &Path) -> Self {
        Self { file: directory.join("room"), cycles: Arc::default(), overlaps: Arc::default() }
    }

    /// Enters with the lock, and leaves after a while.
    async fn visit(&self, client: Client) {
        match File::create_new(&self.file) {
            Ok(_) => {
                sleep(HOLD).await;
                fs::remove_file(&self.file).unwrap();
                self.count(client);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.overlap(),
            Err(error) => panic!("{error}"),
        }
    }

    fn count(&self, client: Client) {
        self.cycles[client as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn overlap(&self) {
        self.overlaps.fetch_add(1, Ordering::Relaxed);
    }

    fn cycles(&self) -> [usize; 2] {
        [Client::Ours, Client::Plain].map(|client| self.cycles[client as usize].load(Ordering::Relaxed))
    }
}

/// Lets our clients and a plain Redlock, which is given the masters and the room, share a lock.
async fn share<F: Future<Output = ()> + Send + 'static>(plain: impl FnOnce(Vec<String>, Room) -> F) {
    let _alone = alone().await;
    let (cluster, directory) = (RedisCluster::start(5).await, TempDir::new().unwrap());
    let room = Room::new(directory.path());
    let mut clients = JoinSet::new();
    for _ in 0..OURS {
        let locks = cluster.builder().prefix("").ttl(TTL).wait(ms(60_000)).connect().await.unwrap();
        clients.spawn(ours(locks, room.clone()));
    }
    clients.spawn(plain(cluster.servers.iter().map(RedisServer::url).collect(), room.clone()));
    let began = Instant::now();
    eventually("the clients had enough cycles", || {
        // A client ends only by a panic.
        if let Some(ended) = clients.try_join_next() {
            ended.unwrap();
        }
        let enough = if began.elapsed() < LONGEST { CYCLES } else { CYCLES / 10 };
        room.cycles().iter().sum::<usize>() >= enough
    })
    .await;
    let [ours, plain] = room.cycles();
    assert!(ours + plain >= CYCLES / 10, "only {ours} and {plain} cycles");
    clients.shutdown().await;
    assert_eq!(room.overlaps.load(Ordering::Relaxed), 0, "two holders at once");
    // Calm, ours have about half or more. A plain client that asks in between gets the free lock, and on a busy machine it is another
    // process with a processor of its own: ours had a fifth. Without polling, they would have one cycle a second.
    assert!(10 * ours >= plain, "ours had {ours} cycles, the plain Redlock {plain}");
}

async fn ours(locks: LockManager, room: Room) {
    loop {
        let guard = locks.lock(RESOURCE).acquire().await.unwrap();
        room.visit(Client::Ours).await;
        guard.release().await.unwrap();
    }
}

// promise: exclusion
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bare_set_nx_loop_shares_a_lock_with_ours() {
    share(async |masters, room| {
        let mut redlock = BareRedlock::connect(&masters).await;
        loop {
            let owner = redlock.lock().await;
            room.visit(Client::Plain).await;
            redlock.unlock(&owner).await;
        }
    })
    .await;
}

/// Redlock in a few lines.
struct BareRedlock {
    masters: Vec<MultiplexedConnection>,
    dice: Dice,
}

impl BareRedlock {
    async fn connect(masters: &[String]) -> Self {
        let clients = masters.iter().map(|master| redis::Client::open(master.as_str()).unwrap());
        let connecting = clients.map(async |client| client.get_multiplexed_async_connection().await.unwrap());
        Self { masters: join_all(connecting).await, dice: Dice::new(1) }
    }

    /// Tries until a majority of the masters has the key. Returns the owner.
    async fn lock(&mut self) -> String {
        loop {
            let owner = format!("bare-{}", self.dice.roll(1 << 32));
            let ttl = u64::try_from(TTL.as_millis()).unwrap();
            let set = redis::cmd("SET").arg(RESOURCE).arg(&owner).arg("NX").arg("PX").arg(ttl).clone();
            if self.each::<Option<String>>(set).await.iter().flatten().count() > self.masters.len() / 2 {
                return owner;
            }
            self.unlock(&owner).await;
            let [least, limit] = RETRY;
            sleep(ms(least + self.dice.roll(limit - least))).await;
        }
    }

    async fn unlock(&self, owner: &str) {
        let script = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";
        self.each::<i64>(redis::cmd("EVAL").arg(script).arg(1).arg(RESOURCE).arg(owner).clone()).await;
    }

    /// Sends a command to all masters.
    async fn each<T: redis::FromRedisValue>(&self, command: redis::Cmd) -> Vec<T> {
        let send = |connection: &MultiplexedConnection| {
            let (mut connection, command) = (connection.clone(), command.clone());
            async move { command.query_async(&mut connection).await.unwrap() }
        };
        join_all(self.masters.iter().map(send)).await
    }
}

// promise: exclusion
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rslock_shares_a_lock_with_ours() {
    share(async |masters, room| {
        let mut locks = rslock::LockManager::new(masters);
        // It tries again after less than that.
        locks.set_retry(u32::MAX, ms(RETRY[1]));
        loop {
            let guard = locks.acquire(RESOURCE, TTL).await.unwrap();
            room.visit(Client::Plain).await;
            guard.release().await;
        }
    })
    .await;
}

// promise: exclusion
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_redlock_shares_a_lock_with_ours() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("mixed");
    let node_runs = Command::new("node").arg("--version").stdin(Stdio::null()).output().await.is_ok();
    if !node_runs || !directory.join("node_modules/redlock").exists() {
        // Not by a macro: the test harness hides the output of a test that passes.
        let not_run =
            "NOT RUN: node_redlock_shares_a_lock_with_ours, because Node.js or its packages are not installed.";
        let install = "Install Node.js, and run `npm install --prefix tests/suite/mixed`.";
        writeln!(std::io::stderr(), "\n{not_run} {install}\n").unwrap();
        return;
    }
    share(async move |masters, room: Room| {
        let mut command = Command::new("node");
        command.arg(directory.join("redlock.js")).arg(&room.file).arg(RESOURCE).args(masters).kill_on_drop(true);
        // Not the error output of the tests: Node.js would leave that non-blocking, and the next one that writes to it fails once it is full.
        let mut node = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            match line.as_str() {
                "cycle" => room.count(Client::Plain),
                _ => room.overlap(),
            }
        }
        panic!("node ended: {:?}", node.wait_with_output().await.unwrap());
    })
    .await;
}
