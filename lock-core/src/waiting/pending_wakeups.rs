use std::collections::BTreeMap;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::handover::HandoverTerms;
use crate::cluster::NodeSet;
use crate::engine::SlotOffers;
use crate::mutex::Mutex;
use crate::node::{RESERVATION_TTL, SlotOffer};

/// What the nodes said of one lock, or of all slots of a resource, since the last attempt began: the newest word of each.
///
/// Wake-ups are kept from the moment a local queue exists, and not only while its first caller sleeps: a node may wake this process while
/// the replies to the attempt that entered its queue are still on their way. That wake-up is the only one, and if it were dropped the
/// caller would sleep until its timer.
#[derive(Default)]
pub(super) struct PendingWakeups {
    words: Mutex<Words>,
    /// Notified when there is another word, and when the caller that sleeps is to look again at what it waits for.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct Words {
    by_node: BTreeMap<usize, Word>,
    /// The nodes that woke this process since the last attempt began.
    called: NodeSet,
}

/// What a node said.
#[derive(Clone, Copy)]
struct Word {
    at: Instant,
    /// How many [`RESERVATION_TTL`]s pass before it is this process's turn.
    before: u32,
    /// The slots that it may take, if the lock has slots.
    offer: Option<SlotOffer>,
}

/// Whether it is this process's turn, by the words of the nodes.
#[derive(Clone, Default)]
pub(super) struct WakeupState {
    /// The nodes that reserve the lock for this process, or let it take a slot; and since when the first of them does.
    pub(super) ready: NodeSet,
    pub(super) ready_at: Option<Instant>,
    /// The slots that they let it take.
    pub(super) offers: SlotOffers,
    /// When they do so if nobody before it takes the lock.
    pub(super) next_at: Option<Instant>,
}

impl PendingWakeups {
    /// Adds the wake-up of a node. `before` is how many reservations come before ours.
    pub(super) fn add(&self, node: usize, before: u32, offer: Option<SlotOffer>) {
        {
            let mut words = self.words.lock();
            words.called.insert(node);
            words.by_node.insert(node, Word { at: Instant::now(), before, offer });
        }
        self.changed.notify_waiters();
    }

    /// Adds what nodes replied to an attempt. A wake-up that arrived since the attempt began may be newer, and stays: if it is not, that
    /// costs an attempt, and to lose it would cost more.
    pub(super) fn add_replies(&self, offers: &SlotOffers) {
        let (mut words, at) = (self.words.lock(), Instant::now());
        for (node, offer) in offers.iter() {
            words.by_node.entry(node).or_insert(Word { at, before: 0, offer: Some(offer) });
        }
    }

    /// Forgets all of them.
    pub(super) fn clear(&self) {
        self.words.lock().by_node.clear();
    }

    /// What they say to a caller that asks for this.
    pub(super) fn state(&self, terms: HandoverTerms) -> WakeupState {
        let mut state = WakeupState::default();
        for (node, word) in &self.words.lock().by_node {
            match word.offer {
                _ if word.before > 0 => {
                    let next_at = word.at + word.before * RESERVATION_TTL;
                    state.next_at = Some(state.next_at.map_or(next_at, |other| other.min(next_at)));
                    continue;
                }
                Some(offer) => match terms.limit(offer) {
                    Some(offer) => state.offers.add(*node, offer),
                    None => continue,
                },
                None => {}
            }
            state.ready.insert(*node);
            state.ready_at = Some(state.ready_at.map_or(word.at, |other| other.min(word.at)));
        }
        state
    }

    /// The nodes from which a wake-up arrived since the last attempt began.
    pub(super) fn called(&self) -> NodeSet {
        self.words.lock().called
    }

    /// The same, as an attempt begins.
    pub(super) fn take_called(&self) -> NodeSet {
        std::mem::take(&mut self.words.lock().called)
    }
}
