use std::sync::{Mutex, PoisonError};

use lock_core::Lease;

use crate::check::{self, Violation};
use crate::{Grant, Moment};

/// Records who is inside, for holders in one process. Everybody who holds the lock enters, all under one mutex: what is recorded
/// is the truth. One referee is for one resource.
#[derive(Default)]
pub struct Referee {
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    /// The clock of the record: it ticks when somebody enters or leaves.
    now: u64,
    grants: Vec<Grant<&'static str>>,
    /// Who is inside: its lease, and its place in `grants`.
    inside: Vec<(Lease, usize)>,
}

impl Record {
    fn tick(&mut self) -> Moment {
        self.now += 1;
        Moment(self.now)
    }

    /// Looks whose validity is over. One whose lease is valid again held the lock all the time.
    fn inspect(&mut self, now: Moment) {
        for (lease, place) in &self.inside {
            let ended = &mut self.grants[*place].ended;
            *ended = if lease.is_valid() { None } else { ended.or(Some(now)) };
        }
    }
}

impl Referee {
    /// Enters with a lease. False if it is not valid any more, in which case nobody entered.
    pub fn enter(&self, lease: &Lease) -> bool {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if !lease.is_valid() {
            return false;
        }
        let now = record.tick();
        record.inspect(now);
        let grant = Grant::new(("the resource", lease.token().get()), "a task", [now, now, Moment::MAX]);
        record.grants.push(grant);
        let place = record.grants.len() - 1;
        record.inside.push((lease.clone(), place));
        true
    }

    /// Leaves, before the lock is released.
    pub fn leave(&self, lease: &Lease) {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let now = record.tick();
        let Record { grants, inside, .. } = &mut *record;
        for (_, place) in inside.extract_if(.., |(other, _)| other.token() == lease.token()) {
            grants[place].ended.get_or_insert(now);
        }
    }

    /// How many entered.
    #[must_use]
    pub fn entered(&self) -> usize {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).grants.len()
    }

    /// What was recorded against the promises: a holder that entered while another one was valid, or whose token is not larger
    /// than those of all that entered before.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let overlaps = check::validity_does_not_overlap(&record.grants);
        let unordered = check::tokens_grow_from_holder_to_holder(&record.grants);
        overlaps.iter().chain(&unordered).map(Violation::to_string).collect()
    }

    /// Fails the test if anything was recorded against the promises.
    pub fn assert_fair(&self) {
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
