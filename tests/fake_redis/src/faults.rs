use std::time::Duration;

use super::server::FakeRedis;

/// What a server remembers when it restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Everything.
    Kept,
    /// What was last [saved](FakeRedis::save).
    Saved,
    /// Nothing.
    Lost,
}

/// What a test can do to a server.
impl FakeRedis {
    /// Restarts the server: with a new run id, without scripts, and with the keys that it remembers. The caller cuts the
    /// connections.
    pub fn restart(&self, memory: Memory) {
        let (mut state, mut life) = (self.state(), self.life());
        life.starts += 1;
        life.hangs_until = Duration::ZERO;
        life.histories += 1;
        state.run_id = format!("{}-run-{}", life.name, life.starts);
        state.replid = format!("{}-data-{}", life.name, life.histories);
        state.scripts.clear();
        state.database.channels.clear();
        match memory {
            Memory::Kept => {}
            Memory::Saved => state.database.store = life.saved.clone(),
            Memory::Lost => state.database.store.clear(),
        }
    }

    /// Changes what it says about its disk: whether every write is on it before it is acknowledged.
    pub fn set_durable(&self, durable: bool) {
        self.state().durable = durable;
    }

    /// Writes all keys to the disk.
    pub fn save(&self) {
        let store = self.state().database.store.clone();
        self.life().saved = store;
    }

    /// Deletes all keys, as `FLUSHALL` does.
    pub fn flush_all(&self) {
        let state = &mut *self.state();
        state.database.store.clear();
        state.tell_loss(None);
    }

    /// Becomes a replica of a server with what was last [saved](Self::save), and a master again, in the same process.
    pub fn flip(&self) {
        let (mut state, mut life) = (self.state(), self.life());
        life.histories += 1;
        state.replid = format!("{}-data-{}", life.name, life.histories);
        state.database.store = life.saved.clone();
        state.tell_loss(None);
    }

    /// Takes the right to `PUBLISH` from all users, or gives it back.
    pub fn set_mute(&self, mute: bool) {
        self.state().database.mute = mute;
    }

    /// Forgets the scripts, as `SCRIPT FLUSH` does.
    pub fn flush_scripts(&self) {
        self.state().scripts.clear();
    }

    /// Hangs until then, in true time; the commands that arrive meanwhile are executed afterwards.
    pub fn hang(&self, until: Duration) {
        self.life().hangs_until = until;
    }

    /// Sets the clock forward or back, by microseconds.
    pub fn jump(&self, micros: i64) {
        self.state().clock.offset += micros;
    }
}
