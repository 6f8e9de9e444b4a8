//! A Redis server in memory: the commands and scripts that locks need, told from the real one only by its clock, which is
//! given to it, and by what a test does to it. A differential test holds its answers to those of a real `redis-server`.
//!
//! From the ground up: `clock` (what time the server believes it is), `store` (keys that expire), `scripts` (the Lua
//! files of lock-core, written anew), `commands` (what a connection can ask), `lists` (and how it waits for an element),
//! `resp` (bytes), `server` (the server, its connections, and what can be done to it), `flaw` (how to break it on purpose).

mod clock;
mod commands;
mod flaw;
mod lists;
mod resp;
mod scripts;
mod server;
mod store;

pub use self::clock::NodeClock;
pub use self::flaw::Flaw;
pub use self::scripts::SCRIPTS;
pub use self::server::{FakeRedis, Memory};
