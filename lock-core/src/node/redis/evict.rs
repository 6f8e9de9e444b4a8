//! Evicts holders of locks.

use redis::Value;

use super::codec::millis;
use super::declared::add_keys;
use super::link::Session;
use super::look::number;
use super::query::unexpected;
use super::script::EVICT;
use crate::node::{Evict, Eviction, Holder, NodeError};

/// Runs `evict.lua`.
pub(super) async fn evict(session: &Session, evict: &Evict) -> Result<Eviction, NodeError> {
    let Evict { keys, epoch, holders, token, barred_for } = evict;
    let command = |script, declares_all| {
        let mut command = EVICT.command(script, 10 + holders.len(), 256 + 40 * holders.len());
        add_keys(&mut command, std::iter::once(keys), keys.keyspace(), declares_all);
        command.arg(epoch.to_string()).arg(keys.fence()).arg(keys.queue_field()).arg(token).arg(millis(*barred_for));
        holders.iter().filter_map(Holder::value).for_each(|value| _ = command.arg(value));
        command
    };
    let reply = session.run(command).await?;
    let Value::BulkString(text) = &reply else { return Err(unexpected(&reply)) };
    match text.split_at_checked(1) {
        Some((b"D", b"")) => Ok(Eviction::Evicted { deleted: true }),
        Some((b"F", b"")) => Ok(Eviction::Evicted { deleted: false }),
        Some((b"H", b"")) => Ok(Eviction::Superseded),
        Some((b"U", b"")) => Err(NodeError::Unadmitted),
        Some((b"R", fence)) => number(fence).map(|fence| Eviction::Refused { fence }).ok_or_else(|| unexpected(&reply)),
        _ => Err(unexpected(&reply)),
    }
}
