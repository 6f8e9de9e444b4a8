//! The rules of the halves, and what ties them.

mod ledger;
mod slots;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use super::store::Store;
use crate::node::{
    Evict, Eviction, Holder, Keyspace, Kind, LockKeys, LockState, Look, MemberId, NodeError, NodeRecord, Operation,
    RecordWrite, Reply, Request,
};
use crate::random::{Epoch, OwnerId, WaiterId};

const TTL: Duration = Duration::from_secs(1);
const A: OwnerId = OwnerId::from_bits(1);
const B: OwnerId = OwnerId::from_bits(2);

struct Fixture {
    store: Store,
    keys: LockKeys,
    now: Duration,
}

/// The write of a record of the first member there was.
fn write_of(expected: Option<(MemberId, u64)>, epoch: Option<Epoch>) -> RecordWrite {
    let member = MemberId { random: 1, micros: 1 };
    let record = NodeRecord {
        run_id: "run".into(),
        member,
        version: 0,
        was: None,
        epoch,
        roster: None,
        previous: Vec::new(),
        promised: None,
        accepted: None,
        quarantines: Vec::new(),
    };
    RecordWrite { expected, record, new_member: expected.is_none(), begin: vec![(member, TTL)], floor: None }
}

impl Fixture {
    fn new() -> Self {
        let keyspace = Arc::new(Keyspace::new("lock:"));
        let mut store = Store::new("run".into());
        let write = write_of(None, Some(Epoch::from_bits(7)));
        assert!(store.write_record(&keyspace, &write, 1).is_some());
        assert!(
            store.write_record(&keyspace, &write, 1).is_none(),
            "there is a record, and it is not the expected one"
        );
        Self { store, keys: LockKeys::new(&keyspace, "r"), now: Duration::ZERO }
    }

    fn request(&self, operation: Operation) -> Request {
        let (epoch, waiter) = (Epoch::from_bits(7), WaiterId::from_bits(1));
        Request { keys: self.keys.clone(), epoch, waiter, polls: false, operation }
    }

    fn execute(&mut self, operation: Operation) -> Result<Reply, NodeError> {
        let request = self.request(operation);
        self.store.execute(&request, self.now)
    }
}

const BARRED: Duration = Duration::from_secs(5);

impl Fixture {
    fn acquire(&mut self, owner: OwnerId) -> Reply {
        self.execute(Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since: None, kind: Kind::Write })
            .unwrap()
    }

    fn evict(&mut self, owners: &[OwnerId], token: u64) -> Eviction {
        let (keys, epoch) = (self.keys.clone(), Epoch::from_bits(7));
        let holders = owners.iter().copied().map(Holder::Owner).collect();
        self.store.evict(&Evict { keys, epoch, holders, token, barred_for: BARRED }, self.now).unwrap()
    }

    fn look(&self) -> LockState {
        let look = Look { keys: vec![self.keys.clone()], epoch: None };
        self.store.look(&look, self.now).unwrap().remove(0)
    }
}
