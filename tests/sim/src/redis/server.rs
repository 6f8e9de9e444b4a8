use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;

use super::clock::NodeClock;
use super::commands::{Session, State};
use super::flaw::Flaw;
use super::lists::Look;
use super::resp::{Answer, take_command};
use super::store::Store;

/// A fake Redis server. Clones are the same server.
#[derive(Clone)]
pub struct FakeRedis(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    life: Mutex<Life>,
    /// Told to cut all connections. Not a `watch`: that draws lots whom to wake first.
    cut: Notify,
    /// Told to look again, those that are blocked.
    look: Notify,
}

/// What happened to the server.
struct Life {
    name: String,
    starts: u32,
    sessions: u64,
    /// Until when it reads and does nothing, in true time.
    hangs_until: Duration,
    /// What it would find on its disk.
    saved: Store,
    /// A hash over all that it executed, and when: two runs that are the same to the server have the same.
    digest: u64,
}

/// What a server remembers when it starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Everything.
    Kept,
    /// What it had when it was last [saved](FakeRedis::save).
    Saved,
    /// Nothing.
    Lost,
}

impl FakeRedis {
    /// A server that was just started for the first time. Its name makes its run ids its own.
    #[must_use]
    pub fn new(name: impl Into<String>, clock: NodeClock, durable: bool, flaw: Option<Flaw>) -> Self {
        let name = name.into();
        let run_id = format!("{name}-run-1");
        let state = State {
            store: Store::default(),
            clock,
            run_id,
            durable,
            scripts: BTreeSet::new(),
            flaw,
            done: BTreeMap::new(),
            blocked: Vec::new(),
        };
        let saved = Store::default();
        let life = Life { name, starts: 1, sessions: 0, hangs_until: Duration::ZERO, saved, digest: 0 };
        let (state, life) = (Mutex::new(state), Mutex::new(life));
        Self(Arc::new(Shared { state, life, cut: Notify::new(), look: Notify::new() }))
    }

    /// Talks to a client until it hangs up, or is cut off. `time` tells true time.
    ///
    /// # Errors
    ///
    /// Those of the stream, and bytes that are no command.
    pub async fn serve<S>(&self, mut stream: S, time: impl Fn() -> Duration) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Visit { session, .. } = &mut self.visit();
        let mut cut = std::pin::pin!(self.0.cut.notified());
        cut.as_mut().enable();
        let (mut input, mut output) = (Vec::new(), Vec::new());
        loop {
            let read = tokio::select! {
                biased;
                () = &mut cut => return Ok(()),
                read = stream.read_buf(&mut input) => read?,
            };
            if read == 0 {
                return Ok(());
            }
            self.hang_on(&time).await;
            while let Some(words) = take_command(&mut input)? {
                let answer = match self.execute(session, &words, time()) {
                    Some(answer) => answer,
                    None => {
                        stream.write_all(&output).await?;
                        output.clear();
                        let unblocked = self.unblocked(session, &mut stream, &mut input, &time);
                        tokio::select! {
                            biased;
                            () = &mut cut => return Ok(()),
                            answer = unblocked => match answer? {
                                Some(answer) => answer,
                                None => return Ok(()),
                            },
                        }
                    }
                };
                answer.write(session.protocol, &mut output);
            }
            stream.write_all(&output).await?;
            output.clear();
        }
    }

    /// The answer for a session that is blocked, when there is one. What its client sends meanwhile is kept for later; none if
    /// that hangs up.
    async fn unblocked<S>(
        &self,
        session: &Session,
        stream: &mut S,
        input: &mut Vec<u8>,
        time: &impl Fn() -> Duration,
    ) -> io::Result<Option<Answer>>
    where
        S: AsyncRead + Unpin,
    {
        loop {
            let look = self.0.look.notified();
            self.hang_on(time).await;
            let left = match self.state().look(session, time()) {
                Look::Done(answer) => return Ok(Some(answer)),
                Look::Again(left) => left,
            };
            tokio::select! {
                biased;
                () = look => {}
                () = tokio::time::sleep(left) => {}
                read = stream.read_buf(input) => if read? == 0 {
                    return Ok(None);
                }
            }
        }
    }

    /// Begins a connection.
    fn visit(&self) -> Visit<'_> {
        let mut life = self.life();
        life.sessions += 1;
        Visit { server: self, session: Session { protocol: 2, id: life.sessions } }
    }

    /// Does nothing while the server hangs.
    async fn hang_on(&self, time: &impl Fn() -> Duration) {
        while let Some(left) = self.hangs_for(time()) {
            tokio::time::sleep(left).await;
        }
    }

    fn hangs_for(&self, now: Duration) -> Option<Duration> {
        self.life().hangs_until.checked_sub(now).filter(|left| !left.is_zero())
    }

    fn execute(&self, session: &mut Session, words: &[Vec<u8>], now: Duration) -> Option<Answer> {
        {
            let mut life = self.life();
            let mut hash = |bytes: &[u8]| {
                for byte in bytes {
                    life.digest = (life.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
                }
            };
            hash(&now.as_micros().to_le_bytes());
            words.iter().for_each(|word| hash(word));
        }
        let mut state = self.state();
        let answer = state.execute(session, words, now);
        if state.has_served() {
            self.0.look.notify_waiters();
        }
        answer
    }

    /// The server starts again: under a new run id, knowing no scripts, with what it remembers. Its connections are the
    /// caller's to cut.
    pub fn restart(&self, memory: Memory) {
        let (mut state, mut life) = (self.state(), self.life());
        life.starts += 1;
        life.hangs_until = Duration::ZERO;
        state.run_id = format!("{}-run-{}", life.name, life.starts);
        state.scripts.clear();
        state.blocked.clear();
        match memory {
            Memory::Kept => {}
            Memory::Saved => state.store = life.saved.clone(),
            Memory::Lost => state.store.clear(),
        }
    }

    /// Writes everything to its disk.
    pub fn save(&self) {
        let store = self.state().store.clone();
        self.life().saved = store;
    }

    /// Deletes all keys, as `FLUSHALL` does.
    pub fn flush_all(&self) {
        self.state().store.clear();
    }

    /// Forgets the scripts, as `SCRIPT FLUSH` does.
    pub fn flush_scripts(&self) {
        self.state().scripts.clear();
    }

    /// Does nothing until then, in true time; what comes meanwhile is executed after that.
    pub fn hang(&self, until: Duration) {
        self.life().hangs_until = until;
    }

    /// Cuts all connections.
    pub fn cut_connections(&self) {
        self.0.cut.notify_waiters();
    }

    /// Sets its clock forward or back, by microseconds.
    pub fn jump(&self, micros: i64) {
        self.state().clock.offset += micros;
        self.0.look.notify_waiters();
    }

    /// Whether every write is on its disk before it is answered.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.state().durable
    }

    /// Whether it has a record of this run of its, and is not in quarantine, under a prefix.
    #[must_use]
    pub fn remembers(&self, prefix: &str, now: Duration) -> bool {
        let state = &mut *self.state();
        let now = state.clock.millis(now);
        let meta = format!("{prefix}{{node}}");
        let quarantine = format!("{meta}:quarantine");
        let run_id = state.store.field(meta.as_bytes(), b"run_id", now);
        let known = run_id.is_ok_and(|run_id| run_id == Some(state.run_id.as_bytes()));
        known && !state.store.exists(quarantine.as_bytes(), now)
    }

    /// The locks that are held on it under a prefix.
    #[must_use]
    pub fn locks(&self, prefix: &str, now: Duration) -> Vec<String> {
        let state = self.state();
        let now = state.clock.millis(now);
        let keys = state.store.alive(now).map(|key| String::from_utf8_lossy(key).into_owned());
        keys.filter(|key| key.starts_with(prefix) && !key.contains('{')).collect()
    }

    /// How often it answered each kind of ballot, and how often what came of them.
    #[must_use]
    pub fn done(&self) -> BTreeMap<&'static str, u64> {
        self.state().done.clone()
    }

    /// A hash over all commands that it executed, and when.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.life().digest
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.0.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection. When it ends, it waits for nothing any more.
struct Visit<'a> {
    server: &'a FakeRedis,
    session: Session,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.server.state().blocked.retain(|blocked| blocked.session != self.session.id);
    }
}
