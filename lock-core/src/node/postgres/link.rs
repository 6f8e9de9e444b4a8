//! The life of one connection that carries votes, and what it asks outside the order of requests: one statement each.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::unconstrained;
use tokio_postgres::types::ToSql;
use tokio_util::sync::CancellationToken;

use super::classify::ends_session;
use super::codec::{all_fences, column, decode_state, micros, number};
use super::connect::{CONNECT_TIMEOUT, connect};
use super::session::Session;
use super::source::Source;
use super::upkeep::{cancel_unanswered, sweep};
use super::worker::{LastWords, Worker};
use crate::node::limits::too_many_evicted;
use crate::node::link;
use crate::node::record_fields::{decode_record, encode_fields, text, written};
use crate::node::submission::Submissions;
use crate::node::{
    Evict, Eviction, FenceReading, FoundRecord, Holder, Inspection, Keyspace, LockKeys, LockState, Look, MemberId,
    NodeError, NodeRecord, OwnerId, RecordWrite,
};
use crate::task::Task;

pub(super) type Link = Arc<link::Link<Session>>;

/// Connects, and prepares the session.
pub(super) async fn open(source: &Source, synchronous: bool, last_words: &LastWords) -> Result<Link, NodeError> {
    let connected = connect(source).await?;
    let (session, wire) = connected.prepare(|client, id| Session::prepare(client, id, synchronous)).await?;
    let (session, gone, (submissions, receiver)) =
        (Arc::new(session), CancellationToken::new(), Submissions::channel());
    let worker = Worker::new(Arc::clone(&session), gone.clone(), Arc::clone(last_words));
    let worker = Task::spawn_on(&Handle::current(), unconstrained(worker.run(wire, receiver)));
    Handle::current().spawn(sweep(Arc::clone(&session), gone.clone(), source.name.clone()));
    // Not ended with the link: its work begins then, and takes seconds at most.
    Handle::current().spawn(cancel_unanswered(source.clone(), Arc::clone(&session), gone.clone()));
    Ok(link::Link::new(session, submissions, worker, gone))
}

impl link::Session for Session {
    const LOST: &'static str = "connection lost";
    const INSPECTION_TIMEOUT: Duration = CONNECT_TIMEOUT;

    async fn inspect(&self, keyspace: &Keyspace, _: Option<&str>) -> Result<Inspection, NodeError> {
        let unexpected = |what: &str| NodeError::Protocol { reply: what.to_owned() };
        let row = self.rows(&self.inspect, &[&keyspace.record()]).await?.pop();
        let row = row.ok_or_else(|| unexpected("no row of an inspection"))?;
        let (run_id, fields): (Option<String>, Option<Vec<Option<String>>>) = (column(&row, 0)?, column(&row, 3)?);
        let (written, clock): (i64, i64) = (column(&row, 1)?, column(&row, 2)?);
        Ok(Inspection {
            // The memory marker was written when the session began, and nothing but a crash removes it.
            run_id: run_id.ok_or_else(|| unexpected("locks.run is empty"))?,
            log_position: u64::try_from(written).ok(),
            // A crash may lose commits. The node finds out, but cannot tell whether it did.
            durable: false,
            clock_micros: u64::try_from(clock).unwrap_or_default(),
            record: fields.map_or(Ok(FoundRecord::None), |fields| decode_record(&fields))?,
        })
    }

    async fn write_record(&self, keyspace: &Keyspace, write: &RecordWrite) -> Result<Option<NodeRecord>, NodeError> {
        let RecordWrite { expected, new_member, begin, floor, .. } = write;
        let (member, version) = (text(expected.map(|(member, _)| member)), text(expected.map(|(_, version)| version)));
        let (members, lengths): (Vec<_>, Vec<_>) =
            begin.iter().map(|(member, length)| (member.to_string(), micros(*length))).unzip();
        let (record, fields, floor) = (keyspace.record(), encode_fields(write).to_vec(), floor.map(number));
        let parameters: [&(dyn ToSql + Sync); 8] =
            [&record, &member, &version, &fields, new_member, &floor, &members, &lengths];
        let Some(row) = self.rows(&self.write_record, &parameters).await?.pop() else { return Ok(None) };
        let (member, quarantines): (String, String) = (column(&row, 0)?, column(&row, 1)?);
        let unexpected = || NodeError::Protocol { reply: format!("{member} {quarantines}") };
        written(write, &member, &quarantines).ok_or_else(unexpected).map(Some)
    }

    async fn read_fences(&self, keyspace: &Keyspace, _: &str) -> Result<Option<FenceReading>, NodeError> {
        let Some(row) = self.rows(&self.read_fences, &[&keyspace.record()]).await?.pop() else { return Ok(None) };
        let (member, highest): (String, i64) = (column(&row, 0)?, column(&row, 1)?);
        let damaged = || NodeError::Protocol { reply: format!("damaged record of the node: {member} {highest}") };
        let read = MemberId::parse(&member).zip(u64::try_from(highest).ok());
        read.map(|(member, highest)| Some(FenceReading { member, highest })).ok_or_else(damaged)
    }

    async fn look(&self, Look { keys, epoch }: &Look) -> Result<Vec<LockState>, NodeError> {
        let Some(first) = keys.first() else { return Ok(Vec::new()) };
        let (record, epoch) = (first.keyspace().record(), text(*epoch));
        let lock_keys: Vec<&str> = keys.iter().map(LockKeys::lock_key).collect();
        let queues: Vec<&str> = keys.iter().map(LockKeys::queue).collect();
        let fences: Vec<i32> = keys.iter().map(|keys| keys.fence().into()).collect();
        let rows = self.rows(&self.look, &[&record, &epoch, &lock_keys, &queues, &fences]).await?;
        if rows.is_empty() {
            return Err(NodeError::Unadmitted);
        }
        // Without the reply: it may have the owner id of the holder.
        let malformed = || NodeError::Protocol { reply: "a malformed state of a lock".to_owned() };
        rows.iter().map(|row| decode_state(row).ok_or_else(malformed)).collect()
    }

    async fn evict(&self, evict: &Evict) -> Result<Eviction, NodeError> {
        let Evict { keys, epoch, holders, token, barred_for } = evict;
        let (record, epoch, fence) = (keys.keyspace().record(), epoch.to_string(), i32::from(keys.fence()));
        let named: Vec<String> = holders.iter().filter_map(Holder::owner).map(OwnerId::uuid).collect();
        let (token, barred_for) = (number(*token), micros(*barred_for));
        let (all_fences, lock_key, queue) = (all_fences(keys), keys.lock_key(), keys.queue());
        let parameters: [&(dyn ToSql + Sync); 9] =
            [&record, &epoch, &all_fences, &lock_key, &queue, &fence, &named, &token, &barred_for];
        let row = self.rows(&self.evict, &parameters).await?.pop();
        let row = row.ok_or_else(|| NodeError::Protocol { reply: "no row of an eviction".into() })?;
        let (reply, fence): (String, Option<i64>) = (column(&row, 0)?, column(&row, 1)?);
        let fence = fence.and_then(|fence| u64::try_from(fence).ok()).unwrap_or_default();
        match reply.as_str() {
            "deleted" => Ok(Eviction::Evicted { deleted: true }),
            "free" => Ok(Eviction::Evicted { deleted: false }),
            "superseded" => Ok(Eviction::Superseded),
            "refused" => Ok(Eviction::Refused { fence }),
            "unadmitted" => Err(NodeError::Unadmitted),
            "too_many" => Err(too_many_evicted()),
            _ => Err(NodeError::Protocol { reply }),
        }
    }

    fn is_ended_by(&self, error: &NodeError) -> bool {
        ends_session(error) || *error == NodeError::TimedOut
    }
}
