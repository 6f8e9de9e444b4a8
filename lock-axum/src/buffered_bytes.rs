//! What the bodies of requests that wait for the locks of a manager take up in memory, and which of them is given up for others.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lock_core::{LockManager, Mutex};
use tokio::time::Instant;

/// What an upload has sent in the last one to two of these is its pace. One that began later is not given up.
const WINDOW: Duration = Duration::from_secs(1);

/// What the bodies of waiting requests may take up in memory: one for each manager, whatever route they are sent to.
struct BufferBudget {
    /// The limit for all of them, `max_buffered_bytes`.
    most: usize,
    bodies: Mutex<Bodies>,
}

struct Bodies {
    /// The limit, less what the bodies take up.
    left: usize,
    next_id: u64,
    /// The bodies that are still arriving, by when they began.
    arriving: BTreeMap<u64, Upload>,
}

struct Upload {
    taken: usize,
    began: Instant,
    pace: Pace,
    given_up: bool,
    waker: Option<Waker>,
}

impl BufferBudget {
    fn new(max_buffered_bytes: usize) -> Arc<Self> {
        let bodies = Bodies { left: max_buffered_bytes, next_id: 0, arriving: BTreeMap::new() };
        Arc::new(Self { most: max_buffered_bytes, bodies: Mutex::new(bodies) })
    }

    fn account(self: &Arc<Self>) -> BufferedBytes {
        BufferedBytes { budget: Arc::clone(self), arriving: None, taken: 0 }
    }
}

/// The bytes of one request body that count against `max_buffered_bytes`. Dropping it gives them back.
pub struct BufferedBytes {
    budget: Arc<BufferBudget>,
    /// While the body is arriving.
    arriving: Option<u64>,
    /// What it took, once it has arrived.
    taken: usize,
}

impl BufferedBytes {
    /// An account for one body.
    pub fn of(locks: &LockManager) -> Self {
        locks.companion(|| BufferBudget::new(locks.max_buffered_bytes())).account()
    }

    /// Takes more bytes, which have arrived. Uploads that are slower than this one are given up for them, the slowest first. Returns
    /// false, and takes none, if there is no room all the same, or if this one was given up.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> bool {
        let now = Instant::now();
        let mut bodies = self.budget.bodies.lock();
        let id = *self.arriving.get_or_insert_with(|| bodies.begin(now));
        let Some(upload) = bodies.arriving.get_mut(&id).filter(|upload| !upload.given_up) else { return false };
        upload.pace.add(now, bytes);
        if !bodies.make_room(id, bytes, now) {
            return false;
        }
        bodies.left -= bytes;
        if let Some(upload) = bodies.arriving.get_mut(&id) {
            upload.taken += bytes;
        }
        true
    }

    /// Resolves when this upload is given up for a faster one. Its bytes count no more then, so that the body is to be dropped.
    pub fn poll_given_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut bodies = self.budget.bodies.lock();
        let Some(upload) = self.arriving.and_then(|id| bodies.arriving.get_mut(&id)) else { return Poll::Pending };
        if upload.given_up {
            return Poll::Ready(());
        }
        upload.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The limit for all, if the body alone exceeds it with this many bytes more. To be asked once it is [complete](Self::complete).
    pub fn exceeds_all(&self, more: usize) -> Option<usize> {
        (self.taken.saturating_add(more) > self.budget.most).then_some(self.budget.most)
    }

    /// The body has arrived: it is not given up any more. Returns false if it was.
    #[must_use]
    pub fn complete(&mut self) -> bool {
        let Some(id) = self.arriving.take() else { return true };
        let Some(upload) = self.budget.bodies.lock().arriving.remove(&id) else { return true };
        self.taken += upload.taken;
        !upload.given_up
    }
}

impl Drop for BufferedBytes {
    fn drop(&mut self) {
        _ = self.complete();
        self.budget.bodies.lock().left += mem::take(&mut self.taken);
    }
}

impl Bodies {
    fn begin(&mut self, now: Instant) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let upload = Upload { taken: 0, began: now, pace: Pace::new(now), given_up: false, waker: None };
        self.arriving.insert(id, upload);
        id
    }

    /// Whether there is room for more bytes of an upload, perhaps because slower ones are given up for it. None is given up in vain.
    fn make_room(&mut self, id: u64, bytes: usize, now: Instant) -> bool {
        if self.left >= bytes {
            return true;
        }
        let pace = self.arriving.get(&id).map_or(0, |upload| upload.pace.at(now));
        let slower = |upload: &Upload| {
            upload.taken > 0 && now.saturating_duration_since(upload.began) >= WINDOW && upload.pace.at(now) < pace
        };
        let mut slower: Vec<_> = self.arriving.iter_mut().filter(|(_, upload)| slower(upload)).collect();
        if slower.iter().map(|(_, upload)| upload.taken).sum::<usize>() < bytes - self.left {
            return false;
        }
        // Of two that are equally slow, the one that began first.
        slower.sort_by_key(|(id, upload)| (upload.pace.at(now), **id));
        for (_, upload) in slower {
            if self.left >= bytes {
                break;
            }
            self.left += mem::take(&mut upload.taken);
            upload.given_up = true;
            if let Some(waker) = upload.waker.take() {
                waker.wake();
            }
        }
        true
    }
}

/// How much an upload has sent lately, in two windows: the present one, and the one before.
struct Pace {
    window: Instant,
    present: usize,
    before: usize,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { window: now, present: 0, before: 0 }
    }

    fn add(&mut self, now: Instant, bytes: usize) {
        let age = now.saturating_duration_since(self.window);
        if age >= WINDOW {
            self.before = if age < 2 * WINDOW { self.present } else { 0 };
            self.present = 0;
            self.window = if age < 2 * WINDOW { self.window + WINDOW } else { now };
        }
        self.present = self.present.saturating_add(bytes);
    }

    fn at(&self, now: Instant) -> usize {
        match now.saturating_duration_since(self.window) {
            age if age < WINDOW => self.present.saturating_add(self.before),
            age if age < 2 * WINDOW => self.present,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::{advance, timeout};

    use super::*;

    #[test]
    fn all_bodies_share_the_limit_and_give_back_what_they_took() {
        let budget = BufferBudget::new(10);
        let (mut one, mut other) = (budget.account(), budget.account());
        assert!(one.take(4) && one.take(2) && other.take(3));
        assert!(!one.take(2) && !other.take(usize::MAX), "one byte is left");
        assert!(other.take(1) && !other.take(1) && one.take(0));
        assert!(one.complete());
        drop(one);
        assert!(!other.take(7) && other.take(6));
        drop(other);
        assert!(budget.account().take(10));
    }

    /// Resolves if it was given up already.
    async fn is_given_up(account: &mut BufferedBytes) -> bool {
        timeout(Duration::ZERO, poll_fn(|cx| account.poll_given_up(cx))).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_slowest_upload_is_given_up_first_and_no_more_than_are_in_the_way() {
        let budget = BufferBudget::new(100);
        let [mut stalled, mut slow, mut quick] = [(); 3].map(|()| budget.account());
        assert!(stalled.take(40) && slow.take(20) && quick.take(20));
        for _ in 0..5 {
            advance(WINDOW / 2).await;
            assert!(slow.take(1) && quick.take(2));
        }
        let mut new = budget.account();
        assert!(new.take(10), "5 were left, and the stalled one had 40");
        assert!(is_given_up(&mut stalled).await && !is_given_up(&mut slow).await && !is_given_up(&mut quick).await);
        assert!(!stalled.take(1) && !stalled.complete(), "it stays given up");
        assert!(new.take(35), "its bytes are free, and given back once");
        assert!(new.take(1), "the next one is the slow one");
        assert!(is_given_up(&mut slow).await && !is_given_up(&mut quick).await);
        drop((stalled, slow, quick, new));
        assert!(budget.account().take(100) && !budget.account().take(101));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_given_up_for_a_slower_one_nor_in_vain_nor_when_it_has_arrived() {
        let budget = BufferBudget::new(100);
        let [mut arrived, mut slow] = [(); 2].map(|()| budget.account());
        assert!(arrived.take(50) && arrived.complete());
        assert!(slow.take(50));
        let mut new = budget.account();
        assert!(!new.take(40), "it has only begun");
        advance(WINDOW).await;
        assert!(!new.take(10), "both were as fast");
        advance(WINDOW).await;
        assert!(!new.take(51), "that would not be enough");
        assert!(!is_given_up(&mut slow).await);
        assert!(new.take(50) && is_given_up(&mut slow).await);
        advance(3 * WINDOW).await;
        assert!(!is_given_up(&mut arrived).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pace_is_that_of_the_last_seconds() {
        let mut pace = Pace::new(Instant::now());
        pace.add(Instant::now(), 1000);
        assert_eq!(pace.at(Instant::now()), 1000);
        advance(WINDOW).await;
        pace.add(Instant::now(), 1);
        assert_eq!(pace.at(Instant::now()), 1001);
        advance(WINDOW).await;
        assert_eq!(pace.at(Instant::now()), 1);
        advance(WINDOW).await;
        assert_eq!(pace.at(Instant::now()), 0);
        pace.add(Instant::now(), 2);
        assert_eq!(pace.at(Instant::now()), 2);
    }
}
