use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::mutex::Mutex;
use crate::node::limits::QUEUE_TTL;

/// For how long it is known that a key was seen free.
const SEEN_FREE: Duration = Duration::from_secs(10);

/// The places of this session in queues, and since when it sees locks free that others wait for: a part of the waiting room.
#[derive(Default)]
pub(super) struct Places {
    /// By queue. At most one for each that callers wait in.
    waiting: HashMap<String, Waiting>,
    /// The places that were left, by their znode, and whether a request to delete it is under way. Each was taken by this session,
    /// and is here until it is known to be gone.
    left: HashMap<String, bool>,
    /// By lock key. Those that were seen long ago are dropped.
    free: HashMap<String, SeenFree>,
    /// The queues whose watch has to begin.
    unwatched: Vec<Arc<Watched>>,
}

struct Waiting {
    own: String,
    /// When a caller last said that it places.
    entered: Instant,
    watched: Arc<Watched>,
}

/// A key that is free.
struct SeenFree {
    since: Instant,
    /// The version of the fence then. The next owner raises it.
    fence: Option<i32>,
}

/// What is watched for a queue.
pub(super) struct Watched {
    /// The znode of the queue.
    pub(super) queue: String,
    /// The name of the own znode in it.
    pub(super) name: String,
    /// The znodes of the locks that are waited for, by lock key: several if they are slots.
    pub(super) locks: Mutex<BTreeMap<String, String>>,
    /// Another lock is waited for.
    pub(super) changed: Notify,
    /// Cancelled when nothing is waited for any more.
    pub(super) left: CancellationToken,
}

impl Places {
    pub(super) fn has(&self, queue: &str) -> bool {
        self.waiting.contains_key(queue)
    }

    /// A caller waits in a queue. Returns what is watched, if this is the place that the manager has there.
    pub(super) fn waits_on(&mut self, queue: &str, own: &str) -> Option<&Watched> {
        let waiting = self.waiting.get_mut(queue).filter(|waiting| waiting.own == own)?;
        waiting.entered = Instant::now();
        Some(&waiting.watched)
    }

    /// A place was taken, and has to be watched.
    pub(super) fn entered(&mut self, queue: &str, own: String, watched: Watched) {
        let watched = Arc::new(watched);
        self.unwatched.push(Arc::clone(&watched));
        self.waiting.insert(queue.to_owned(), Waiting { own, entered: Instant::now(), watched });
    }

    /// The watches that have to begin.
    pub(super) fn take_unwatched(&mut self) -> Vec<Arc<Watched>> {
        std::mem::take(&mut self.unwatched)
    }

    /// The own znode is not there any more.
    pub(super) fn forget(&mut self, queue: &str) -> Option<String> {
        let waiting = self.waiting.remove(queue)?;
        waiting.watched.left.cancel();
        Some(waiting.own)
    }

    /// The manager gives its place up.
    pub(super) fn leave(&mut self, queue: &str) {
        if let Some(own) = self.forget(queue) {
            self.left.entry(own).or_insert(false);
        }
    }

    /// Gives up the places that no caller has come for in a long time: their leaving was lost.
    pub(super) fn leave_stale(&mut self) {
        let stale = self.waiting.iter().filter(|(_, waiting)| waiting.entered.elapsed() > QUEUE_TTL);
        let stale: Vec<String> = stale.map(|(queue, _)| queue.clone()).collect();
        stale.iter().for_each(|queue| self.leave(queue));
    }

    /// The places that have to be deleted, but for those for which that is under way.
    pub(super) fn take_left(&mut self) -> Vec<String> {
        let left = self.left.iter_mut().filter(|(_, under_way)| !**under_way);
        left.map(|(own, under_way)| {
            *under_way = true;
            own.clone()
        })
        .collect()
    }

    /// The place is gone, or is taken again.
    pub(super) fn not_left(&mut self, own: &str) {
        self.left.remove(own);
    }

    /// The request to delete the place was lost.
    pub(super) fn still_there(&mut self, own: &str) {
        if let Some(under_way) = self.left.get_mut(own) {
            *under_way = false;
        }
    }

    pub(super) fn seen_held(&mut self, lock_key: &str) {
        self.free.remove(lock_key);
    }

    /// For how long the key has been seen free: from the first look on since which nobody raised the fence. Locks that share a fence
    /// may so be seen free for less.
    pub(super) fn seen_free(&mut self, lock_key: &str, fence: Option<i32>) -> Duration {
        let now = Instant::now();
        // Where the fence is another one, somebody had it meanwhile.
        self.free.retain(|key, seen| seen.since + SEEN_FREE > now && (key != lock_key || seen.fence == fence));
        now - self.free.entry(lock_key.to_owned()).or_insert(SeenFree { since: now, fence }).since
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn watched() -> Watched {
        let (queue, name) = ("/queues/r".to_owned(), "1-1".to_owned());
        Watched { queue, name, locks: Mutex::default(), changed: Notify::new(), left: CancellationToken::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_seen_free_anew_when_somebody_had_it_meanwhile() {
        let (mut places, moment) = (Places::default(), Duration::from_millis(100));
        assert_eq!(places.seen_free("r", None), Duration::ZERO);
        advance(moment).await;
        assert_eq!(places.seen_free("r", None), moment);
        // Taken and released, while this session did not look.
        assert_eq!(places.seen_free("r", Some(0)), Duration::ZERO);
        advance(moment).await;
        assert_eq!(places.seen_free("r", Some(0)), moment);
        places.seen_held("r");
        assert_eq!(places.seen_free("r", Some(0)), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_no_caller_comes_for_is_left() {
        let mut places = Places::default();
        places.entered("q", "/queues/r/1-1".into(), watched());
        for _ in 0..3 {
            advance(QUEUE_TTL).await;
            places.leave_stale();
            assert!(places.waits_on("q", "/queues/r/1-1").is_some());
        }
        advance(QUEUE_TTL + Duration::from_millis(1)).await;
        places.leave_stale();
        assert!(!places.has("q"));
        assert_eq!(places.take_left(), ["/queues/r/1-1"]);
    }

    #[tokio::test]
    async fn a_place_that_was_left_is_deleted_until_that_is_acknowledged() {
        let mut places = Places::default();
        places.entered("q", "/queues/r/1-1".into(), watched());
        places.leave("q");
        assert_eq!(places.take_left(), ["/queues/r/1-1"]);
        assert!(places.take_left().is_empty(), "it is under way");
        places.still_there("/queues/r/1-1");
        assert_eq!(places.take_left(), ["/queues/r/1-1"]);
        places.not_left("/queues/r/1-1");
        places.still_there("/queues/r/1-1");
        assert!(places.take_left().is_empty());
    }
}
