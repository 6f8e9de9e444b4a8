use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::clock::NodeClock;
use super::database::{Database, NOT_AN_INTEGER, flag, integer, time, upper};
use super::flaw::Flaw;
use super::resp::Reply;
use super::scripts::Script;
use super::slots::Slots;

/// What a server knows, and what it is.
pub(super) struct State {
    pub(super) database: Database,
    pub(super) clock: NodeClock,
    pub(super) run_id: String,
    /// Names the history of its data.
    pub(super) replid: String,
    /// Every write is on disk before it is acknowledged.
    pub(super) durable: bool,
    pub(super) scripts: Scripts,
    /// What it knows of its cluster, if it is in one.
    pub(super) slots: Option<Slots>,
    pub(super) flaw: Option<Flaw>,
    /// The patterns of the flaw that scripts had so far.
    pub(super) flaws: BTreeSet<&'static str>,
}

/// The scripts that a server knows, by their hash.
pub(super) type Scripts = BTreeMap<String, Arc<Script>>;

/// One connection, as the server sees it.
pub(super) struct Session {
    pub(super) protocol: u8,
    pub(super) id: u64,
    /// Notified when there are messages for it.
    pub(super) called: Arc<Notify>,
}

/// The version that the server reports: that of the server it is compared with.
const VERSION: &str = "7.0.15";

impl State {
    /// Executes a command, at `now` of true time.
    pub(super) fn execute(&mut self, session: &mut Session, words: &[Vec<u8>], now: Duration) -> Reply {
        let Some((name, arguments)) = words.split_first() else { return Reply::error("ERR empty command") };
        let name = upper(name);
        if let Some(reply) = self.on_slots(&name, arguments, self.clock.millis(now)) {
            return reply;
        }
        if let Some(reply) = self.on_channels(session, &name, arguments) {
            return reply;
        }
        match (name.as_str(), arguments) {
            ("PING", []) => Reply::Status("PONG".into()),
            ("PING", [text]) => Reply::text(text),
            ("HELLO", _) => self.hello(session, arguments),
            ("AUTH", [_] | [_, _]) => Reply::error(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ),
            ("CLIENT", [subcommand, on, mode])
                if upper(subcommand) == "TRACKING" && upper(on) == "ON" && upper(mode) == "OPTIN" =>
            {
                self.database.channels.track(session);
                Reply::Status("OK".into())
            }
            ("CLIENT", [subcommand, ..]) => Reply::error(format!(
                "ERR unknown subcommand '{}'. Try CLIENT HELP.",
                String::from_utf8_lossy(subcommand)
            )),
            ("SELECT", [database]) => match integer(database) {
                Some(0) => Reply::Status("OK".into()),
                Some(_) => Reply::error("ERR DB index is out of range"),
                None => Reply::error(NOT_AN_INTEGER),
            },
            ("INFO", _) => Reply::Report(self.info()),
            ("TIME", []) => time(self.clock.micros(now)),
            ("CONFIG", [get, pattern]) if upper(get) == "GET" => self.config(pattern),
            ("SCRIPT", [subcommand, arguments @ ..]) => self.script(subcommand, arguments),
            ("EVAL", [source, count, rest @ ..]) => match self.load(source) {
                Ok(script) => self.run(&script, count, rest, now),
                Err(error) => error,
            },
            ("EVALSHA", [hash, count, rest @ ..]) => match self.loaded(hash) {
                Some(script) => self.run(&script, count, rest, now),
                None => Reply::error("NOSCRIPT No matching script. Please use EVAL."),
            },
            ("FLUSHALL", []) => {
                self.database.store.clear();
                let told = self.tell_loss(Some(session.id));
                Reply::Several([Reply::Status("OK".into())].into_iter().chain(told).collect())
            }
            _ => self.database.execute(&name, arguments, self.clock.millis(now)),
        }
    }

    /// Tells those who track that all keys are deleted. Returns the message for the session that deleted them.
    pub(super) fn tell_loss(&mut self, by: Option<u64>) -> Option<Reply> {
        let tells = self.flaw != Some(Flaw::VotesInAnyEpoch);
        tells.then(|| self.database.channels.tell_loss(by))?
    }

    fn hello(&self, session: &mut Session, arguments: &[Vec<u8>]) -> Reply {
        let protocol = match arguments.first().map(|word| integer(word)) {
            None => session.protocol,
            Some(Some(2)) => 2,
            Some(Some(3)) => 3,
            Some(Some(_)) => return Reply::error("NOPROTO unsupported protocol version"),
            Some(None) => return Reply::error("ERR Protocol version is not an integer or out of range"),
        };
        session.protocol = protocol;
        let text = Reply::text;
        Reply::Map(vec![
            (text("server"), text("redis")),
            (text("version"), text(VERSION)),
            (text("proto"), Reply::Number(protocol.into())),
            (text("id"), Reply::Number(1)),
            (text("mode"), text("standalone")),
            (text("role"), text("master")),
            (text("modules"), Reply::List(Vec::new())),
        ])
    }

    fn info(&self) -> String {
        let aof = u8::from(self.durable);
        format!(
            "# Server\r\nredis_version:{VERSION}\r\nrun_id:{}\r\n\r\n\
             # Memory\r\nmaxmemory_policy:noeviction\r\n\r\n# Persistence\r\naof_enabled:{aof}\r\n\r\n\
             # Replication\r\nrole:{}\r\nmaster_replid:{}\r\nmaster_replid2:{:040}\r\n",
            self.run_id,
            Slots::role(self.slots.as_ref()),
            self.replid,
            0
        )
    }

    fn config(&self, pattern: &[u8]) -> Reply {
        let value = match pattern {
            b"appendfsync" if self.durable => "always",
            b"appendfsync" => "everysec",
            b"maxmemory-policy" => "noeviction",
            _ => return Reply::Map(Vec::new()),
        };
        Reply::Map(vec![(Reply::text(pattern), Reply::text(value))])
    }

    fn script(&mut self, subcommand: &[u8], arguments: &[Vec<u8>]) -> Reply {
        match (upper(subcommand).as_str(), arguments) {
            ("LOAD", [source]) => match self.load(source) {
                Ok(script) => Reply::text(&script.hash),
                Err(error) => error,
            },
            ("EXISTS", hashes @ [_, ..]) => {
                Reply::List(hashes.iter().map(|hash| flag(self.loaded(hash).is_some())).collect())
            }
            ("FLUSH", []) => {
                self.scripts.clear();
                Reply::Status("OK".into())
            }
            _ => Reply::error("ERR unknown subcommand or wrong number of arguments for 'SCRIPT'"),
        }
    }

    /// Adds a script to those that the server knows.
    fn load(&mut self, source: &[u8]) -> Result<Arc<Script>, Reply> {
        let script = Arc::new(Script::new(source, self.flaw)?);
        self.flaws.extend(&script.flaws);
        self.scripts.insert(script.hash.clone(), Arc::clone(&script));
        Ok(script)
    }

    fn loaded(&self, hash: &[u8]) -> Option<Arc<Script>> {
        self.scripts.get(&String::from_utf8_lossy(hash).to_lowercase()).map(Arc::clone)
    }

    fn run(&mut self, script: &Script, count: &[u8], rest: &[Vec<u8>], now: Duration) -> Reply {
        let Some(count) = integer(count) else { return Reply::error(NOT_AN_INTEGER) };
        let Ok(count) = usize::try_from(count) else { return Reply::error("ERR Number of keys can't be negative") };
        let Some((keys, arguments)) = rest.split_at_checked(count) else {
            return Reply::error("ERR Number of keys can't be greater than number of args");
        };
        script.run(keys, arguments, &mut self.database, self.clock.micros(now))
    }
}
