//! The engine on real `redis-server` processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod authority;
mod cancel_safety;
mod cluster;
mod cluster_access;
mod cluster_faults;
mod cluster_operators;
mod cluster_partition;
mod connecting;
mod credentials;
mod data_loss;
mod dead_waiters;
mod denied_commands;
mod every_kind;
mod eviction;
mod fence;
mod force_release;
mod membership;
mod mixed_fleets;
mod moved_from_rslock;
mod moving_runtimes;
mod nothing_left;
mod permissions;
mod permits;
mod portions;
mod queued_locks;
mod redis_6;
mod regressions;
mod replica_flips;
mod replicated;
mod runtimes;
mod script_equivalence;
mod sentinel;
mod server_errors;
mod sets;
mod shards_apart;
mod shards_of_servers;
mod test_votes;
mod tls;
mod two_addresses;
mod uncallable_processes;
mod valkey;
mod waiter;
