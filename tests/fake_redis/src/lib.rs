//! A simulated Redis server: the commands that locks need, on a clock that the simulation sets, with faults that a test
//! injects. Lua scripts run as they are sent. A differential test compares its replies with those of a real `redis-server`.
//!
//! From the bottom up: `clock` (the server's wall clock), `double` (numbers with a fraction), `store` (keys that expire),
//! `database` (the commands on keys, for connections and scripts), `declarations` (which keys scripts may use),
//! `sorted_sets` (those on sorted sets), `scripts` (Lua),
//! `commands` (all other commands of a connection), `slots` (a server of a cluster), `channels` (publish and subscribe), `resp` (the protocol), `server` (the
//! server and its connections), `faults` (what a test can do to it), `flaw` (scripts that are wrong on purpose).

mod channels;
mod clock;
mod commands;
mod database;
mod declarations;
mod double;
mod faults;
mod flaw;
mod resp;
mod scripts;
mod server;
mod slots;
mod sorted_sets;
mod store;

pub use self::clock::NodeClock;
pub use self::faults::Memory;
pub use self::flaw::Flaw;
pub use self::server::FakeRedis;
