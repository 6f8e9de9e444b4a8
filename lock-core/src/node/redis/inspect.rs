//! Inspects a server.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use redis::{Pipeline, Value};

use super::declared;
use super::query::{query, read};
use super::session::Session;
use crate::node::record_fields::{FIELDS, decode_record};
use crate::node::{Inspection, Keyspace, MAX_TOKEN, NodeError, Refusal};
use crate::random::WaiterId;

/// The oldest version of Redis that has every command and option that the scripts use.
const MIN_VERSION: (u32, u32) = (6, 2);

/// The `maxmemory-policy` that deletes nothing.
const NO_EVICTION: &str = "noeviction";
/// How those begin that delete only keys which expire: locks, but never the record of the node.
const OF_KEYS_THAT_EXPIRE: &str = "volatile-";

impl Session {
    /// Reads everything that decides whether the node is admitted, in one round trip, and warns of what is the matter. Returns also whether
    /// all data that the server has under its present id is its own, as far as it remembers: that none came from another master.
    pub(super) async fn see(&self, keyspace: &Keyspace) -> Result<(Inspection, bool), NodeError> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("INFO").cmd("TIME").cmd("HMGET").arg(keyspace.record()).arg(&FIELDS);
        pipeline.cmd("CONFIG").arg("GET").arg("appendfsync");
        // To nobody: only whether this user may publish is of interest.
        let publish = if keyspace.slot().is_some() { "SPUBLISH" } else { "PUBLISH" };
        pipeline.cmd(publish).arg(keyspace.wakeup_channel(WaiterId::from_bits(0))).arg("");
        declared::ask(&mut pipeline, keyspace);
        let answers = {
            let _room = self.beside.acquire().await;
            query(&self.connection, &pipeline).await?
        };
        // The time before the record: a quarantine that begins in between is not taken for over.
        let [info, time, record, fsync, published, declared, undeclared] = <[Value; 7]>::try_from(answers)
            .map_err(|answers| NodeError::Protocol { reply: format!("{} answers to 7 commands", answers.len()) })?;

        let info: String = read(info)?;
        if let Some(refusal) = refusal(&info, keyspace.slot().is_some(), self.terms.tolerates_eviction)? {
            return Err(refusal.into());
        }
        let (seconds, micros): (u64, u64) = read(time)?;
        // Managed servers deny CONFIG. The node then counts as not durable.
        let fsync: HashMap<String, String> = read(fsync).unwrap_or_default();
        let (run_id, record) = (run_id(&info)?, decode_record(&read::<Vec<_>>(record)?)?);
        let is_written =
            field(&info, "aof_enabled") == Ok("1") && fsync.get("appendfsync").is_some_and(|when| when == "always");
        // What a disk keeps over a restart, it does not keep when the server takes over the data of another one.
        let was_replica = record.get().is_some_and(|record| is_other_data_of_same_process(&record.run_id, &run_id));
        let durable = is_written && !was_replica;
        let is_own = field(&info, "master_replid2").is_ok_and(|id| id.bytes().all(|digit| digit == b'0'));
        let clock_micros = clock(seconds, micros)?;
        let inspection = Inspection { run_id, log_position: None, durable, clock_micros, record };
        let policy = field(&info, "maxmemory_policy")?;
        self.terms.warnings.note_eviction((policy != NO_EVICTION).then_some(policy));
        self.terms.warnings.note_mute(read::<i64>(published).err().as_ref());
        if let Some(insists) = declared::insists(&declared, &undeclared) {
            self.declares_all.store(insists, Ordering::Relaxed);
            self.terms.warnings.note_insists(insists);
        }
        Ok((inspection, is_own))
    }
}

/// Names the memory of a server: the process, and the history of its data, which is another one after it was a replica.
fn run_id(info: &str) -> Result<String, NodeError> {
    Ok(format!("{}/{}", field(info, "run_id")?, field(info, "master_replid")?))
}

/// Whether two run ids name one process with different histories of its data.
pub(super) fn is_other_data_of_same_process(one: &str, other: &str) -> bool {
    let process = |run_id: &str| run_id.split_once('/').map(|(process, _)| process.to_owned());
    one != other && process(one).is_some_and(|of_one| process(other) == Some(of_one))
}

/// Why the server must not be used, by its own account.
fn refusal(info: &str, in_cluster: bool, tolerates_eviction: bool) -> Result<Option<Refusal>, NodeError> {
    let (version, policy) = (version(field(info, "redis_version")?)?, field(info, "maxmemory_policy")?);
    Ok(if !in_cluster && field(info, "cluster_enabled") == Ok("1") {
        // Only some of its answers would be redirections: it has the keys of some slots.
        Some(Refusal::ClusterMode { detail: "cluster_enabled is 1".into() })
    } else if field(info, "role")? != "master" {
        Some(Refusal::Replica)
    } else if version < MIN_VERSION {
        Some(Refusal::TooOld { version })
    } else if policy != NO_EVICTION && !(tolerates_eviction && policy.starts_with(OF_KEYS_THAT_EXPIRE)) {
        Some(Refusal::Evicts { policy: policy.to_owned() })
    } else {
        None
    })
}

/// The clock in microseconds.
fn clock(seconds: u64, micros: u64) -> Result<u64, NodeError> {
    let clock = seconds.checked_mul(1_000_000).and_then(|clock| clock.checked_add(micros));
    let unexpected = || NodeError::Protocol { reply: format!("TIME {seconds} {micros}") };
    clock.filter(|clock| *clock <= MAX_TOKEN).ok_or_else(unexpected)
}

fn field<'a>(info: &'a str, name: &str) -> Result<&'a str, NodeError> {
    let mut fields = info.lines().filter_map(|line| line.split_once(':'));
    let found = fields.find(|(field, _)| *field == name);
    found.map(|(_, value)| value.trim()).ok_or_else(|| NodeError::Protocol { reply: format!("INFO without {name}") })
}

fn version(text: &str) -> Result<(u32, u32), NodeError> {
    let mut parts = text.split('.').map_while(|part| part.parse().ok());
    parts.next().zip(parts.next()).ok_or_else(|| NodeError::Protocol { reply: format!("version {text}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_beyond_2_53_is_none() {
        assert_eq!(clock(1_700_000_000, 7), Ok(1_700_000_000_000_007));
        for seconds in [1 << 53, i64::MAX.cast_unsigned(), u64::MAX] {
            assert!(matches!(clock(seconds, 0), Err(NodeError::Protocol { .. })), "{seconds}");
        }
        assert!(clock(0, u64::MAX).is_err());
    }

    #[test]
    fn a_run_id_is_of_a_process_and_of_its_data() {
        let run_id = |run_id: &str, replid: &str| {
            super::run_id(&format!("run_id:{run_id}\r\nmaster_replid:{replid}\r\nmaster_replid2:0\r\n")).unwrap()
        };
        let is_other = |one: &str, other: &str| is_other_data_of_same_process(one, other);
        assert_eq!(run_id("a", "1"), "a/1");
        assert!(is_other(&run_id("a", "1"), &run_id("a", "2")), "it was a replica, or has its first one");
        assert!(!is_other(&run_id("a", "1"), &run_id("b", "2")) && !is_other(&run_id("a", "1"), &run_id("b", "1")));
        assert!(!is_other(&run_id("a", "1"), &run_id("a", "1")) && !is_other("a", "b"));
        assert!(super::run_id("run_id:a\r\n").is_err());
    }

    #[test]
    fn info_is_read_by_field() {
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n";
        assert_eq!(field(info, "run_id"), Ok("abc"));
        assert_eq!(version(field(info, "redis_version").unwrap()), Ok((7, 0)));
        assert!(field(info, "role").is_err());
    }

    #[test]
    fn a_server_is_refused_for_what_it_says_of_itself() {
        let refusal_of = |changed: &str, value: &str| {
            let usual = [
                ("redis_version", "7.0.15"),
                ("role", "master"),
                ("maxmemory_policy", "noeviction"),
                ("cluster_enabled", "0"),
            ];
            let line =
                |(name, usual): (&str, &str)| format!("{name}:{}\r\n", if name == changed { value } else { usual });
            refusal(&usual.map(line).concat(), false, false).unwrap()
        };
        assert_eq!(refusal_of("", ""), None);
        assert_eq!(refusal_of("role", "slave"), Some(Refusal::Replica));
        assert_eq!(refusal_of("redis_version", "6.0.20"), Some(Refusal::TooOld { version: (6, 0) }));
        let policy = "volatile-ttl";
        assert_eq!(refusal_of("maxmemory_policy", policy), Some(Refusal::Evicts { policy: policy.into() }));
        assert!(matches!(refusal_of("cluster_enabled", "1"), Some(Refusal::ClusterMode { .. })));
    }

    #[test]
    fn only_a_policy_that_deletes_no_record_can_be_tolerated() {
        let refusal = |policy: &str| {
            let info = format!("redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:{policy}\r\n");
            super::refusal(&info, false, true).unwrap()
        };
        for policy in ["noeviction", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
            assert_eq!(refusal(policy), None);
        }
        for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random", "unheard-of"] {
            assert_eq!(refusal(policy), Some(Refusal::Evicts { policy: policy.into() }));
        }
    }
}
