//! The calls of scripts that the engine encodes requests in. The layout of keys and arguments is not repeated here: a node of the engine
//! sends the requests to a server that records them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lock_core::node::{
    Ballot, Division, Evict, LockKeys, Look, NodeRecord, Operation, RecordWrite, Request, Roster, Seat, SetId, WaiterId,
};
use lock_core::{LockNode as _, RedisNode};
use lock_fake_redis::{FakeRedis, NodeClock};
use lock_support::ask;

use super::commands::{KEYSPACE, LOCKS, WAITERS, words};
use super::requests::{Call, EPOCH, FIRST, MEMBER, MINUTE, OTHER_EPOCH, What, Write};
use super::servers::over;

/// Encodes calls as the engine does: a node of the engine, connected to a server that only records them.
pub(crate) struct Encoder {
    node: RedisNode,
    server: FakeRedis,
    run_id: String,
    /// The scripts that the engine sent, by their hash.
    sources: BTreeMap<String, String>,
    /// Whether the server insists that scripts declare their keys.
    declares: bool,
}

impl Encoder {
    pub(crate) async fn connect(declares: bool) -> Self {
        let server = FakeRedis::new("encoder", NodeClock::default(), false, None);
        if declares {
            server.insist_on_declarations();
        }
        _ = server.take_received();
        let (connected, since) = (server.clone(), Instant::now());
        let node = RedisNode::from_factory("encoder", move |config| {
            let (near, far) = tokio::io::duplex(1 << 16);
            let server = connected.clone();
            tokio::spawn(async move { server.serve(far, || since.elapsed()).await });
            over(near, config)
        });
        let run_id = node.inspect(&KEYSPACE).await.unwrap().run_id;
        let mut encoder = Self { node, server, run_id, sources: BTreeMap::new(), declares };
        encoder.write(FIRST).await;
        // Requests are sent for the epoch that an inspection found.
        encoder.node.inspect(&KEYSPACE).await.unwrap();
        // The engine does not send the source for every request: a replace that meets `NOSCRIPT` is given up.
        encoder.submit(WAITERS[0], false, &[(0, Operation::LeaveQueue)]).await;
        encoder.received();
        encoder
    }

    /// The commands that the engine sends for a call.
    pub(crate) async fn encode(&mut self, call: &Call) -> Vec<Vec<String>> {
        let mut sent = self.send(call).await;
        // A process that was stopped for a while gives its connection up, before it sends anything or between the hash of a script
        // and its source. And to a server whose record has become another one the engine sends nothing.
        for _ in 0..50 {
            let known = |command: &Vec<String>| command[0] == "HGETALL" || self.script(command).is_some();
            if !sent.is_empty() && sent.iter().all(known) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            *self = Self::connect(self.declares).await;
            sent = self.send(call).await;
        }
        assert!(!sent.is_empty(), "the engine sends nothing for {call:?}");
        sent.into_iter().map(|command| self.change(call, command)).collect()
    }

    async fn send(&mut self, call: &Call) -> Vec<Vec<String>> {
        self.received();
        match &call.what {
            What::Requests { waiter, polls, requests } => self.submit(WAITERS[*waiter], *polls, requests).await,
            // What comes of these does not matter: the server that records has other locks.
            What::Look { locks, in_any_epoch } => {
                let keys = locks.iter().map(|lock| LOCKS[*lock].keys.clone()).collect();
                _ = self.node.look(Look { keys, epoch: (!in_any_epoch).then_some(EPOCH) }).await;
            }
            What::Evict { lock, holders, token } => {
                let (keys, holders) = (LOCKS[*lock].keys.clone(), holders.clone());
                _ = self.node.evict(Evict { keys, epoch: EPOCH, holders, token: *token, barred_for: MINUTE }).await;
            }
            What::Write(write) => self.write(*write).await,
            // What comes of it does not matter: fences that are too large are refused.
            What::ReadFences => _ = self.node.read_fences(&KEYSPACE).await,
        }
        self.received()
    }

    async fn submit(&self, waiter: WaiterId, polls: bool, requests: &[(usize, Operation)]) {
        let request = |keys, operation| Request { keys, epoch: EPOCH, waiter, polls, operation };
        // The engine sends the first of several requests on its own, and the others together. So the first is another one.
        let first = (requests.len() > 1)
            .then(|| ask(&self.node, request(LockKeys::new(&KEYSPACE, "first"), Operation::LeaveQueue)));
        let sent =
            requests.iter().map(|(lock, operation)| ask(&self.node, request(LOCKS[*lock].keys.clone(), *operation)));
        let sent: Vec<_> = first.into_iter().chain(sent).collect();
        join_all(sent).await;
    }

    async fn write(&self, write: Write) {
        let roster = Roster {
            set: SetId(5),
            generation: 3,
            max_ttl: MINUTE,
            quarantine_ttl: MINUTE,
            formed_over: vec![SetId(3), SetId(4)],
            name: "a set".to_owned(),
            division: Division::default(),
            seats: vec![Some(Seat { member: MEMBER, address: "a server".to_owned() }), None],
        };
        let ballot = Ballot { round: 2, proposer: 7 };
        let record = NodeRecord {
            run_id: self.run_id.clone(),
            member: MEMBER,
            version: 0,
            was: write.has_roster.then_some(MEMBER),
            epoch: write.votes.then_some(EPOCH),
            roster: write.has_roster.then(|| roster.clone()),
            previous: vec![MEMBER],
            promised: write.begins_quarantine.then_some(ballot),
            accepted: write.begins_quarantine.then_some((ballot, roster)),
            quarantines: Vec::new(),
        };
        let begin = if write.begins_quarantine { vec![(MEMBER, MINUTE)] } else { Vec::new() };
        let expected = write.over.map(|version| (MEMBER, version));
        let write = RecordWrite { expected, record, new_member: write.new_member, begin, floor: write.floor };
        // The server that records has a record of its own, which may be another one.
        _ = self.node.write_record(&KEYSPACE, write).await;
    }

    /// The calls of scripts, and the readings of the fences, that the server received since the last call.
    fn received(&mut self) -> Vec<Vec<String>> {
        let text = |word: Vec<u8>| String::from_utf8(word).unwrap();
        let mut calls = Vec::new();
        for command in self.server.take_received() {
            let command: Vec<String> = command.into_iter().map(text).collect();
            let source = match command[0].as_str() {
                "SCRIPT" => Some(&command[2]),
                "EVAL" => Some(&command[1]),
                _ => None,
            };
            if let Some(source) = source {
                self.sources.insert(redis::Script::new(source).get_hash().to_owned(), source.clone());
            }
            if command[0].starts_with("EVAL") || command[0] == "HGETALL" {
                calls.push(command);
            }
        }
        calls
    }

    /// The hash and the source of the script that a command calls, if both are known.
    fn script(&self, command: &[String]) -> Option<(&String, &String)> {
        self.sources.iter().find(|(hash, source)| **hash == command[1] || **source == command[1])
    }

    /// A call by hash or by source, with its epoch and one of its arguments changed.
    fn change(&self, call: &Call, mut command: Vec<String>) -> Vec<String> {
        if command[0] == "HGETALL" {
            return command;
        }
        let (hash, source) = self.script(&command).unwrap();
        let script = if call.by_source { ["EVAL", source] } else { ["EVALSHA", hash] };
        command.splice(..2, words(&script));
        let count: usize = command[2].parse().unwrap();
        let arguments = &mut command[3 + count..];
        if call.wrong_epoch {
            for argument in arguments.iter_mut().filter(|argument| **argument == EPOCH.to_string()) {
                *argument = OTHER_EPOCH.to_string();
            }
        }
        // Not the number of requests, which says where the record is.
        if let Some((index, word)) = call.spoiled.filter(|_| !self.declares) {
            let argument = index.get_mut(arguments);
            // The mark of a queue is a time, which may differ between the servers. In the field of a fence it would be taken for one.
            let mark = if names_a_mark(argument) { "q" } else { "" };
            *argument = format!("{mark}{word}");
        }
        command
    }
}

/// Whether an argument names the fields of a record that have the marks of queues.
fn names_a_mark(argument: &str) -> bool {
    argument.split(' ').all(|name| name.strip_prefix('q').is_some_and(|fence| fence.parse::<u16>().is_ok()))
}
