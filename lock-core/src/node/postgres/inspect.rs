//! The statement that inspects a node.

use super::classify::node_error;
use super::codec::column;
use super::record::decode;
use super::session::Session;
use crate::node::{Inspection, Keyspace, NodeError};

/// Reads everything that decides whether the node is admitted.
pub(super) async fn inspect(session: &Session, keyspace: &Keyspace) -> Result<Inspection, NodeError> {
    let row =
        session.answer(session.client.query_one(&session.inspect, &[session.id.as_text(), &keyspace.record()])).await;
    let row = row.map_err(|error| node_error(&error))?;
    let run_id: Option<String> = column(&row, 0)?;
    let (written, clock): (i64, i64) = (column(&row, 1)?, column(&row, 2)?);
    Ok(Inspection {
        // The memory marker was written when the session began, and nothing but a crash removes it.
        run_id: run_id.ok_or_else(|| NodeError::Protocol { reply: "locks.run is empty".into() })?,
        log_position: u64::try_from(written).ok(),
        // A crash may lose commits. The node finds out, but cannot tell whether it did.
        durable: false,
        clock_micros: u64::try_from(clock).unwrap_or_default(),
        record: decode(column(&row, 3)?)?,
    })
}
