//! A master that Redis Sentinel watches over: who it is is asked at every connect.

use futures_util::stream::StreamExt as _;
use redis::AsyncConnectionConfig;

use super::address::Server;
use super::connect::{Connected, settings};
use super::leading::{ask_all, majority, unanimous};
use crate::node::{Credentials, InvalidUrl, NodeError, Refusal};

/// The port of a sentinel that is named without one.
const PORT: u16 = 26379;

/// The sentinels of a master.
#[derive(Clone)]
pub(super) struct Sentinels {
    pub(super) sentinels: Vec<Server>,
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
        let (master, login) = parse_master(master)?;
        Ok(Self { sentinels, master, login })
    }

    /// Connects to the master that most of the sentinels name. The credentials are for it alone.
    pub(super) async fn connect(
        &self,
        credentials: Option<&Credentials>,
        config: AsyncConnectionConfig,
    ) -> Result<Connected, NodeError> {
        let (host, port) = self.find().await?;
        let mut connected = self.login.at(&host, port)?.connect(credentials, config).await?;
        // Sentinels go on naming a master that is being replaced, and one that was just promoted may not know it yet.
        let role: Vec<redis::Value> = connected.query(&redis::cmd("ROLE")).await?;
        match role.into_iter().next().map(redis::from_redis_value::<String>) {
            Some(Ok(role)) if role == "master" => Ok(connected),
            _ => Err(NodeError::Unreachable {
                reason: format!("the sentinels name {host}:{port}, which is no master; a failover may be under way"),
            }),
        }
    }

    /// Asks all sentinels at once. Most of them decide.
    async fn find(&self) -> Result<(String, u16), NodeError> {
        let mut asked = ask_all(&self.sentinels, |sentinel| self.ask(sentinel));
        let (mut named, mut ignorant, mut silent): (Vec<(String, u16)>, Vec<&str>, Vec<String>) = Default::default();
        while let Some((sentinel, answer)) = asked.next().await {
            match answer {
                Ok(Some(master)) => named.push(master),
                Ok(None) => ignorant.push(sentinel),
                Err(error) => silent.push(format!("{sentinel}: {error}")),
            }
            if let Some(master) = majority(&named, self.sentinels.len()) {
                return Ok(master.clone());
            }
        }
        if let Some(master) = unanimous(&named).filter(|_| ignorant.is_empty()) {
            return Ok(master.clone());
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
        sentinel.connect(None, settings()).await?.query(&command).await
    }
}

/// A sentinel from `host[:port]`, or from a URL.
fn parse_sentinel(sentinel: &str) -> Result<Server, InvalidUrl> {
    let mut url = if sentinel.contains("://") { sentinel.to_owned() } else { format!("redis://{sentinel}") };
    if let Some(mut parsed) = redis::parse_redis_url(&url)
        && parsed.port().is_none()
        && parsed.set_port(Some(PORT)).is_ok()
    {
        url = parsed.to_string();
    }
    Server::parse(&url)
}

/// The name of a master and how to log in to it, from the name alone, or from a URL.
fn parse_master(master: &str) -> Result<(String, Server), InvalidUrl> {
    let url = if master.contains("://") { master.to_owned() } else { format!("redis://{master}") };
    let login = Server::parse(&url)?;
    let parsed = redis::parse_redis_url(&url).filter(|parsed| parsed.port().is_none());
    let host = parsed.as_ref().and_then(|parsed| parsed.host_str()).filter(|host| !host.is_empty());
    let Some(name) = host.map(ToOwned::to_owned) else {
        let reason = "expected the name of a master, as in mymaster or redis://user:password@mymaster/0, and no port";
        return Err(InvalidUrl::new(&url, reason));
    };
    Ok((name, login))
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
        let names: Vec<&str> = sentinels.sentinels.iter().map(|sentinel| sentinel.name.as_str()).collect();
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
