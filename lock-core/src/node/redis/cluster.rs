//! A Redis Cluster as a master: which of its servers has the slot of a shard is asked at every connect.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::{AsyncConnectionConfig, ConnectionAddr, Value};
use tokio::time::{Instant, timeout, timeout_at};

use super::address::Address;
use super::connect::{Connected, Server, settings};
use crate::node::{Credentials, InvalidUrl, NodeError, Refusal};

/// How long the seeds are given to answer. Less than connecting may take, for the owner of the slot is connected to afterwards.
const TIMEOUT: Duration = Duration::from_millis(500);
/// For how long the others are heard when most of the seeds agree: one of them may be of another cluster.
const OTHERS: Duration = Duration::from_millis(100);

/// Some servers of a cluster, any of which knows where a slot is.
#[derive(Clone)]
pub(super) struct Seeds {
    pub(super) name: String,
    seeds: Vec<(String, Server)>,
}

/// What a seed knows.
struct Known {
    /// Host and port of the server that has the slot, if one has.
    owner: Option<(String, u16)>,
    /// The ids of the servers of the cluster that have slots, or would.
    servers: BTreeSet<String>,
}

impl Seeds {
    /// Seeds from a URL with one or several hosts: `redis://user:password@host:port,host:port`.
    pub(super) fn new(url: &str) -> Result<Self, InvalidUrl> {
        let seeds = single_urls(url).into_iter().map(|single| {
            // The error names the whole.
            let address = Address::parse(&single).map_err(|error| InvalidUrl::new(url, &error.reason))?;
            if !matches!(address.info.addr(), ConnectionAddr::Tcp(..)) {
                return Err(InvalidUrl::new(url, "expected hosts, as a cluster names its servers"));
            }
            if address.info.redis_settings().db() != 0 {
                return Err(InvalidUrl::new(url, "a cluster has no database but 0; remove the number"));
            }
            Ok((address.name.clone(), Server::new(address, url)?))
        });
        let seeds: Vec<_> = seeds.collect::<Result<_, _>>()?;
        let name = format!("cluster:{}", seeds.first().map_or("", |(name, _)| name));
        Ok(Self { name, seeds })
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.seeds.iter().map(|(_, server)| server)
    }

    /// The same, with another login to all servers of the cluster.
    pub(super) fn logging_in(&self, credentials: &Credentials) -> Self {
        let seeds = self.seeds.iter().map(|(name, server)| (name.clone(), server.logging_in(credentials)));
        Self { name: self.name.clone(), seeds: seeds.collect() }
    }

    /// Connects to the server that has a slot, by a configuration that is for one connection.
    pub(super) async fn connect(&self, slot: u16, config: AsyncConnectionConfig) -> Result<Connected, NodeError> {
        self.owner(slot).await?.connect(config).await
    }

    /// The server that has a slot, as most of the seeds say, or all that answer.
    ///
    /// One that was cut off may name a former owner. If it is believed because no other one answers, that server may be one that was cut
    /// off with it.
    async fn owner(&self, slot: u16) -> Result<Server, NodeError> {
        let mut asked: FuturesUnordered<_> = self
            .seeds
            .iter()
            .map(|(name, seed)| async move { (name, timeout(TIMEOUT, ask(seed, slot)).await) })
            .collect();
        let mut until = Instant::now() + TIMEOUT;
        let (mut named, mut said): (Vec<(String, u16)>, Vec<String>) = Default::default();
        let mut known: Vec<(&str, BTreeSet<String>)> = Vec::new();
        while let Ok(Some((name, answer))) = timeout_at(until, asked.next()).await {
            match answer.unwrap_or_else(|_| Err(NodeError::Unreachable { reason: "no answer".into() })) {
                Ok(Known { owner, servers }) => {
                    if let Some((other, _)) = known.iter().find(|(_, others)| others.is_disjoint(&servers)) {
                        return Err(Refusal::OtherCluster { seed: name.clone(), other: (*other).to_owned() }.into());
                    }
                    known.push((name, servers));
                    match owner {
                        Some(owner) => named.push(owner),
                        None => said.push(format!("{name} knows no server with slot {slot}")),
                    }
                }
                Err(NodeError::Refused(refusal)) => return Err(name_seed(name, refusal)),
                Err(error) => said.push(format!("{name}: {error}")),
            }
            if self.agreed(&named).is_some() {
                until = until.min(Instant::now() + OTHERS);
            }
        }
        let login = &self.seeds[0].1;
        match self.agreed(&named).or_else(|| all_equal(&named)) {
            Some((host, port)) => login.at(host, *port),
            None => {
                said.extend(named.iter().map(|(host, port)| format!("slot {slot} is on {host}:{port}")));
                let reason = format!("the servers of the cluster do not say where its locks are: {}", said.join("; "));
                Err(NodeError::Unreachable { reason })
            }
        }
    }

    /// What most of the seeds name.
    fn agreed<'a>(&self, named: &'a [(String, u16)]) -> Option<&'a (String, u16)> {
        let votes = |owner: &(String, u16)| named.iter().filter(|other| *other == owner).count();
        named.iter().find(|owner| votes(owner) > self.seeds.len() / 2)
    }
}

fn all_equal(named: &[(String, u16)]) -> Option<&(String, u16)> {
    named.first().filter(|first| named.iter().all(|other| other == *first))
}

/// A refusal that says which seed it is about.
fn name_seed(seed: &str, refusal: Refusal) -> NodeError {
    match refusal {
        Refusal::NotCluster { .. } => Refusal::NotCluster { server: seed.to_owned() },
        other => other,
    }
    .into()
}

/// What one seed knows of a slot.
async fn ask(seed: &Server, slot: u16) -> Result<Known, NodeError> {
    let mut connection = seed.connect(settings()).await?;
    let slots: Result<Vec<Value>, _> = connection.query(redis::cmd("CLUSTER").arg("SLOTS")).await;
    match slots {
        Ok(ranges) => read(seed, ranges, slot).ok_or_else(|| NodeError::Protocol { reply: "CLUSTER SLOTS".into() }),
        Err(NodeError::Rejected { detail, .. }) if detail.contains("cluster support disabled") => {
            Err(Refusal::NotCluster { server: String::new() }.into())
        }
        Err(error) => Err(error),
    }
}

/// Reads ranges of slots, each with its servers, the owner first: its host, its port, its id.
fn read(seed: &Server, ranges: Vec<Value>, slot: u16) -> Option<Known> {
    let (mut owner, mut servers) = (None, BTreeSet::new());
    for range in ranges {
        let Value::Array(words) = range else { return None };
        let mut words = words.into_iter();
        let mut number = || redis::from_redis_value::<u16>(words.next()?).ok();
        let (from, to) = (number()?, number()?);
        for (place, server) in words.enumerate() {
            let Value::Array(server) = server else { return None };
            let mut server = server.into_iter();
            let host: Option<String> = redis::from_redis_value(server.next()?).ok()?;
            let port: u16 = redis::from_redis_value(server.next()?).ok()?;
            servers.extend(server.next().and_then(|id| redis::from_redis_value::<String>(id).ok()));
            if place == 0 && (from..=to).contains(&slot) {
                // Without a host, it is that of the server which was asked.
                let host = host.filter(|host| !matches!(host.as_str(), "" | "?"));
                owner = Some((host.or_else(|| seed.host())?, port));
            }
        }
    }
    Some(Known { owner, servers })
}

/// A URL for each of the hosts of one.
fn single_urls(url: &str) -> Vec<String> {
    let Some((scheme, rest)) = url.split_once("://") else { return vec![url.to_owned()] };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (login, hosts) = authority.rsplit_once('@').map_or(("", authority), |(login, hosts)| (login, hosts));
    let at = if authority.contains('@') { "@" } else { "" };
    hosts.split(',').map(|host| format!("{scheme}://{login}{at}{host}{path}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(url: &str) -> String {
        let Err(error) = Seeds::new(url) else { panic!("{url} was accepted") };
        error.to_string()
    }

    #[test]
    fn seeds_share_a_login() {
        let seeds = Seeds::new("redis://app:s3cret@10.0.0.1:7000,10.0.0.2,[::1]:7001")
            .unwrap_or_else(|error| panic!("{error}"));
        let names: Vec<&str> = seeds.seeds.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["10.0.0.1:7000", "10.0.0.2:6379", "::1:7001"]);
        assert!(seeds.seeds.iter().all(|(_, seed)| seed.info.redis_settings().password() == Some("s3cret")));
        assert_eq!(seeds.name, "cluster:10.0.0.1:7000");
    }

    #[test]
    fn what_is_wrong_is_named_without_a_password() {
        assert!(reason("redis://a,,b").contains("host is missing"), "{}", reason("redis://a,,b"));
        assert!(reason("redis://a,b/1").contains("no database but 0"));
        assert!(reason("unix:///run/redis.sock").contains("expected hosts"));
        let text = reason("redis://u:s3cret@a,b:x");
        assert!(text.contains("***@") && !text.contains("s3cret"), "{text}");
    }

    #[test]
    fn the_owner_of_a_slot_is_the_first_server_of_its_range() {
        let server = |host: Value, port, id: &str| Value::Array(vec![host, Value::Int(port), text(id)]);
        let range = |from, to, servers: Vec<Value>| {
            Value::Array([Value::Int(from), Value::Int(to)].into_iter().chain(servers).collect())
        };
        let ranges = || {
            vec![
                range(0, 99, vec![server(text("h1"), 1, "a"), server(text("h9"), 9, "d")]),
                range(100, 16383, vec![server(Value::Nil, 2, "b")]),
            ]
        };
        let seed = &Seeds::new("redis://seed:7000").unwrap_or_else(|error| panic!("{error}")).seeds[0].1;
        let owner = |slot| read(seed, ranges(), slot).and_then(|known| known.owner);
        assert_eq!(owner(99), Some(("h1".into(), 1)));
        assert_eq!(owner(100), Some(("seed".into(), 2)));
        let known = read(seed, ranges(), 99).map(|known| known.servers.len());
        assert_eq!(known, Some(3));
        assert_eq!(read(seed, vec![text("x")], 1).map(|known| known.servers.len()), None);
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }
}
