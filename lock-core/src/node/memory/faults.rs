use std::time::Duration;

use tokio::time::Instant;

use super::node::{MemoryNode, fresh_run_id};
use super::store::Store;

/// Longer than any wait, and short enough to be added to any time.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A copy of all that a node had at a time: see [`MemoryNode::backup`].
#[derive(Clone)]
pub struct MemoryBackup(Store);

/// Switches for faults. They act on all clones of the node.
impl MemoryNode {
    /// Takes the node down, or brings it up again. Defaults to up.
    ///
    /// While it is down, the node is unreachable, and requests under way are lost. It keeps its data, and its clock goes on.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_core::{LockManager, MemoryNode};
    ///
    /// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// let locks = LockManager::builder().nodes(nodes.clone()).connect().await?;
    /// nodes[0].set_down(true);
    /// let guard = locks.lock("stock:42").acquire().await?; // two of three are a majority
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_down(&self, down: bool) {
        let mut state = self.shared.lock();
        state.down = down;
        if down {
            state.cut();
        }
    }

    /// Sets the time from when a request is submitted until it is executed and answered. Defaults to zero.
    ///
    /// With a delay beyond all timeouts, the node hangs. A shorter delay also applies to requests that are under way: set to zero,
    /// they are executed at once, in order.
    pub fn set_delay(&self, delay: Duration) {
        let mut state = self.shared.lock();
        state.delay = delay.min(FAR);
        let latest = Instant::now() + state.delay;
        for (due, _) in &mut state.delayed {
            *due = latest.min(*due);
        }
        drop(state);
        self.shared.delay_changed.notify_waiters();
    }

    /// Sets whether replies are lost, although requests are executed. Defaults to `false`.
    pub fn drop_replies(&self, drop: bool) {
        self.shared.lock().drop_replies = drop;
    }

    /// Restarts the node without its data: all keys and the node's own record are gone.
    pub fn forget(&self) {
        let mut state = self.shared.lock();
        state.cut();
        state.store = Store::new(fresh_run_id());
    }

    /// Restarts the node with its data. It cannot know whether they are all there.
    pub fn restart(&self) {
        let mut state = self.shared.lock();
        state.cut();
        state.store.run_id = fresh_run_id();
    }

    /// Copies all that the node has, for [`restore`](Self::restore).
    #[must_use]
    pub fn backup(&self) -> MemoryBackup {
        let mut store = self.shared.lock().store.clone();
        store.waiting.end_connections();
        MemoryBackup(store)
    }

    /// Restarts the node with the data of a backup, as a database server whose files are exchanged for a copy of earlier ones. It does not
    /// know that it forgot anything: its run id is the one of then. Those who have seen more of its log know.
    pub fn restore(&self, backup: &MemoryBackup) {
        let mut state = self.shared.lock();
        state.cut();
        state.store = backup.0.clone();
    }

    /// Sets the node's clock forward by this much. Its keys expire that much earlier.
    pub fn advance_clock(&self, by: Duration) {
        let mut state = self.shared.lock();
        state.clock_offset = state.clock_offset.saturating_add(by).min(FAR);
    }
}

opaque_debug!(MemoryBackup);
