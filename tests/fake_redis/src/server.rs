use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;

use super::clock::NodeClock;
use super::commands::{Scripts, Session, State};
use super::database::Database;
use super::flaw::Flaw;
use super::resp::{Reply, Words, take_command};
use super::sorted_sets::SortedSet;
use super::store::Store;

/// A simulated Redis server. Clones are the same server.
#[derive(Clone)]
pub struct FakeRedis(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    life: Mutex<Life>,
    /// Notified to cut all connections. Not a `watch`: that wakes its receivers in random order.
    cut: Notify,
}

/// What happened to the server.
pub(super) struct Life {
    pub(super) name: String,
    pub(super) starts: u32,
    /// How many histories its data had.
    pub(super) histories: u32,
    sessions: u64,
    /// Until when it hangs, in true time.
    pub(super) hangs_until: Duration,
    /// What is on its disk.
    pub(super) saved: Store,
    /// A hash over all commands and when they were executed: equal for two runs that are the same to the server.
    digest: u64,
    /// The commands that it received since it was asked for them last; `None` if nobody asks.
    received: Option<Vec<Words>>,
}

impl FakeRedis {
    /// A server that has just started for the first time. Its name makes its run ids unique.
    #[must_use]
    pub fn new(name: impl Into<String>, clock: NodeClock, durable: bool, flaw: Option<Flaw>) -> Self {
        let name = name.into();
        let (run_id, replid) = (format!("{name}-run-1"), format!("{name}-data-1"));
        let state = State {
            database: Database::default(),
            clock,
            run_id,
            replid,
            durable,
            scripts: Scripts::new(),
            slots: None,
            flaw,
            flaws: BTreeSet::new(),
        };
        let saved = Store::default();
        let life = Life {
            name,
            starts: 1,
            histories: 1,
            sessions: 0,
            hangs_until: Duration::ZERO,
            saved,
            digest: 0,
            received: None,
        };
        let (state, life) = (Mutex::new(state), Mutex::new(life));
        Self(Arc::new(Shared { state, life, cut: Notify::new() }))
    }

    /// Serves a client until it hangs up or is cut off. `time` returns true time.
    ///
    /// # Errors
    ///
    /// Errors of the stream, and bytes that are not a command.
    pub async fn serve<S>(&self, mut stream: S, time: impl Fn() -> Duration) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Visit { session, .. } = &mut self.visit();
        let called = Arc::clone(&session.called);
        let mut cut = std::pin::pin!(self.0.cut.notified());
        cut.as_mut().enable();
        let (mut input, mut output) = (Vec::new(), Vec::new());
        loop {
            let read = tokio::select! {
                biased;
                () = &mut cut => return Ok(()),
                () = called.notified() => None,
                read = stream.read_buf(&mut input) => Some(read?),
            };
            if read == Some(0) {
                return Ok(());
            }
            self.hang_on(&time).await;
            self.write_messages(session, &mut output);
            while let Some(words) = take_command(&mut input)? {
                if words.is_empty() {
                    continue;
                }
                let reply = self.execute(session, &words, time());
                self.write_messages(session, &mut output);
                reply.write(session.protocol, &mut output);
            }
            stream.write_all(&output).await?;
            output.clear();
        }
    }

    /// Appends the messages for the subscriptions of a session.
    fn write_messages(&self, session: &Session, output: &mut Vec<u8>) {
        let messages = self.state().database.channels.take_messages(session.id);
        messages.iter().for_each(|message| message.write(session.protocol, output));
    }

    /// Begins a connection.
    fn visit(&self) -> Visit<'_> {
        let mut life = self.life();
        life.sessions += 1;
        Visit { server: self, session: Session { protocol: 2, id: life.sessions, called: Arc::default() } }
    }

    /// Waits while the server hangs.
    async fn hang_on(&self, time: &impl Fn() -> Duration) {
        while let Some(left) = self.hangs_for(time()) {
            tokio::time::sleep(left).await;
        }
    }

    fn hangs_for(&self, now: Duration) -> Option<Duration> {
        self.life().hangs_until.checked_sub(now).filter(|left| !left.is_zero())
    }

    fn execute(&self, session: &mut Session, words: &[Vec<u8>], now: Duration) -> Reply {
        {
            let mut life = self.life();
            let mut hash = |bytes: &[u8]| {
                for byte in bytes {
                    life.digest = (life.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
                }
            };
            hash(&now.as_micros().to_le_bytes());
            words.iter().for_each(|word| hash(word));
            if let Some(received) = &mut life.received {
                received.push(words.to_vec());
            }
        }
        self.state().execute(session, words, now)
    }

    /// Whether every write is on disk before it is acknowledged.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.state().durable
    }

    /// The field of its record under this prefix; `None` if the record is not of its present run.
    #[must_use]
    pub fn record_field(&self, prefix: &str, name: &str, now: Duration) -> Option<String> {
        let state = &mut *self.state();
        let (record, now) = (format!("{prefix}{{node}}"), state.clock.millis(now));
        let mut field = |name: &str| {
            let value = state.database.store.field(record.as_bytes(), name.as_bytes(), now).ok()??;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        let run_id = field("run_id")?;
        let value = field(name);
        value.filter(|_| run_id == format!("{}/{}", state.run_id, state.replid))
    }

    /// The locks that are held on it under this prefix.
    #[must_use]
    pub fn locks(&self, prefix: &str, now: Duration) -> Vec<String> {
        let state = self.state();
        let now = state.clock.millis(now);
        let keys = state.database.store.alive(now).map(|key| String::from_utf8_lossy(key).into_owned());
        keys.filter(|key| key.strip_prefix(prefix).is_some_and(|name| !name.starts_with('{'))).collect()
    }

    /// Who holds which of these locks on it: a writer is named by its lock, and a reader by itself, too.
    pub fn holders(&self, prefix: &str, now: Duration) -> Vec<(String, Vec<u8>)> {
        let locks = self.locks(prefix, now);
        let state = &mut *self.state();
        let now = state.clock.millis(now);
        let mut holders = Vec::new();
        for lock in locks {
            let readers = format!("{prefix}{{{}}}:readers", &lock[prefix.len()..]);
            #[expect(clippy::cast_precision_loss, reason = "scores are floating-point numbers")]
            let alive = |readers: &mut SortedSet| readers.from(now as f64).map(<[u8]>::to_vec).collect::<Vec<_>>();
            let readers = state.database.store.with_sorted_set(readers.as_bytes(), now, alive).unwrap_or_default();
            holders.extend(readers.into_iter().map(|reader| (lock.clone(), reader)));
            holders.push((lock, Vec::new()));
        }
        holders
    }

    /// How many wake-ups its scripts sent, and how many of a waiter that nobody listens for.
    #[must_use]
    pub fn done(&self) -> BTreeMap<&'static str, u64> {
        self.state().database.done.clone()
    }

    /// A pattern of its flaw that none of its scripts contained: then the flaw had no effect.
    #[must_use]
    pub fn missed_flaw(&self) -> Option<&'static str> {
        let state = self.state();
        state.flaw?.patterns().find(|pattern| !state.flaws.contains(pattern))
    }

    /// A hash over all commands that it executed, and when it did.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.life().digest
    }

    /// From now on, it refuses scripts the use of keys that their commands did not declare, as some engines do.
    pub fn insist_on_declarations(&self) {
        self.state().database.declarations.insists = true;
    }

    /// The keys that it refused scripts whose commands declared others.
    #[must_use]
    pub fn undeclared(&self) -> Vec<String> {
        self.state().database.declarations.refused.iter().cloned().collect()
    }

    /// The commands that it received since the last call; nothing at the first call, from which on they are kept.
    #[must_use]
    pub fn take_received(&self) -> Vec<Vec<Vec<u8>>> {
        self.life().received.replace(Vec::new()).unwrap_or_default()
    }

    /// Cuts all connections.
    pub fn cut_connections(&self) {
        self.0.cut.notify_waiters();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn life(&self) -> MutexGuard<'_, Life> {
        self.0.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection. Its end also ends its subscriptions.
struct Visit<'a> {
    server: &'a FakeRedis,
    session: Session,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.server.state().database.channels.disconnect(self.session.id);
    }
}
