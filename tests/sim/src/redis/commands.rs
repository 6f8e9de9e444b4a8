use std::collections::BTreeSet;
use std::time::Duration;

use super::clock::NodeClock;
use super::flaw::Flaw;
use super::lists::{Blocked, range};
use super::resp::Answer;
use super::scripts::{Call, Script, Tally};
use super::store::{Store, WrongType};

/// What a server knows, and what it is.
pub(super) struct State {
    pub(super) store: Store,
    pub(super) clock: NodeClock,
    pub(super) run_id: String,
    /// Every write is on disk before it is answered.
    pub(super) durable: bool,
    pub(super) scripts: BTreeSet<Script>,
    pub(super) flaw: Option<Flaw>,
    /// How often each kind of ballot was answered, and what came of them.
    pub(super) done: Tally,
    /// The connections that wait for an element of a list, in the order in which they came.
    pub(super) blocked: Vec<Blocked>,
}

/// One connection, as the server sees it.
pub(super) struct Session {
    pub(super) protocol: u8,
    /// Tells sessions apart.
    pub(super) id: u64,
}

/// A command with its words; the name in capitals.
struct Command<'a> {
    name: String,
    arguments: &'a [Vec<u8>],
    /// The server's clock, in milliseconds.
    now: i64,
}

impl From<WrongType> for Answer {
    fn from(WrongType: WrongType) -> Self {
        error(WRONG_TYPE)
    }
}

pub(super) const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(super) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

pub(super) fn error(text: impl Into<String>) -> Answer {
    Answer::Error(text.into())
}

fn flag(flag: bool) -> Answer {
    Answer::Number(i64::from(flag))
}

fn upper(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_uppercase()
}

/// An integer in the one way in which Redis reads it: no sign but a minus, no zeros before it.
pub(super) fn integer(word: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == word).then_some(number)
}

impl State {
    /// Executes a command, at `now` of true time. There is no answer yet if the session is blocked by it.
    pub(super) fn execute(&mut self, session: &mut Session, words: &[Vec<u8>], now: Duration) -> Option<Answer> {
        let millis = self.clock.millis(now);
        let answer = match words {
            [name, list, timeout] if upper(name) == "BLPOP" => self.blpop(session, list, timeout, millis),
            _ => Some(self.answer(session, words, now)),
        };
        self.serve_blocked(millis);
        answer
    }

    fn answer(&mut self, session: &mut Session, words: &[Vec<u8>], now: Duration) -> Answer {
        let Some((name, arguments)) = words.split_first() else { return error("ERR empty command") };
        let command = Command { name: upper(name), arguments, now: self.clock.millis(now) };
        match (command.name.as_str(), arguments.len()) {
            ("PING", 0) => Answer::Status("PONG"),
            ("HELLO", _) => self.hello(session, arguments),
            ("AUTH", 1 | 2) => error(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ),
            ("CLIENT", 1..) => {
                error(format!("ERR unknown subcommand '{}'. Try CLIENT HELP.", String::from_utf8_lossy(&arguments[0])))
            }
            ("SELECT", 1) => match integer(&arguments[0]) {
                Some(0) => Answer::Status("OK"),
                Some(_) => error("ERR DB index is out of range"),
                None => error(NOT_AN_INTEGER),
            },
            ("INFO", _) => Answer::Report(self.info()),
            ("TIME", 0) => {
                let micros = self.clock.micros(now);
                let part = |number: i64| Answer::text(number.to_string());
                Answer::List(vec![part(micros / 1_000_000), part(micros % 1_000_000)])
            }
            ("CONFIG", 2) if upper(&arguments[0]) == "GET" => self.config(&arguments[1]),
            ("SCRIPT", 1..) => self.script(arguments),
            ("EVAL" | "EVALSHA", 2..) => self.eval(&command),
            ("FLUSHALL", 0) => {
                self.store.clear();
                Answer::Status("OK")
            }
            _ => self.on_keys(&command),
        }
    }

    fn hello(&self, session: &mut Session, arguments: &[Vec<u8>]) -> Answer {
        let protocol = match arguments.first().map(|word| integer(word)) {
            None => session.protocol,
            Some(Some(2)) => 2,
            Some(Some(3)) => 3,
            Some(Some(_)) => return error("NOPROTO unsupported protocol version"),
            Some(None) => return error("ERR Protocol version is not an integer or out of range"),
        };
        session.protocol = protocol;
        let text = Answer::text;
        Answer::Map(vec![
            (text("server"), text("redis")),
            (text("version"), text(VERSION)),
            (text("proto"), Answer::Number(protocol.into())),
            (text("id"), Answer::Number(1)),
            (text("mode"), text("standalone")),
            (text("role"), text("master")),
            (text("modules"), Answer::List(Vec::new())),
        ])
    }

    fn info(&self) -> String {
        let aof = u8::from(self.durable);
        format!(
            "# Server\r\nredis_version:{VERSION}\r\nrun_id:{}\r\n\r\n# Clients\r\nblocked_clients:{}\r\n\r\n\
             # Memory\r\nmaxmemory_policy:noeviction\r\n\r\n# Persistence\r\naof_enabled:{aof}\r\n\r\n\
             # Replication\r\nrole:master\r\n",
            self.run_id,
            self.blocked.len()
        )
    }

    fn config(&self, pattern: &[u8]) -> Answer {
        let value = match pattern {
            b"appendfsync" if self.durable => "always",
            b"appendfsync" => "everysec",
            b"maxmemory-policy" => "noeviction",
            _ => return Answer::Map(Vec::new()),
        };
        Answer::Map(vec![(Answer::text(pattern), Answer::text(value))])
    }

    fn script(&mut self, arguments: &[Vec<u8>]) -> Answer {
        match (upper(&arguments[0]).as_str(), &arguments[1..]) {
            ("LOAD", [source]) => match Script::by_source(source) {
                Some(script) => {
                    self.scripts.insert(script);
                    Answer::text(script.hash())
                }
                None => error("ERR not one of the scripts that this server can run"),
            },
            ("EXISTS", hashes @ [_, ..]) => {
                let known = |hash: &Vec<u8>| Script::by_hash(hash).is_some_and(|script| self.scripts.contains(&script));
                Answer::List(hashes.iter().map(|hash| flag(known(hash))).collect())
            }
            ("FLUSH", []) => {
                self.scripts.clear();
                Answer::Status("OK")
            }
            _ => error("ERR unknown subcommand or wrong number of arguments for 'SCRIPT'"),
        }
    }

    fn eval(&mut self, command: &Command<'_>) -> Answer {
        let [which, count, rest @ ..] = command.arguments else { return error("ERR syntax error") };
        let script = if command.name == "EVAL" {
            let Some(script) = Script::by_source(which) else {
                return error("ERR not one of the scripts that this server can run");
            };
            self.scripts.insert(script);
            script
        } else {
            match Script::by_hash(which).filter(|script| self.scripts.contains(script)) {
                Some(script) => script,
                None => return error("NOSCRIPT No matching script. Please use EVAL."),
            }
        };
        let Some(count) = integer(count) else { return error(NOT_AN_INTEGER) };
        let Ok(count) = usize::try_from(count) else { return error("ERR Number of keys can't be negative") };
        if count > rest.len() {
            return error("ERR Number of keys can't be greater than number of args");
        }
        let (keys, arguments) = rest.split_at(count);
        let (store, done, now, flaw) = (&mut self.store, &mut self.done, command.now, self.flaw);
        Call { store, now, keys, arguments, flaw, done }.run(script)
    }

    fn on_keys(&mut self, command: &Command<'_>) -> Answer {
        self.plain(command).unwrap_or_else(Answer::from)
    }

    fn plain(&mut self, command: &Command<'_>) -> Result<Answer, WrongType> {
        let (store, now) = (&mut self.store, command.now);
        let text = |text: Option<&[u8]>| text.map_or(Answer::Nil, Answer::text);
        Ok(match (command.name.as_str(), command.arguments) {
            ("GET", [key]) => text(store.get(key, now)?),
            ("SET", [key, value, options @ ..]) => set(store, key, value, options, now),
            ("MGET", keys @ [_, ..]) => {
                let values = keys.iter().map(|key| text(store.get(key, now).unwrap_or_default()));
                Answer::List(values.collect())
            }
            ("DEL", keys @ [_, ..]) => count(keys, |key| store.delete(key, now)),
            ("EXISTS", keys @ [_, ..]) => count(keys, |key| store.exists(key, now)),
            ("PTTL", [key]) => Answer::Number(store.pttl(key, now)),
            ("PEXPIRE", [key, life]) => match integer(life) {
                Some(life) => flag(store.expire(key, now + life, now)),
                None => error(NOT_AN_INTEGER),
            },
            ("HGET", [key, field]) => text(store.field(key, field, now)?),
            ("HMGET", [key, fields @ ..]) if !fields.is_empty() => {
                let mut values = Vec::new();
                for field in fields {
                    values.push(text(store.field(key, field, now)?));
                }
                Answer::List(values)
            }
            ("HSET", [key, fields @ ..]) if !fields.is_empty() && fields.len() % 2 == 0 => {
                let pairs = fields.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()));
                Answer::Number(store.set_fields(key, pairs, now)?)
            }
            ("RPUSH", [key, elements @ ..]) if !elements.is_empty() => {
                let mut length = 0;
                for element in elements {
                    length = store.push(key, element, now)?;
                }
                Answer::length(length)
            }
            ("LPOP", [key]) => self.pop(key, now)?.map_or(Answer::Nil, Answer::text),
            ("LPOP", [key, most]) => self.pop_many(key, most, now)?,
            ("LRANGE", [key, from, to]) => match (integer(from), integer(to)) {
                (Some(from), Some(to)) => range(store.list(key, now)?, from, to),
                _ => error(NOT_AN_INTEGER),
            },
            ("LLEN", [key]) => Answer::length(store.list(key, now)?.len()),
            (name, _) if KNOWN.contains(&name) => {
                error(format!("ERR wrong number of arguments for '{}' command", name.to_lowercase()))
            }
            (name, _) => error(format!("ERR unknown command '{name}'")),
        })
    }
}

/// The version that the server says it is: that to which it is compared.
const VERSION: &str = "7.0.15";
const KNOWN: [&str; 18] = [
    "GET", "SET", "MGET", "DEL", "EXISTS", "PTTL", "PEXPIRE", "HGET", "HMGET", "HSET", "EVAL", "EVALSHA", "TIME",
    "RPUSH", "LPOP", "LRANGE", "LLEN", "BLPOP",
];

fn count(keys: &[Vec<u8>], mut done: impl FnMut(&[u8]) -> bool) -> Answer {
    Answer::length(keys.iter().filter(|key| done(key)).count())
}

/// `SET key value [NX|XX] [PX milliseconds]`.
fn set(store: &mut Store, key: &[u8], value: &[u8], options: &[Vec<u8>], now: i64) -> Answer {
    let (mut only_if, mut expires) = (None, None);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match upper(option).as_str() {
            "NX" if only_if.is_none() => only_if = Some(false),
            "XX" if only_if.is_none() => only_if = Some(true),
            "PX" if expires.is_none() => match options.next().map(|life| integer(life)) {
                Some(Some(life)) if life > 0 => expires = Some(now + life),
                Some(Some(_)) => return error("ERR invalid expire time in 'set' command"),
                Some(None) => return error(NOT_AN_INTEGER),
                None => return error("ERR syntax error"),
            },
            _ => return error("ERR syntax error"),
        }
    }
    if only_if.is_some_and(|there| there != store.exists(key, now)) {
        return Answer::Nil;
    }
    store.set(key, value, expires);
    Answer::Status("OK")
}
