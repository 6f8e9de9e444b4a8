//! Which keys the command of a script declares.
//!
//! Redis and Valkey let a script use keys that its command did not declare, and each key costs time. So a command declares the lock keys and
//! the record, and the scripts find the others: what is beside a lock is rare. Other engines refuse that, because they decide by the declared keys
//! which thread runs the script. An inspection finds out, and from then on every key is declared that a script may touch.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use redis::{Cmd, Pipeline, Value};

use crate::limits::MAX_PERMITS;
use crate::node::{Keyspace, LockKeys};

/// What is beside a lock key, whatever kind of lock it is: the tombstone and the readers, which the ledger reads; and the waiting room.
const BESIDE: [&str; 5] = ["evicted", "readers", "queue", "reserved", "writers"];
/// What all slots of a resource have in common.
const OF_SLOTS: [&str; 2] = ["queue", "waiters"];

/// Whether the server at the other end of a connection insists on the declaration of every key.
pub(super) type DeclaresAll = Arc<AtomicBool>;

/// Asks whether a script may use a key that was not declared: the same harmless question with and without the declaration.
pub(super) fn ask(pipeline: &mut Pipeline, keyspace: &Keyspace) {
    pipeline.cmd("EVAL").arg("return redis.call('PTTL', KEYS[1])").arg(1).arg(keyspace.record());
    pipeline.cmd("EVAL").arg("return redis.call('PTTL', ARGV[1])").arg(0).arg(keyspace.record());
}

/// Whether the server insists, by its answers. One that does not answer the question with the declaration does not say: it may deny
/// scripts, or be busy.
pub(super) fn insists(declared: &Value, undeclared: &Value) -> Option<bool> {
    matches!(declared, Value::Int(_)).then_some(matches!(undeclared, Value::ServerError(_)))
}

/// All keys that a script may touch for these locks, but for their lock keys and the record.
pub(super) fn keys_beside<'a>(locks: impl IntoIterator<Item = &'a LockKeys>) -> Vec<String> {
    let mut keys = Vec::new();
    for lock in locks {
        let beside = |of: &str, what: &str| {
            let name = lock.keyspace().resource_of(of);
            format!("{}{{{name}}}:{what}", &of[..of.len() - name.len()])
        };
        keys.extend(BESIDE.map(|what| beside(lock.lock_key(), what)));
        if lock.slot().is_some() {
            keys.extend(OF_SLOTS.map(|what| beside(lock.queue(), what)));
            keys.extend((0..MAX_PERMITS).map(|slot| lock.with_slot(slot).lock_key().to_owned()));
        }
    }
    keys
}

/// Adds the keys of a command: the lock keys, the record, and in a command that declares all of them those beside.
pub(super) fn add_keys<'a>(
    command: &mut Cmd,
    locks: impl Iterator<Item = &'a LockKeys> + Clone,
    keyspace: &Keyspace,
    declares_all: bool,
) {
    let beside = if declares_all { keys_beside(locks.clone()) } else { Vec::new() };
    command.arg(locks.clone().count() + 1 + beside.len());
    locks.for_each(|lock| _ = command.arg(lock.lock_key()));
    command.arg(keyspace.record());
    beside.iter().for_each(|key| _ = command.arg(key));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::random::{OwnerId, WaiterId};

    #[test]
    fn a_server_that_answers_neither_question_does_not_say() {
        let refused = || redis::parse_redis_value(b"-NOPERM no\r\n").unwrap();
        assert_eq!(insists(&Value::Int(-1), &refused()), Some(true));
        assert_eq!(insists(&Value::Int(-1), &Value::Int(-1)), Some(false));
        assert_eq!(insists(&refused(), &refused()), None);
        assert_eq!(insists(&refused(), &Value::Int(-1)), None);
    }

    #[test]
    fn all_that_is_beside_a_lock_is_declared() {
        let keyspace = Arc::new(Keyspace::new("shop:"));
        let lock = LockKeys::new(&keyspace, "stock:42");
        let keys = keys_beside([&lock]);
        assert_eq!(keys, BESIDE.map(|what| format!("shop:{{stock:42}}:{what}")));
        let slot = keys_beside([&LockKeys::of_slot(&keyspace, "export", 2)]);
        for key in ["shop:{export{2}}:evicted", "shop:{export{}}:queue", "shop:{export{}}:waiters", "shop:export{99}"] {
            assert!(slot.iter().any(|declared| declared == key), "{key}");
        }
    }

    /// All that a shard uses on a master, for a resource of any kind: keys, and channels.
    fn names_of(keyspace: Keyspace, resource: &str) -> BTreeSet<String> {
        let keyspace = Arc::new(keyspace);
        let locks = [
            LockKeys::new(&keyspace, resource),
            LockKeys::of_slot(&keyspace, resource, 0),
            LockKeys::of_slot(&keyspace, resource, MAX_PERMITS - 1),
            keyspace.test_keys(OwnerId::from_bits(1)),
        ];
        let mut names: BTreeSet<String> = keys_beside(&locks).into_iter().collect();
        names.extend(locks.iter().flat_map(|lock| [lock.lock_key(), lock.queue()]).map(str::to_owned));
        names.extend([keyspace.record().to_owned(), keyspace.wakeup_channel(WaiterId::from_bits(1))]);
        names
    }

    proptest::proptest! {
        // promise: exclusion
        #[test]
        fn shards_have_neither_a_key_nor_a_channel_in_common_whatever_the_names_are(
            // Pieces that keys are made of, too.
            prefix in "(lock|shop|:|#|[.]|1|10|ü){0,4}",
            resources in proptest::array::uniform2("(a|:|#|[.]|0|1|10|node|test|queue|readers|wakeups|ü){1,4}"),
            shards in proptest::array::uniform2(0..64_u32),
        ) {
            proptest::prop_assume!(shards[0] != shards[1]);
            let [one, other] = [resources[0].as_str(), resources[1].as_str()];
            for of_shard in [Keyspace::of_shard, Keyspace::in_cluster] {
                let ours = names_of(of_shard(&prefix, shards[0]), one);
                for resource in [one, other] {
                    let theirs = names_of(of_shard(&prefix, shards[1]), resource);
                    let common: Vec<_> = ours.intersection(&theirs).collect();
                    proptest::prop_assert!(common.is_empty(), "{:?}", common);
                }
            }
        }
    }
}
