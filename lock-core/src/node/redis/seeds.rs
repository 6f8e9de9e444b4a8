//! A Redis Cluster as a master: which of its servers has the slot of a shard is asked at every connect.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::StreamExt as _;
use redis::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::address::{Network, Server};
use super::connect::settings;
use super::leading::{LEADING_TIMEOUT, ask_all, majority, unanimous};
use crate::node::{Credentials, InvalidUrl, NodeError, Refusal, are_several};

/// For how long answers are good for other shards.
const FRESH: Duration = Duration::from_millis(100);
/// For how long the others are heard when most of the seeds agree: one of them may be of another cluster.
const OTHERS: Duration = Duration::from_millis(100);

/// Some servers of a cluster, any of which knows where a slot is. Clones share what was heard.
#[derive(Clone)]
pub(super) struct Seeds {
    pub(super) name: String,
    pub(super) seeds: Vec<Server>,
    /// What the seeds answered last, and when. Held locked while they are asked: many shards look for their servers at the same moment.
    heard: Arc<Mutex<Option<Heard>>>,
}

/// A seed, and what it knows.
type Answer = (String, Result<Known, NodeError>);

/// When the seeds answered, and what.
type Heard = (Instant, Vec<Answer>);

/// What a seed knows.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    /// The first and the last slot of each range, with host and port of the server that has it.
    owners: Vec<(u16, u16, String, u16)>,
    /// The ids of the servers of the cluster that have slots, or would.
    servers: BTreeSet<String>,
}

impl Seeds {
    /// Seeds from a URL with one or several hosts: `redis://user:password@host:port,host:port`. They and the others of the cluster are in
    /// this network, if it is not that of TCP.
    pub(super) fn new(url: &str, network: Option<&Network>) -> Result<Self, InvalidUrl> {
        if are_several(url) {
            return Err(InvalidUrl::new(
                url,
                "expected one URL for a cluster, with its hosts as in redis://a:7000,b:7000",
            ));
        }
        let seeds = single_urls(url).into_iter().map(|single| {
            // The error names the whole.
            let seed = Server::parse(&single).map_err(|error| InvalidUrl::new(url, &error.reason))?;
            if seed.host().is_none() {
                return Err(InvalidUrl::new(url, "expected hosts, as a cluster names its servers"));
            }
            if seed.info.redis_settings().db() != 0 {
                return Err(InvalidUrl::new(url, "a cluster has no database but 0; remove the number"));
            }
            Ok(Server { network: network.cloned(), ..seed })
        });
        let seeds: Vec<Server> = seeds.collect::<Result<_, _>>()?;
        let name = format!("cluster:{}", seeds.first().map_or("", |seed| &seed.name));
        Ok(Self { name, seeds, heard: Arc::default() })
    }

    /// The server that has a slot, as most of the seeds say, or all that answer. All servers of a cluster have the same login.
    ///
    /// One that was cut off may name a former owner. If it is believed because no other one answers, that server may be one that was cut
    /// off with it.
    pub(super) async fn owner(&self, slot: u16, credentials: Option<&Credentials>) -> Result<Server, NodeError> {
        let mut heard = self.heard.lock().await;
        let answers = match &*heard {
            Some((at, answers)) if at.elapsed() < FRESH => answers,
            _ => {
                let answers = self.ask_all(credentials).await;
                &heard.insert((Instant::now(), answers)).1
            }
        };
        let (host, port) = find(answers, self.seeds.len(), slot)?;
        self.seeds[0].at(host, port)
    }

    /// Asks all seeds at once, for as long as they may say something else than most of them.
    async fn ask_all(&self, credentials: Option<&Credentials>) -> Vec<Answer> {
        let mut asked = ask_all(&self.seeds, |seed| ask(seed, credentials));
        let (mut until, mut answers) = (Instant::now() + LEADING_TIMEOUT, Vec::new());
        while let Ok(Some((name, answer))) = timeout_at(until, asked.next()).await {
            answers.push((name.to_owned(), answer));
            let last = answers.last().filter(|(_, answer)| answer.is_ok()).map(|(_, answer)| answer);
            let agreeing = answers.iter().filter(|(_, answer)| Some(answer) == last).count();
            if agreeing > self.seeds.len() / 2 {
                until = until.min(Instant::now() + OTHERS);
            }
        }
        answers
    }
}

/// Host and port of the server that has a slot, by the answers of some of the seeds.
fn find(answers: &[Answer], seeds: usize, slot: u16) -> Result<(&str, u16), NodeError> {
    let (mut named, mut said): (Vec<(&str, u16)>, Vec<String>) = Default::default();
    let (mut known, mut refused): (Vec<(&str, &BTreeSet<String>)>, _) = (Vec::new(), None);
    for (seed, answer) in answers {
        match answer {
            Ok(Known { owners, servers }) => {
                let is_apart = |others: &BTreeSet<String>| !others.is_empty() && others.is_disjoint(servers);
                if let Some((other, _)) = known.iter().find(|(_, others)| !servers.is_empty() && is_apart(others)) {
                    return Err(Refusal::OtherCluster { seed: seed.clone(), other: (*other).to_owned() }.into());
                }
                known.push((seed, servers));
                match owners.iter().find(|(from, to, ..)| (*from..=*to).contains(&slot)) {
                    Some((_, _, host, port)) => named.push((host, *port)),
                    None => said.push(format!("{seed} knows no server with slot {slot}")),
                }
            }
            Err(NodeError::Refused(Refusal::NotCluster { .. })) => {
                return Err(Refusal::NotCluster { server: seed.clone() }.into());
            }
            Err(error @ NodeError::Refused(_)) => _ = refused.get_or_insert(error),
            Err(error) => said.push(format!("{seed}: {error}")),
        }
    }
    // One that refuses does not count against a majority. Without one, what it says has a remedy.
    if let Some(owner) = majority(&named, seeds) {
        return Ok(*owner);
    }
    if let Some(refused) = refused {
        return Err(refused.clone());
    }
    if let Some(owner) = unanimous(&named) {
        return Ok(*owner);
    }
    said.extend(named.iter().map(|(host, port)| format!("slot {slot} is on {host}:{port}")));
    let reason = format!("the servers of the cluster do not say where its locks are: {}", said.join("; "));
    Err(NodeError::Unreachable { reason })
}

/// What one seed knows.
async fn ask(seed: &Server, credentials: Option<&Credentials>) -> Result<Known, NodeError> {
    let mut connection = seed.connect(credentials, settings()).await?;
    let slots: Result<Vec<Value>, _> = connection.query(redis::cmd("CLUSTER").arg("SLOTS")).await;
    match slots {
        Ok(ranges) => read(seed, ranges).ok_or_else(|| NodeError::Protocol { reply: "CLUSTER SLOTS".into() }),
        Err(NodeError::Rejected { detail, .. }) if detail.contains("cluster support disabled") => {
            Err(Refusal::NotCluster { server: String::new() }.into())
        }
        Err(error) => Err(error),
    }
}

/// Reads ranges of slots, each with its servers, the owner first: its host, its port, its id.
fn read(seed: &Server, ranges: Vec<Value>) -> Option<Known> {
    let (mut owners, mut servers) = (Vec::new(), BTreeSet::new());
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
            if place == 0 {
                // Without a host, it is that of the server which was asked.
                let host = host.filter(|host| !matches!(host.as_str(), "" | "?"));
                owners.push((from, to, host.or_else(|| seed.host())?, port));
            }
        }
    }
    owners.sort_unstable();
    Some(Known { owners, servers })
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
        let Err(error) = Seeds::new(url, None) else { panic!("{url} was accepted") };
        error.to_string()
    }

    #[test]
    fn seeds_share_a_login() {
        let seeds = Seeds::new("redis://app:s3cret@10.0.0.1:7000,10.0.0.2,[::1]:7001", None)
            .unwrap_or_else(|error| panic!("{error}"));
        let names: Vec<&str> = seeds.seeds.iter().map(|seed| seed.name.as_str()).collect();
        assert_eq!(names, ["10.0.0.1:7000", "10.0.0.2:6379", "::1:7001"]);
        assert!(seeds.seeds.iter().all(|seed| seed.info.redis_settings().password() == Some("s3cret")));
        assert_eq!(seeds.name, "cluster:10.0.0.1:7000");
    }

    #[test]
    fn what_is_wrong_is_named_without_a_password() {
        assert!(reason("redis://a,,b").contains("host is missing"), "{}", reason("redis://a,,b"));
        assert!(reason("redis://a,redis://b").contains("one URL for a cluster"));
        assert!(reason("redis://a:1, redis://b:2").contains("one URL for a cluster"));
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
        let ranges = vec![
            range(100, 16383, vec![server(Value::Nil, 2, "b")]),
            range(0, 99, vec![server(text("h1"), 1, "a"), server(text("h9"), 9, "d")]),
        ];
        let seed = &Seeds::new("redis://seed:7000", None).unwrap_or_else(|error| panic!("{error}")).seeds[0];
        let known = read(seed, ranges).unwrap();
        assert_eq!(known.owners, [(0, 99, "h1".into(), 1), (100, 16383, "seed".into(), 2)]);
        assert_eq!(known.servers, ["a", "b", "d"].map(String::from).into());
        assert_eq!(read(seed, vec![text("x")]), None);
    }

    fn knows(owner: &str, servers: &[&str]) -> Result<Known, NodeError> {
        let servers = servers.iter().map(ToString::to_string).collect();
        Ok(Known { owners: vec![(0, 99, owner.to_owned(), 1)], servers })
    }

    fn found<const N: usize>(answers: [Result<Known, NodeError>; N]) -> Result<String, NodeError> {
        let answers: Vec<Answer> =
            answers.into_iter().zip(["s1", "s2", "s3"]).map(|(a, s)| (s.to_owned(), a)).collect();
        find(&answers, N, 7).map(|(host, _)| host.to_owned())
    }

    #[test]
    fn most_of_the_seeds_decide_or_all_that_answer() {
        let (dead, all) = (|| Err(NodeError::TimedOut), &["a", "b"]);
        assert_eq!(found([knows("old", all), knows("new", all), knows("new", all)]), Ok("new".into()));
        assert_eq!(found([dead(), dead(), knows("only", all)]), Ok("only".into()));
        let split = found([knows("old", all), dead(), knows("new", all)]).unwrap_err().to_string();
        assert!(split.contains("old:1") && split.contains("new:1") && split.contains("s2: no reply"), "{split}");
        let nobody = find(&[("s1".to_owned(), knows("h", all))], 1, 100).unwrap_err().to_string();
        assert!(nobody.contains("s1 knows no server with slot 100"), "{nobody}");
    }

    #[test]
    fn a_seed_that_refuses_does_not_count_against_a_majority() {
        let refused = || Err(Refusal::NotRedis.into());
        assert_eq!(found([refused(), knows("h1", &["a"]), knows("h1", &["a"])]), Ok("h1".into()));
        let named = found([knows("h1", &["a"]), refused(), Err(NodeError::TimedOut)]);
        assert_eq!(named, Err(Refusal::NotRedis.into()), "the remedy");
    }

    #[test]
    fn seeds_of_different_clusters_and_servers_that_are_in_none_are_refused() {
        let refused = found([knows("h1", &["a", "b"]), knows("h1", &["c"])]);
        assert_eq!(refused, Err(Refusal::OtherCluster { seed: "s2".into(), other: "s1".into() }.into()));
        assert_eq!(found([knows("h1", &["a", "b"]), knows("h1", &["b", "c"])]), Ok("h1".into()), "one was replaced");
        assert_eq!(found([knows("h1", &["a"]), knows("h1", &[])]), Ok("h1".into()), "it knows nobody yet");
        let plain = found([knows("h1", &["a"]), Err(Refusal::NotCluster { server: String::new() }.into())]);
        assert_eq!(plain, Err(Refusal::NotCluster { server: "s2".into() }.into()));
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }
}
