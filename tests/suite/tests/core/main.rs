//! The engine on in-memory nodes, nearly always in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod broken_acquisitions;
mod broken_nodes;
mod bursts;
mod conformance;
mod delegation;
mod documentation;
mod every_kind;
mod evicted_grants;
mod exclusion_and_fencing;
mod extreme_numbers;
mod failing_test_votes;
mod force_release;
mod inspections;
mod lease_lifecycle;
mod local_queue;
mod logs;
mod metrics;
mod minority_faults;
mod node_queues;
mod node_timeouts;
mod observers;
mod other_runtimes;
mod outages;
mod permits;
mod permits_pace;
mod polling;
mod readers;
mod roster_changes;
mod scopes;
mod seams_delegation;
mod seams_eviction;
mod seams_handover;
mod seams_members;
mod seams_readers;
mod seams_sets;
mod sets;
mod settings;
mod shards;
mod shutdown;
mod slow_nodes;
mod test_votes;
mod traces;
mod two_addresses;
mod waiting;
