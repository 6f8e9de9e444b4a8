//! The scripts of lock-core, in Rust. Each function stands beside the Lua file of its name and follows it line by line.

use std::sync::LazyLock;

use super::flaw::Flaw;
use super::resp::Answer;
use super::store::{Store, WrongType};

/// 2^53 - 1: beyond it, Lua can not tell a number from the next.
const LARGEST_FENCE: f64 = 9_007_199_254_740_991.0;

/// One of the scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Script {
    Acquire,
    Confirm,
    Extend,
    Replace,
    Release,
    Establish,
}

macro_rules! source {
    ($name:literal) => {
        include_str!(concat!("../../../../lock-core/src/node/redis/scripts/", $name, ".lua"))
    };
}

const SOURCES: [(Script, &str); 6] = [
    (Script::Acquire, source!("acquire")),
    (Script::Confirm, source!("confirm")),
    (Script::Extend, source!("extend")),
    (Script::Replace, source!("replace")),
    (Script::Release, source!("release")),
    (Script::Establish, source!("establish")),
];

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

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Confirm => "confirm",
            Self::Extend => "extend",
            Self::Replace => "replace",
            Self::Release => "release",
            Self::Establish => "establish",
        }
    }

    pub(super) fn hash(self) -> &'static str {
        HASHES.iter().find(|(script, _)| *script == self).map_or("", |(_, hash)| hash)
    }
}

/// A script that is running.
pub(super) struct Call<'a> {
    pub(super) store: &'a mut Store,
    /// The server's clock stands still while a script runs.
    pub(super) now: i64,
    pub(super) keys: &'a [Vec<u8>],
    pub(super) arguments: &'a [Vec<u8>],
    pub(super) flaw: Option<Flaw>,
}

/// What ends a script early.
struct Broken(String);

impl From<WrongType> for Broken {
    fn from(WrongType: WrongType) -> Self {
        Self("WRONGTYPE Operation against a key holding the wrong kind of value".to_owned())
    }
}

type Ran = Result<Answer, Broken>;

impl Call<'_> {
    pub(super) fn run(mut self, script: Script) -> Answer {
        let ran = match script {
            Script::Acquire => self.acquire(),
            Script::Confirm => self.confirm(),
            Script::Extend => self.extend(),
            Script::Replace => self.replace(),
            Script::Release => self.release(),
            Script::Establish => self.establish(),
        };
        ran.unwrap_or_else(|Broken(error)| Answer::Error(error))
    }

    fn acquire(&mut self) -> Ran {
        if !self.admitted()? {
            return Ok(Answer::words(["UNADMITTED"]));
        }
        let quarantine = self.store.pttl(&self.keys[3], self.now);
        if quarantine != -2 {
            return Ok(Answer::words(["QUARANTINED", &quarantine.to_string()]));
        }
        let (Some(ttl), Some(hint), Some(retention)) = (self.number(2), self.number(3), self.number(4)) else {
            return Ok(Answer::Error("ERR acquire: not a number".to_owned()));
        };
        let fence = self.fence()?;
        if let Some(holder) = self.holder()? {
            return Ok(if holder == self.arguments[1] {
                Answer::words(["GRANTED", &whole(fence?)])
            } else {
                Answer::words(["HELD", &self.store.pttl(&self.keys[0], self.now).to_string()])
            });
        }
        let number = hint.max(fence? + 1.0);
        if number > LARGEST_FENCE {
            return Ok(Answer::Error("ERR acquire: the fence is used up".to_owned()));
        }
        if number > LARGEST {
            return Ok(Answer::Error("ERR acquire: the fence is used up".to_owned()));
        }
        let number = whole(if self.flaw == Some(Flaw::RepeatsFences) { 1.0 } else { number });
        self.set(1, number.as_bytes(), retention)?;
        let owner = self.arguments[1].clone();
        self.set(0, &owner, ttl)?;
        Ok(Answer::words(["GRANTED", &number]))
    }

    fn confirm(&mut self) -> Ran {
        if !self.admitted()? {
            return Ok(Answer::words(["UNADMITTED"]));
        }
        let (Some(number), Some(retention)) = (self.number(2), self.number(3)) else {
            return Ok(Answer::Error("ERR confirm: not a number".to_owned()));
        };
        let fence = self.fence()?;
        if self.holder()?.as_ref() != Some(&self.arguments[1]) || fence.as_ref().is_ok_and(|fence| *fence > number) {
            return Ok(Answer::words(["REFUSED", &whole(fence?)]));
        }
        fence?;
        self.set(1, whole(number).as_bytes(), retention)?;
        Ok(Answer::words(["CONFIRMED"]))
    }

    fn extend(&mut self) -> Ran {
        if !self.admitted()? {
            return Ok(Answer::words(["UNADMITTED"]));
        }
        let Some(ttl) = self.number(2) else {
            return Ok(Answer::Error("ERR extend: not a number".to_owned()));
        };
        if self.holder()?.as_ref() != Some(&self.arguments[1]) {
            return Ok(Answer::words(["GONE"]));
        }
        if as_float(self.store.pttl(&self.keys[0], self.now)) < ttl {
            let Some(ttl) = integer(ttl) else { return Err(Broken(NOT_AN_INTEGER.to_owned())) };
            self.store.expire(&self.keys[0], self.now + ttl, self.now);
        }
        Ok(Answer::words(["KEPT"]))
    }

    fn replace(&mut self) -> Ran {
        if !self.admitted()? {
            return Ok(Answer::words(["UNADMITTED"]));
        }
        let (Some(ttl), Some(number), Some(retention)) = (self.number(2), self.number(3), self.number(4)) else {
            return Ok(Answer::Error("ERR replace: not a number".to_owned()));
        };
        if let Some(holder) = self.holder()? {
            return Ok(Answer::words([if holder == self.arguments[1] { "KEPT" } else { "GONE" }]));
        }
        let fence = self.fence()??;
        self.set(1, whole(fence.max(number)).as_bytes(), retention)?;
        let owner = self.arguments[1].clone();
        self.set(0, &owner, ttl)?;
        Ok(Answer::words(["KEPT"]))
    }

    fn release(&mut self) -> Ran {
        if !self.admitted()? {
            return Ok(Answer::words(["UNADMITTED"]));
        }
        let holder = self.holder()?;
        let anyone = self.flaw == Some(Flaw::ReleasesForAnyone) && holder.is_some();
        if holder.as_ref() != Some(&self.arguments[1]) && !anyone {
            return Ok(Answer::words(["NOT_OWNER"]));
        }
        if self.flaw != Some(Flaw::IgnoresReleases) {
            self.store.delete(&self.keys[0], self.now);
        }
        if self.flaw == Some(Flaw::ForgetsFences) {
            self.store.delete(&self.keys[1], self.now);
        }
        Ok(Answer::words(["RELEASED"]))
    }

    fn establish(&mut self) -> Ran {
        let Some(quarantine) = self.number(7) else {
            return Ok(Answer::Error("ERR establish: not a number".to_owned()));
        };
        let epoch = self.store.field(&self.keys[0], b"epoch", self.now)?.unwrap_or_default();
        if epoch != self.arguments[0] {
            return Ok(Answer::words(["CHANGED"]));
        }
        if quarantine > 0.0 && self.flaw != Some(Flaw::VotesAfterForgetting) {
            self.set(1, b"1", quarantine)?;
        }
        let names = ["run_id", "epoch", "format", "nodes", "max_ttl", "set_name"];
        let fields = names.iter().map(|name| name.as_bytes().to_vec()).zip(self.arguments[1..7].iter().cloned());
        self.store.set_fields(&self.keys[0], fields, self.now)?;
        Ok(Answer::words(["ESTABLISHED"]))
    }

    /// Whether the server is in the epoch in which the caller was admitted.
    fn admitted(&mut self) -> Result<bool, Broken> {
        Ok(self.store.field(&self.keys[2], b"epoch", self.now)? == Some(&self.arguments[0]))
    }

    fn holder(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        Ok(self.store.get(&self.keys[0], self.now)?.map(<[u8]>::to_vec))
    }

    /// The fencing number. What is in the key need not be one; that shows when it is used.
    fn fence(&mut self) -> Result<Result<f64, Broken>, Broken> {
        let text = self.store.get(&self.keys[1], self.now)?.unwrap_or(b"0");
        Ok(parse(text).ok_or_else(|| Broken("ERR not a number".to_owned())))
    }

    fn number(&self, argument: usize) -> Option<f64> {
        parse(&self.arguments[argument])
    }

    /// `SET key text PX life`.
    fn set(&mut self, key: usize, text: &[u8], life: f64) -> Result<(), Broken> {
        let life = integer(life).ok_or_else(|| Broken(NOT_AN_INTEGER.to_owned()))?;
        if life <= 0 {
            return Err(Broken("ERR invalid expire time in 'set' command".to_owned()));
        }
        self.store.set(&self.keys[key], text, Some(self.now + life));
        Ok(())
    }
}

const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
/// The largest fencing number: up to here, each whole number has a float of its own.
const LARGEST: f64 = 9_007_199_254_740_991.0;

/// Lua's `tonumber`, for the numbers that are ever sent.
fn parse(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let plain = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e'));
    if plain { text.parse().ok() } else { None }
}

/// Lua's `string.format('%.0f')`.
fn whole(number: f64) -> String {
    format!("{number:.0}")
}

/// How a number of Lua reaches a command that wants an integer.
fn integer(number: f64) -> Option<i64> {
    if number.fract() == 0.0 && number.abs() <= LARGEST { whole(number).parse().ok() } else { None }
}

fn as_float(number: i64) -> f64 {
    // Times to live are far below 2^53.
    #[expect(clippy::cast_precision_loss, reason = "see above")]
    {
        number as f64
    }
}
