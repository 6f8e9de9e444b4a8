//! The life of one connection to a server, and what it asks outside the order of requests.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::codec::millis;
use super::connect::CONNECT_TIMEOUT;
use super::declared::add_keys;
use super::inspect::is_other_data_of_same_process;
use super::query::{number, state, unexpected};
use super::record::{decode_fences, encode_write};
use super::script::{EVICT, LOOK};
use super::session::Session;
use crate::node::link;
use crate::node::record_fields::written;
use crate::node::{
    Evict, Eviction, FenceReading, FoundRecord, Holder, Inspection, Keyspace, LockState, Look, NodeError, NodeRecord,
    RecordWrite,
};

pub(super) type Link = Arc<link::Link<Session>>;

/// A link over a connection, which others may have links over.
pub(super) fn link_over(session: Arc<Session>) -> Link {
    let (submissions, worker) = (session.submissions.clone(), session.worker.clone());
    let gone = session.pushes.gone().clone();
    link::Link::new(session, submissions, worker, gone)
}

impl Session {
    /// The record for the new id of the data, if all of it was kept since the last inspection.
    fn kept(&self, seen: &Inspection, before: Option<&str>) -> Option<RecordWrite> {
        let before = before.filter(|_| self.tells_loss)?;
        let record = seen.record.get().filter(|record| record.run_id == before)?;
        let kept = || NodeRecord { run_id: seen.run_id.clone(), ..record.clone() };
        is_other_data_of_same_process(before, &seen.run_id).then(|| RecordWrite::replacing(record, kept()))
    }
}

impl link::Session for Session {
    const LOST: &'static str = "connection lost";
    const INSPECTION_TIMEOUT: Duration = CONNECT_TIMEOUT;

    /// Inspects the server. If its data has another id than before, is its own, and it said nothing of a loss, the record is of that id
    /// from now on: a master draws one when it gets its first replica, and when it has had none for an hour.
    async fn inspect(&self, keyspace: &Keyspace, before: Option<&str>) -> Result<Inspection, NodeError> {
        loop {
            let (mut inspection, is_own) = self.pushes.checked(self.see(keyspace).await)?;
            if let Some(kept) = self.kept(&inspection, before).filter(|_| is_own) {
                match self.write_record(keyspace, &kept).await? {
                    Some(record) => inspection.record = FoundRecord::Record(record),
                    // Another client was faster.
                    None => continue,
                }
            }
            return Ok(inspection);
        }
    }

    async fn write_record(&self, keyspace: &Keyspace, write: &RecordWrite) -> Result<Option<NodeRecord>, NodeError> {
        let words: Vec<String> = self.ask(encode_write(keyspace, write)).await?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let unexpected = || NodeError::Protocol { reply: format!("{words:?}") };
        match words[..] {
            ["CHANGED"] => Ok(None),
            ["WRITTEN", member, quarantines] => written(write, member, quarantines).ok_or_else(unexpected).map(Some),
            _ => Err(unexpected()),
        }
    }

    /// Reads the whole record, with the fences. One command, so that the fences and the id are in the same memory.
    async fn read_fences(&self, keyspace: &Keyspace, run_id: &str) -> Result<Option<FenceReading>, NodeError> {
        decode_fences(&self.ask::<Vec<_>>(redis::cmd("HGETALL").arg(keyspace.record()).take()).await?, run_id)
    }

    async fn look(&self, look: &Look) -> Result<Vec<LockState>, NodeError> {
        let Some(first) = look.keys.first() else { return Ok(Vec::new()) };
        let command = |script, declares_all| {
            let mut command = LOOK.command(script, 6 + 3 * look.keys.len(), 64 + 96 * look.keys.len());
            add_keys(&mut command, look.keys.iter(), first.keyspace(), declares_all);
            command.arg(look.epoch.map(|epoch| epoch.to_string()).unwrap_or_default());
            look.keys.iter().for_each(|keys| _ = command.arg(keys.fence()));
            look.keys.iter().for_each(|keys| _ = command.arg(keys.queue_field()));
            command
        };
        match self.run(command).await? {
            Value::BulkString(text) if text == b"U" => Err(NodeError::Unadmitted),
            Value::Array(locks) if locks.len() == look.keys.len() => locks.into_iter().map(state).collect(),
            other => Err(unexpected(&other)),
        }
    }

    async fn evict(&self, evict: &Evict) -> Result<Eviction, NodeError> {
        let Evict { keys, epoch, holders, token, barred_for } = evict;
        let command = |script, declares_all| {
            let mut command = EVICT.command(script, 10 + holders.len(), 256 + 40 * holders.len());
            add_keys(&mut command, std::iter::once(keys), keys.keyspace(), declares_all);
            command
                .arg(epoch.to_string())
                .arg(keys.fence())
                .arg(keys.queue_field())
                .arg(token)
                .arg(millis(*barred_for));
            holders.iter().filter_map(Holder::value).for_each(|value| _ = command.arg(value));
            command
        };
        let reply = self.run(command).await?;
        let Value::BulkString(text) = &reply else { return Err(unexpected(&reply)) };
        match text.split_at_checked(1) {
            Some((b"D", b"")) => Ok(Eviction::Evicted { deleted: true }),
            Some((b"F", b"")) => Ok(Eviction::Evicted { deleted: false }),
            Some((b"H", b"")) => Ok(Eviction::Superseded),
            Some((b"U", b"")) => Err(NodeError::Unadmitted),
            Some((b"R", fence)) => {
                number(fence).map(|fence| Eviction::Refused { fence }).ok_or_else(|| unexpected(&reply))
            }
            _ => Err(unexpected(&reply)),
        }
    }

    /// Not every connection notices that it was lost: one from a factory need not.
    fn is_ended_by(&self, error: &NodeError) -> bool {
        matches!(error, NodeError::TimedOut | NodeError::Unreachable { .. })
    }
}
