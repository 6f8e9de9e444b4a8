//! Where an ensemble is. Opens sessions, and waits for their connections.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use zookeeper_client::{Acls, Client, Error, SessionState};

use super::classify::inspection_error;
use super::heard::Heard;
use super::session::Session;
use crate::limits::MIN_TTL;
use crate::node::{InvalidUrl, NodeError, Refusal};

/// The port of a server that is named without one.
const PORT: u16 = 2181;
/// Where everything is kept if no path is named.
const ROOT: &str = "/locks";
/// How long it may take to open a session, or to have it back.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a reply may take: the members of an ensemble write to their disks before they acknowledge.
pub(super) const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection on which nothing arrives for this long is lost: no reply is awaited for longer. The client pings more often than that, and
/// then tries the servers in a random order, for as long each. The one that hangs may be among the first, again and again: a lock that has two
/// thirds of its `ttl` left outlasts three of these. It must also be well below the shortest session.
const CONNECTION_TIMEOUT: Duration = NODE_TIMEOUT;

/// How many addresses the client is given: the servers, several times over. It tries all of them at once when a connection is lost,
/// and then pauses between two for a time that grows with their number in the list: so up to 2 s in the first half minute. With few, it
/// would double its pauses, and still wait for a good part of a lock's time when the servers are there again.
const ADDRESSES: usize = 24;

/// Where an ensemble is: for connections, and for people.
#[derive(Clone)]
pub(super) struct Address {
    /// The servers and the path, without the login.
    pub(super) name: String,
    /// `host:port,host:port`.
    pub(super) servers: String,
    /// The path below which everything is kept.
    pub(super) root: String,
    /// `user:password`.
    pub(super) login: Option<String>,
}

impl Address {
    /// Parses `[user:password@]host[:port][,host[:port]…][/path]`. Neither errors nor the name contain the password.
    pub(super) fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let invalid = |reason: &str| InvalidUrl::new(text, reason);
        if text.contains("://") {
            return Err(invalid("expected host:port,host:port/path, without a scheme"));
        }
        // A password may contain an @ or a slash, so the last @ decides.
        let (login, rest) = text.rsplit_once('@').map_or((None, text), |(login, rest)| (Some(login), rest));
        if login.is_some_and(|login| login.split_once(':').is_none_or(|(user, _)| user.is_empty())) {
            return Err(invalid("expected user:password before the @"));
        }
        let (hosts, root) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let root = root.strip_suffix('/').unwrap_or(root);
        if root.split('/').skip(1).any(|name| matches!(name, "" | "." | "..") || name.contains(char::is_control)) {
            return Err(invalid("the path has a part that no znode can have as its name"));
        }
        if root == "/zookeeper" || root.starts_with("/zookeeper/") {
            return Err(invalid("the path /zookeeper is the servers' own"));
        }
        let servers: Option<Vec<String>> = hosts.split(',').map(server).collect();
        let servers = servers.ok_or_else(|| invalid("expected host:port,host:port, such as zk-1:2181,zk-2:2181"))?;
        let servers = servers.join(",");
        Ok(Self {
            name: format!("{servers}{root}"),
            servers,
            root: if root.is_empty() { ROOT } else { root }.to_owned(),
            login: login.map(str::to_owned),
        })
    }
}

/// A server with its port. `None` if it is none.
fn server(text: &str) -> Option<String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok().filter(|port| *port > 0)?),
        _ => (text, PORT),
    };
    let is_ipv6 = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
    let is_name = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || matches!(c, ':' | '[' | ']' | '?'));
    (is_ipv6 || is_name).then(|| format!("{}:{port}", host.to_lowercase()))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LockOptions;

    #[test]
    fn a_lock_of_the_default_ttl_outlasts_a_server_that_hangs_and_two_attempts_to_connect_to_it_again() {
        assert!(CONNECTION_TIMEOUT * 3 < LockOptions::default().ttl * 2 / 3);
    }

    #[test]
    fn an_address_names_servers_and_a_path() {
        let address = Address::parse("app:s@c/ret@ZK-1,zk-2:2182,[::1]:2183/locks/shop/").unwrap();
        assert_eq!(address.name, "zk-1:2181,zk-2:2182,[::1]:2183/locks/shop");
        assert_eq!(address.root, "/locks/shop");
        assert_eq!(address.login.as_deref(), Some("app:s@c/ret"));
        let bare = Address::parse("zk").unwrap();
        assert_eq!((bare.servers.as_str(), bare.root.as_str(), bare.login), ("zk:2181", "/locks", None));
        assert_eq!(bare.name, "zk:2181");
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said_without_its_password() {
        for (text, reason) in [
            ("", "host:port"),
            ("zk:2181,", "host:port"),
            ("zk:0", "host:port"),
            ("zk:port", "host:port"),
            ("user@zk", "user:password"),
            ("zk/a//b", "znode"),
            ("zk/../b", "znode"),
            ("zk/zookeeper", "servers' own"),
            ("zookeeper://zk", "without a scheme"),
        ] {
            let error = Address::parse(text).err().unwrap_or_else(|| panic!("{text} is accepted"));
            assert!(error.reason.contains(reason), "{text}: {error}");
        }
        for text in
            ["app:secret@zk:port", "app:secret,zk-1:2181", "zk-1:2181,app:sec,secret,zk-2", "app:secret,zk/a//b"]
        {
            let error = Address::parse(text).err().unwrap_or_else(|| panic!("{text} is accepted")).to_string();
            assert!(!error.contains("sec"), "{error}");
        }
    }
}
