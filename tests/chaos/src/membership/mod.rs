//! Chaos about who the masters are: they are replaced one after another, come back from backups and standbys, change
//! their durability, and have wrong clocks, all under load.
//!
//! | file | |
//! |---|---|
//! | `master` | a redis-server with files and a clock of its own |
//! | `fleet` | the services, which are deployed with one list of masters after another |
//! | `observer`, `arena` | a client that tells which masters vote; everything that the nemesis acts on |
//! | `faults`, `clock_steps` | what is done to one master, until it votes again |
//! | `forming` | a set that is formed again, beside a service that was forgotten |
//! | `nemesis` | what is done at a time, so that the promises must hold |
//! | `availability`, `report`, `run` | whether locks could be acquired all the time, the report, and a run |

mod arena;
mod availability;
mod clock_steps;
mod faults;
mod fleet;
mod forming;
mod master;
mod nemesis;
mod observer;
mod report;
mod run;

pub use self::report::MembershipReport;
pub use self::run::run;
