//! The scripts of lock-core, in Rust. Each function has the name of its Lua counterpart and follows it line by line: `votes`
//! has those that answer a ballot, `queue` those of `queue.lua`, `lua` what Lua and its `redis.call` do by themselves.

mod lua;
mod queue;
mod votes;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use self::lua::{Broken, truncated};
use super::flaw::Flaw;
use super::resp::Answer;
use super::store::Store;

/// One of the scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Script {
    Ballots,
    Establish,
}

macro_rules! source {
    ($($name:literal),+) => {
        concat!($(include_str!(concat!("../../../../../lock-core/src/node/redis/scripts/", $name, ".lua"))),+)
    };
}

const BALLOTS: &str =
    source!("begin", "queue", "confirm", "extend", "replace", "end_of_rest", "acquire", "release", "ballots");
const SOURCES: [(Script, &str); 2] = [(Script::Ballots, BALLOTS), (Script::Establish, source!("establish"))];

static HASHES: LazyLock<Vec<(Script, String)>> = LazyLock::new(|| {
    SOURCES.iter().map(|(script, source)| (*script, redis::Script::new(source).get_hash().to_owned())).collect()
});

impl Script {
    pub(super) fn by_source(source: &[u8]) -> Option<Self> {
        SOURCES.iter().find(|(_, known)| known.as_bytes() == source).map(|(script, _)| *script)
    }

    pub(super) fn by_hash(hash: &[u8]) -> Option<Self> {
        HASHES.iter().find(|(_, known)| known.as_bytes().eq_ignore_ascii_case(hash)).map(|(script, _)| *script)
    }

    pub(super) fn hash(self) -> &'static str {
        HASHES.iter().find(|(script, _)| *script == self).map_or("", |(_, hash)| hash)
    }
}

/// How often what was done.
pub(super) type Tally = BTreeMap<&'static str, u64>;

/// A script that is running.
pub(super) struct Call<'a> {
    pub(super) store: &'a mut Store,
    /// The server's clock stands still while a script runs.
    pub(super) now: i64,
    pub(super) keys: &'a [Vec<u8>],
    pub(super) arguments: &'a [Vec<u8>],
    pub(super) flaw: Option<Flaw>,
    pub(super) done: &'a mut Tally,
    /// How long the server is in quarantine yet, once an acquire has looked.
    pub(super) quarantine: Option<i64>,
}

/// A code and a number.
type Voted = Result<(i64, f64), Broken>;

// The answers' codes, as in `begin.lua`.
const GRANTED: i64 = 1;
const HELD: i64 = 2;
const QUARANTINED: i64 = 3;
const CONFIRMED: i64 = 4;
const REFUSED: i64 = 5;
const KEPT: i64 = 6;
const GONE: i64 = 7;
const RELEASED: i64 = 8;
const NOT_OWNER: i64 = 9;

impl<'a> Call<'a> {
    pub(super) fn run(mut self, script: Script) -> Answer {
        let ran = match script {
            Script::Ballots => self.ballots(),
            Script::Establish => self.establish(),
        };
        ran.unwrap_or_else(|Broken(error)| Answer::Error(error))
    }

    fn ballots(&mut self) -> Result<Answer, Broken> {
        type Vote<'a> = fn(&mut Call<'a>, usize, &[Vec<u8>]) -> Voted;

        let epoch = self.store.field(self.key(0)?, b"epoch", self.now)?;
        if epoch.is_none() || epoch != self.arguments.first().map(Vec::as_slice) {
            return Ok(Answer::List(vec![Answer::Number(0)]));
        }
        let (mut answers, mut at) = (Vec::new(), 2);
        let mut rest = self.arguments.get(3..).unwrap_or_default();
        while let Some((kind, words)) = rest.split_first() {
            let (name, keys, count, vote): (_, _, _, Vote<'a>) = match kind.as_slice() {
                b"A" => ("acquire", 4, 5, Self::acquire),
                b"C" => ("confirm", 2, 2, Self::confirm),
                b"E" => ("extend", 1, 2, Self::extend),
                b"R" => ("release", 3, 2, Self::release),
                _ => ("replace", 2, 3, Self::replace),
            };
            // Lua would go on with nils; no client sends half a ballot.
            let (words, later) = words.split_at_checked(count).ok_or(Broken::new("ERR half a ballot"))?;
            match vote(self, at, words) {
                Ok((code, number)) => answers.extend([Answer::Number(code), Answer::Number(truncated(number))]),
                Err(Broken(error)) => answers.extend([Answer::Number(-1), Answer::text(error)]),
            }
            self.count(name);
            at += keys;
            rest = later;
        }
        Ok(Answer::List(answers))
    }

    fn establish(&mut self) -> Result<Answer, Broken> {
        let Some(quarantine) = self.arguments.get(7).and_then(|text| lua::number(text)) else {
            return Err(Broken::new("ERR establish: not a number"));
        };
        let epoch = self.store.field(self.key(0)?, b"epoch", self.now)?.unwrap_or_default();
        if epoch != self.arguments[0] {
            return Ok(Answer::words(["CHANGED"]));
        }
        if quarantine > 0.0 && self.flaw != Some(Flaw::VotesAfterForgetting) {
            self.set(1, b"1", &lua::word(quarantine))?;
        }
        let names = ["run_id", "epoch", "format", "nodes", "max_ttl", "set_name"];
        let fields = names.iter().map(|name| name.as_bytes().to_vec()).zip(self.arguments[1..7].iter().cloned());
        self.store.set_fields(self.key(0)?, fields, self.now)?;
        self.count("establish");
        Ok(Answer::words(["ESTABLISHED"]))
    }

    fn count(&mut self, name: &'static str) {
        *self.done.entry(name).or_default() += 1;
    }
}
