//! The scripts of lock-core, in Rust. Each function has the name of its Lua counterpart, or of its file, and follows it step by
//! step, for calls as lock-core makes them: `votes` has those that answer a ballot, `queue` those of `queue.lua`, `lua` what Lua
//! and its `redis.call` do by themselves.

mod lua;
mod queue;
mod votes;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use self::lua::Broken;
use self::votes::Votes;
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
    source!("begin", "release", "busy", "queue", "confirm", "extend", "replace", "end_of_busy", "acquire");
/// The sources of the scripts: that of the ballots, and the one that establishes.
pub const SCRIPTS: [&str; 2] = [BALLOTS, source!("establish")];
const SOURCES: [(Script, &str); 2] = [(Script::Ballots, SCRIPTS[0]), (Script::Establish, SCRIPTS[1])];

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
}

impl Call<'_> {
    pub(super) fn run(self, script: Script) -> Answer {
        let ran = match script {
            Script::Ballots => Votes::run(self),
            Script::Establish => self.establish(),
        };
        ran.unwrap_or_else(|Broken(error)| Answer::Error(error))
    }

    fn establish(mut self) -> Result<Answer, Broken> {
        let ([meta, at_rest], [expected, fields @ .., quarantine]) = (self.keys, self.arguments) else {
            return Err(Broken::malformed());
        };
        let Some(quarantine) = lua::number(quarantine) else {
            return Err(Broken::new("ERR establish: not a number"));
        };
        if self.store.field(meta, b"epoch", self.now)?.unwrap_or_default() != expected {
            return Ok(Answer::words(["CHANGED"]));
        }
        if quarantine > 0.0 && self.flaw != Some(Flaw::VotesAfterForgetting) {
            self.store.set(at_rest, b"1", Some(self.now + lua::truncated(quarantine)));
        }
        let names = ["run_id", "epoch", "format", "nodes", "max_ttl", "set_name"];
        let fields = names.iter().map(|name| name.as_bytes().to_vec()).zip(fields.iter().cloned());
        self.store.set_fields(meta, fields, self.now)?;
        self.count("establish");
        Ok(Answer::words(["ESTABLISHED"]))
    }

    fn count(&mut self, name: &'static str) {
        *self.done.entry(name).or_default() += 1;
    }
}
