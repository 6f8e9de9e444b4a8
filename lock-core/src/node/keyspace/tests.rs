use std::collections::HashSet;

use super::*;

#[test]
fn no_resource_can_be_a_record_of_the_node() {
    let keyspace = Arc::new(Keyspace::new("shop:"));
    assert_eq!(keyspace.record(), "shop:{node}");
    let keys = LockKeys::new(&keyspace, "stock:42");
    assert_eq!(keys.lock_key(), "shop:stock:42");
}

#[test]
fn shards_have_no_key_in_common_and_the_first_has_those_without_shards() {
    assert_eq!(Keyspace::of_shard("shop:", 0), Keyspace::new("shop:"));
    for prefix in ["", "shop:"] {
        let mut seen = HashSet::new();
        for shard in [0, 1, 10, 11, 63] {
            let keyspace = Arc::new(Keyspace::of_shard(prefix, shard));
            // Names that look like parts of keys, and what scripts keep beside a lock.
            for resource in [":a", "1:a", "10:", "queue", ":queue", "test", ":test:"] {
                let keys = keyspace.keys_of(resource);
                assert!(seen.insert(keys.lock_key().to_owned()), "{}", keys.lock_key());
                assert!(seen.insert(LockKeys::of_slot(&keyspace, resource, 1).lock_key().to_owned()));
                assert!(seen.insert(format!("{}{{{resource}}}:queue", keyspace.prefix)));
            }
            assert!(seen.insert(keyspace.record().to_owned()));
            assert!(seen.insert(keyspace.test_keys(OwnerId::from_bits(1)).lock_key().to_owned()));
        }
    }
}

#[test]
fn each_slot_has_a_key_and_a_fence_of_its_own_and_all_have_one_queue() {
    let keyspace = Arc::new(Keyspace::new("shop:"));
    let slots: Vec<_> = (0..100).map(|slot| LockKeys::of_slot(&keyspace, "export", slot)).collect();
    let distinct = |of: fn(&LockKeys) -> String| slots.iter().map(of).collect::<HashSet<_>>().len();
    assert_eq!(distinct(|keys| keys.lock_key().to_owned()), 100);
    assert!(distinct(|keys| keys.fence().to_string()) > 95, "up to chance");
    assert_eq!(distinct(|keys| format!("{} {}", keys.queue(), keys.queue_field())), 1);
    let lock = LockKeys::new(&keyspace, "export");
    assert_ne!(lock.queue(), slots[0].queue(), "the lock on the resource is another one");
    assert_eq!((lock.queue(), lock.queue_fence()), (lock.lock_key(), lock.fence()));
}

#[test]
fn the_keys_of_a_slot_are_found_by_its_lock_key() {
    for prefix in ["", "shop:"] {
        let keyspace = Arc::new(Keyspace::new(prefix));
        let slot = LockKeys::of_slot(&keyspace, "export", 42);
        assert_eq!(keyspace.keys_of(slot.lock_key()), slot);
        assert_eq!(slot.with_slot(7), LockKeys::of_slot(&keyspace, "export", 7));
        let lock = LockKeys::new(&keyspace, "stock:42");
        assert_eq!(keyspace.keys_of(lock.lock_key()), lock);
        assert_eq!(lock.with_slot(7), lock);
    }
}

#[test]
fn a_test_vote_shares_neither_key_nor_fence_with_a_lock() {
    let keyspace = Arc::new(Keyspace::new("shop:"));
    let [one, other] = [1, 2].map(|owner| keyspace.test_keys(OwnerId::from_bits(owner)));
    assert_eq!(one.fence(), Keyspace::TEST_FENCE);
    assert_ne!(one.lock_key(), other.lock_key());
    let resource = one.lock_key().strip_prefix("shop:").unwrap();
    assert!(Resource::parse(resource).is_err(), "{resource}");
}

#[test]
fn a_lock_has_the_same_fence_in_every_version() {
    let fence = |resource| LockKeys::new(&Arc::new(Keyspace::new("lock:")), resource).fence();
    assert_eq!([fence(""), fence("a"), fence("stock:42")], [13064, 7019, 10918]);
}

#[test]
fn locks_are_spread_over_the_fences() {
    let mut counts = vec![0; usize::from(Keyspace::FENCES)];
    for stock in 0..10 * u32::from(Keyspace::FENCES) {
        counts[usize::from(fence_of(&format!("lock:stock:{stock}")))] += 1;
    }
    let (most, none) = (counts.iter().max().unwrap(), counts.iter().filter(|count| **count == 0).count());
    assert!(*most < 40 && none < 20, "{most} locks have one fence, {none} fences have no lock");
}
