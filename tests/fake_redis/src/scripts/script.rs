use super::interpreter;
use crate::database::Database;
use crate::flaw::Flaw;
use crate::resp::Reply;

/// A script that a server knows.
#[derive(Debug)]
pub(crate) struct Script {
    /// The SHA-1 of the source as it was sent, in hexadecimal: its name in `EVALSHA`.
    pub(crate) hash: String,
    /// What is run: the source, changed if the server has a flaw that is in this script.
    pub(super) code: String,
    /// The SHA-1 of `code`.
    pub(super) code_hash: String,
    /// The patterns of the flaw that it contains.
    pub(crate) flaws: Vec<&'static str>,
}

impl Script {
    /// Compiles a source.
    ///
    /// # Errors
    ///
    /// The reply to a source that is not Lua.
    pub(crate) fn new(source: &[u8], flaw: Option<Flaw>) -> Result<Self, Reply> {
        let source = std::str::from_utf8(source).map_err(|_| Reply::error("ERR the script is not UTF-8"))?;
        let (code, flaws) = flaw.map_or_else(|| (source.to_owned(), Vec::new()), |flaw| flaw.apply(source));
        let hash = |source: &str| redis::Script::new(source).get_hash().to_owned();
        let script = Self { hash: hash(source), code_hash: hash(&code), code, flaws };
        interpreter::compile(&script)?;
        Ok(script)
    }

    /// Runs the script. As in Redis, it is atomic, and the clock stands still while it runs: at
    /// `now`, in microseconds.
    pub(crate) fn run(&self, keys: &[Vec<u8>], arguments: &[Vec<u8>], database: &mut Database, now: i64) -> Reply {
        interpreter::run(self, keys, arguments, database, now)
    }
}
