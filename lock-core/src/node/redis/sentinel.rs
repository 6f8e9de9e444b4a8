//! A master that Redis Sentinel watches over: who it is is asked at every connect.

#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::AsyncConnectionConfig;
use tokio::time::timeout;
#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConfig;

use super::address::Address;
use super::connect::{Connected, Server, settings};
use crate::node::{Credentials, InvalidUrl, NodeError, Refusal};

/// The port of a sentinel that is named without one.
const PORT: u16 = 26379;
/// How long the sentinels are given to answer. Less than connecting may take, for the master is connected to afterwards.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The sentinels of a master.
#[derive(Clone)]
pub(super) struct Sentinels {
    sentinels: Vec<(String, Server)>,
    /// The name of the master, as the sentinels know it.
    pub(super) master: String,
    /// How to connect to it, wherever it is.
    pub(super) login: Server,
}

impl Sentinels {
    /// Sentinels by address or URL, and a master by its name, or by a URL with the name instead of the host.
    pub(super) fn new(sentinels: impl IntoIterator<Item: AsRef<str>>, master: &str) -> Result<Self, InvalidUrl> {
        let sentinels = sentinels.into_iter().map(|sentinel| parse_sentinel(sentinel.as_ref()));
        let sentinels: Vec<_> = sentinels.collect::<Result<_, _>>()?;
        if sentinels.is_empty() {
            return Err(InvalidUrl::new(master, "expected at least one sentinel for it, such as 10.0.0.1:26379"));
        }
        let (name, login) = parse_master(master)?;
        Ok(Self { sentinels, master: name, login })
    }

    /// The same, with another login to the master.
    pub(super) fn logging_in(&self, credentials: &Credentials) -> Self {
        Self { login: self.login.logging_in(credentials), ..self.clone() }
    }

    /// The sentinels, and the master wherever it is.
    #[cfg(feature = "tls")]
    pub(super) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.sentinels.iter().map(|(_, sentinel)| sentinel).chain([&self.login])
    }

    /// The same, by another configuration of TLS.
    #[cfg(feature = "tls")]
    pub(super) fn with_tls(&self, config: &Arc<ClientConfig>) -> Self {
        let sentinels = self.sentinels.iter().map(|(name, sentinel)| (name.clone(), sentinel.with_tls(config)));
        Self { sentinels: sentinels.collect(), master: self.master.clone(), login: self.login.with_tls(config) }
    }

    /// Connects to the master that most of the sentinels name, by a configuration that is for one connection.
    pub(super) async fn connect(&self, config: AsyncConnectionConfig) -> Result<Connected, NodeError> {
        let (host, port) = self.find().await?;
        let mut connected = self.login.at(&host, port)?.connect(config).await?;
        // Sentinels go on naming a master that is being replaced, and one that was just promoted may not know it yet.
        let role: Vec<redis::Value> = connected.query(&redis::cmd("ROLE")).await?;
        match role.into_iter().next().map(redis::from_redis_value::<String>) {
            Some(Ok(role)) if role == "master" => Ok(connected),
            _ => Err(NodeError::Unreachable {
                reason: format!("the sentinels name {host}:{port}, which is no master; a failover may be under way"),
            }),
        }
    }

    /// Asks all sentinels at once. One that was cut off may name a former master, so most of them decide.
    async fn find(&self) -> Result<(String, u16), NodeError> {
        let mut asked: FuturesUnordered<_> = self
            .sentinels
            .iter()
            .map(|(name, sentinel)| async move { (name, timeout(TIMEOUT, self.ask(sentinel)).await) })
            .collect();
        let (mut named, mut ignorant, mut silent): (Vec<(String, u16)>, Vec<&str>, Vec<String>) = Default::default();
        let is_majority = |count: usize| count > self.sentinels.len() / 2;
        while let Some((sentinel, answer)) = asked.next().await {
            match answer.unwrap_or_else(|_| Err(NodeError::Unreachable { reason: "no answer".into() })) {
                Ok(Some(master)) => named.push(master),
                Ok(None) => ignorant.push(sentinel),
                Err(error) => silent.push(format!("{sentinel}: {error}")),
            }
            if let Some(last) = named.last()
                && is_majority(votes(&named, last))
            {
                return Ok(last.clone());
            }
        }
        // Of those that answer, all have to agree: one of them may be cut off with a master that another one has replaced.
        if let Some(first) = named.first()
            && ignorant.is_empty()
            && named.iter().all(|other| other == first)
        {
            return Ok(first.clone());
        }
        if named.is_empty() && !ignorant.is_empty() {
            return Err(Refusal::UnknownMaster { master: self.master.clone(), sentinels: ignorant.join(", ") }.into());
        }
        let reason = match &named[..] {
            [] => format!("no sentinel of {:?} answers: {}", self.master, silent.join("; ")),
            named => {
                let named = named.iter().map(|(host, port)| format!("{host}:{port}"));
                let said: Vec<_> =
                    named.chain(ignorant.iter().map(|sentinel| format!("unknown to {sentinel}"))).collect();
                format!("the sentinels of {:?} do not agree on its address: {}", self.master, said.join("; "))
            }
        };
        Err(NodeError::Unreachable { reason })
    }

    /// The address of the master, as one sentinel knows it.
    async fn ask(&self, sentinel: &Server) -> Result<Option<(String, u16)>, NodeError> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
        sentinel.connect(settings()).await?.query(&command).await
    }
}

fn votes(named: &[(String, u16)], master: &(String, u16)) -> usize {
    named.iter().filter(|other| *other == master).count()
}

/// A sentinel from `host[:port]`, or from a URL.
fn parse_sentinel(sentinel: &str) -> Result<(String, Server), InvalidUrl> {
    let mut url = if sentinel.contains("://") { sentinel.to_owned() } else { format!("redis://{sentinel}") };
    if let Some(mut parsed) = redis::parse_redis_url(&url)
        && parsed.port().is_none()
        && parsed.set_port(Some(PORT)).is_ok()
    {
        url = parsed.to_string();
    }
    let address = Address::parse(&url)?;
    Ok((address.name.clone(), Server::new(address, &url)?))
}

/// The name of a master and how to log in to it, from the name alone, or from a URL.
fn parse_master(master: &str) -> Result<(String, Server), InvalidUrl> {
    let url = if master.contains("://") { master.to_owned() } else { format!("redis://{master}") };
    let address = Address::parse(&url)?;
    let parsed = redis::parse_redis_url(&url).filter(|parsed| parsed.port().is_none());
    let host = parsed.as_ref().and_then(|parsed| parsed.host_str()).filter(|host| !host.is_empty());
    let Some(name) = host.map(ToOwned::to_owned) else {
        let reason = "expected the name of a master, as in mymaster or redis://user:password@mymaster/0, and no port";
        return Err(InvalidUrl::new(&url, reason));
    };
    Ok((name, Server::new(address, &url)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(sentinels: &[&str], master: &str) -> String {
        let Err(error) = Sentinels::new(sentinels, master) else { panic!("{sentinels:?} {master} were accepted") };
        error.to_string()
    }

    #[test]
    fn sentinels_and_masters_are_named_alone_or_in_urls() {
        let sentinels = Sentinels::new(
            ["10.0.0.1:7000", "10.0.0.2", "redis://u:s3cret@10.0.0.3"],
            "redis://app:s3cret@My_Master.1/3",
        );
        let sentinels = sentinels.unwrap_or_else(|error| panic!("{error}"));
        let names: Vec<&str> = sentinels.sentinels.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["10.0.0.1:7000", "10.0.0.2:26379", "10.0.0.3:26379"]);
        assert_eq!(sentinels.master, "My_Master.1");
        let info = sentinels.login.at("10.0.0.9", 7001).unwrap().info;
        assert_eq!(info.addr().to_string(), "10.0.0.9:7001");
        assert_eq!((info.redis_settings().username(), info.redis_settings().db()), (Some("app"), 3));
        let alone = Sentinels::new(["10.0.0.1"], "mymaster").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(alone.master, "mymaster");
    }

    #[test]
    fn what_is_wrong_is_named_without_a_password() {
        assert!(reason(&[], "mymaster").contains("at least one sentinel"));
        assert!(reason(&["10.0.0.1"], "mymaster:6379").contains("no port"));
        assert!(reason(&["10.0.0.1"], "").contains("the host is missing"));
        let text = reason(&["http://u:s3cret@10.0.0.1"], "mymaster");
        assert!(text.contains("***@") && !text.contains("s3cret"), "{text}");
    }
}
