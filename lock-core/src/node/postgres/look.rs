//! The statement that looks at locks.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::classify::node_error;
use super::session::Session;
use crate::node::{Holder, LockKeys, LockState, Look, NodeError, OwnerId, Reader};

pub(super) async fn look(session: &Session, look: &Look) -> Result<Vec<LockState>, NodeError> {
    let Some(first) = look.keys.first() else { return Ok(Vec::new()) };
    let keys: Vec<&str> = look.keys.iter().map(LockKeys::lock_key).collect();
    let queues: Vec<&str> = look.keys.iter().map(LockKeys::queue).collect();
    let fences: Vec<i32> = look.keys.iter().map(|keys| keys.fence().into()).collect();
    let epoch = look.epoch.map(|epoch| epoch.to_string()).unwrap_or_default();
    let record = first.keyspace().record();
    let parameters: [&(dyn ToSql + Sync); 6] = [session.id.as_text(), &record, &epoch, &keys, &queues, &fences];
    let rows = session.answer(session.client.query(&session.look, &parameters)).await;
    let rows = rows.map_err(|error| node_error(&error))?;
    if rows.is_empty() {
        return Err(NodeError::Unadmitted);
    }
    // Without the reply: it may have the owner id of the holder.
    let malformed = || NodeError::Protocol { reply: "a malformed state of a lock".to_owned() };
    rows.iter().map(|row| state(row).ok_or_else(malformed)).collect()
}

fn state(row: &Row) -> Option<LockState> {
    let owner: Option<String> = row.try_get(0).ok()?;
    let is_held: bool = row.try_get(1).ok()?;
    let holder = match owner {
        Some(owner) => Some(Holder::Owner(OwnerId::from_uuid(&owner)?)),
        None => is_held.then_some(Holder::Readers),
    };
    let readers: Vec<String> = row.try_get::<_, Option<_>>(5).ok()?.unwrap_or_default();
    let remaining: Vec<i64> = row.try_get::<_, Option<_>>(6).ok()?.unwrap_or_default();
    let reader = |(owner, remaining): (&String, i64)| {
        Some(Reader { owner: OwnerId::from_uuid(owner)?, remaining: length(remaining)? })
    };
    let evicted: Vec<String> = row.try_get::<_, Option<_>>(7).ok()?.unwrap_or_default();
    Some(LockState {
        holder,
        remaining: row.try_get::<_, Option<i64>>(2).ok()?.and_then(length),
        fence: u64::try_from(row.try_get::<_, i64>(3).ok()?).ok()?,
        waiters: u32::try_from(row.try_get::<_, i64>(4).ok()?).ok()?,
        readers: readers.iter().zip(remaining).map(reader).collect::<Option<_>>()?,
        evicted: evicted.iter().map(|owner| OwnerId::from_uuid(owner)).collect::<Option<_>>()?,
    })
}

fn length(micros: i64) -> Option<Duration> {
    u64::try_from(micros).ok().map(Duration::from_micros)
}
