//! Opens sessions, and waits for their connections.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use zookeeper_client::{Acls, Client, Error, SessionState};

use super::address::Address;
use super::classify::inspection_error;
use super::heard::Heard;
use super::session::Session;
use crate::limits::MIN_TTL;
use crate::node::{NodeError, Refusal};

/// How long it may take to open a session, or to have it back.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection on which nothing arrives for this long is lost. The client pings more often than that, and then tries another
/// server. It must be well below the shortest session.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(4);

/// How many addresses the client is given: the servers, several times over. It tries all of them at once when a connection is lost,
/// and then pauses between two for a time that grows with their number in the list: so up to 2 s in the first half minute. With few, it
/// would double its pauses, and still wait for a good part of a lock's time when the servers are there again.
const ADDRESSES: usize = 24;

/// Opens a session that is long enough for locks of this time to live.
pub(super) async fn connect(address: &Address, max_ttl: Duration, tick: Duration) -> Result<Session, NodeError> {
    let wanted = Heard::timeout_for(max_ttl, tick);
    let connection = CONNECTION_TIMEOUT.min(wanted * 2 / 5);
    let mut connector =
        Client::connector().with_session_timeout(wanted).with_connection_timeout(connection).with_fail_eagerly();
    if let Some(login) = &address.login {
        connector = connector.with_auth("digest", login.as_bytes());
    }
    let count = address.servers.split(',').count();
    let servers = vec![address.servers.as_str(); ADDRESSES.div_ceil(count)].join(",");
    let asked = Instant::now();
    let connected = timeout(CONNECT_TIMEOUT, connector.connect(&servers)).await;
    let client = match connected.unwrap_or(Err(Error::Timeout)) {
        Ok(client) => client,
        Err(Error::AuthFailed) => return Err(inspection_error(&Error::AuthFailed, &address.root)),
        Err(error) => {
            let reason = format!("no server of the ensemble opened a session: {error}");
            return Err(NodeError::Unreachable { reason });
        }
    };
    let negotiated = client.session_timeout();
    if negotiated < wanted {
        return Err(too_short(max_ttl, tick, negotiated).into());
    }
    let acls = if address.login.is_some() { Acls::creator_all() } else { Acls::anyone_all() };
    Ok(Session::new(client, acls, address.root.clone(), Heard::new(negotiated, tick, asked)))
}

/// Waits until the session has a connection, or is `gone`.
pub(super) async fn reconnect(session: &Session, gone: &CancellationToken) -> Result<(), NodeError> {
    let mut state = session.client.state_watcher();
    let connected = async {
        while !gone.is_cancelled() && session.client.state() != SessionState::SyncConnected {
            state.changed().await;
        }
    };
    let is_late = timeout(CONNECT_TIMEOUT, connected).await.is_err();
    if is_late { Err(NodeError::Unreachable { reason: "the session has no connection".into() }) } else { Ok(()) }
}

fn too_short(max_ttl: Duration, tick: Duration, negotiated: Duration) -> Refusal {
    let wanted = Heard::timeout_for(max_ttl, tick);
    let longest = negotiated.saturating_sub(tick * 2);
    let lower = match longest >= MIN_TTL {
        true => format!("lower .max_ttl({max_ttl:?}) to {longest:?} or less, or "),
        false => String::new(),
    };
    let reason = format!(
        "a lock lives as long as the session, and the servers allow {negotiated:?} for one: with max_ttl {max_ttl:?}, {wanted:?} \
         are needed; {lower}raise maxSessionTimeout on the servers"
    );
    Refusal::Unusable { reason }
}
