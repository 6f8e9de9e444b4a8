//! The statement that evicts the holders of a lock.

use tokio_postgres::types::ToSql;

use super::classify::node_error;
use super::codec::{all_fences, column, micros, number};
use super::session::Session;
use crate::node::{Evict, Eviction, Holder, NodeError, OwnerId};

pub(super) async fn evict(session: &Session, evict: &Evict) -> Result<Eviction, NodeError> {
    let Evict { keys, epoch, holders, token, barred_for } = evict;
    let (record, epoch, fence) = (keys.keyspace().record(), epoch.to_string(), i32::from(keys.fence()));
    let named: Vec<String> = holders.iter().filter_map(Holder::owner).map(OwnerId::uuid).collect();
    let (token, barred_for) = (number(*token), micros(*barred_for));
    let (all_fences, lock_key, queue) = (all_fences(keys), keys.lock_key(), keys.queue());
    let parameters: [&(dyn ToSql + Sync); 10] =
        [session.id.as_text(), &record, &epoch, &all_fences, &lock_key, &queue, &fence, &named, &token, &barred_for];
    let row = session.answer(session.client.query_one(&session.evict, &parameters)).await;
    let row = row.map_err(|error| node_error(&error))?;
    let (reply, fence): (String, Option<i64>) = (column(&row, 0)?, column(&row, 1)?);
    match reply.as_str() {
        "deleted" => Ok(Eviction::Evicted { deleted: true }),
        "free" => Ok(Eviction::Evicted { deleted: false }),
        "superseded" => Ok(Eviction::Superseded),
        "refused" => {
            Ok(Eviction::Refused { fence: fence.and_then(|fence| u64::try_from(fence).ok()).unwrap_or_default() })
        }
        "unadmitted" => Err(NodeError::Unadmitted),
        "too_many" => Err(NodeError::Rejected { code: "ERR".into(), detail: "too many owners were evicted".into() }),
        _ => Err(NodeError::Protocol { reply }),
    }
}
