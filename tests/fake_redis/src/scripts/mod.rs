//! Lua scripts, run as a client sends them: `script` (a source and its hash),
//! `interpreter` (the Lua environment of a Redis script), `convert` (values between Lua and the protocol).

mod convert;
mod interpreter;
mod script;

pub(super) use self::script::Script;
