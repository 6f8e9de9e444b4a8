use std::sync::{Mutex, PoisonError};

use lock_core::{Kind, Lease};

use crate::check::{self, Violation};
use crate::{Grant, Moment};

/// Records the holders of one resource, for tests that run in one process. Every holder enters and leaves under one mutex, so
/// the order of the record is the order of events.
#[derive(Default)]
pub struct Referee {
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    /// The clock of the record: it ticks when somebody enters or leaves.
    now: u64,
    grants: Vec<Grant<&'static str>>,
    /// The holders that are inside: the lease of each, and its index in `grants`.
    inside: Vec<(Lease, usize)>,
}

impl Record {
    fn tick(&mut self) -> Moment {
        self.now += 1;
        Moment(self.now)
    }

    /// Records which leases have ended. A lease that is valid again was held all the time.
    fn inspect(&mut self, now: Moment) {
        for (lease, index) in &self.inside {
            let ended = &mut self.grants[*index].ended;
            *ended = if lease.is_valid() { None } else { ended.or(Some(now)) };
        }
    }
}

impl Referee {
    /// Enters with a lease. False if the lease is no longer valid; then nothing is recorded.
    pub fn enter(&self, lease: &Lease) -> bool {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if !lease.is_valid() {
            return false;
        }
        let now = record.tick();
        record.inspect(now);
        let reads = lease.kind() == Kind::Read;
        let grant = Grant::new(("the resource", lease.token().get()), "a task", [now, now, Moment::MAX]);
        record.grants.push(Grant { reads, ..grant });
        let index = record.grants.len() - 1;
        record.inside.push((lease.clone(), index));
        true
    }

    /// Leaves, before the lock is released.
    pub fn leave(&self, lease: &Lease) {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let now = record.tick();
        let Record { grants, inside, .. } = &mut *record;
        // One: readers may share a token.
        if let Some(place) = inside.iter().position(|(other, _)| other.token() == lease.token()) {
            let (_, index) = inside.swap_remove(place);
            grants[index].ended.get_or_insert(now);
        }
    }

    /// How many entered.
    #[must_use]
    pub fn entered(&self) -> usize {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).grants.len()
    }

    /// The broken promises: holders that entered while another one was valid, and holders whose token is not larger than those
    /// of all holders before. Readers are valid together, and only a writer's token has to be larger than theirs.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let overlaps = check::validity_does_not_overlap(&record.grants);
        let unordered = check::tokens_grow_from_holder_to_holder(&record.grants);
        overlaps.iter().chain(&unordered).map(Violation::to_string).collect()
    }

    /// Panics if a promise was broken.
    pub fn assert_no_violations(&self) {
        let violations = self.violations();
        assert!(
            violations.is_empty(),
            "{} violations in {} entries: {:?}",
            violations.len(),
            self.entered(),
            &violations[..violations.len().min(5)]
        );
    }
}
