//! The proof: what only the demonstration needs, and a service does not.
//!
//! It runs the shop in several [`Mode`]s, with and without the lock and the fence, and counts what
//! was sold. The shop knows nothing of it.
//!
//! | file | what it is |
//! |---|---|
//! | `scenario` | a run: for each mode, start the instances, send the buyers, count the orders |
//! | `config`, `error`, `mode` | what to run, what can go wrong, the rows of the table |
//! | `variants` | the handler of each mode |
//! | `instance` | one instance of the shop, on its own thread |
//! | `masters` | the lock masters that all instances share |
//! | `pauses` | holders that stop for longer than their lease |
//! | `load`, `client` | the buyers, and their HTTP requests |
//! | `ledger` | what the database says at the end |
//! | `report`, `table` | the results, for programs and for people |
//! | `trial` | the handlers in a trial: which schedule oversells which |
//! | `signals` | Ctrl-C and SIGTERM |

mod client;
mod config;
mod error;
mod instance;
mod ledger;
mod load;
mod masters;
mod mode;
mod pauses;
mod report;
mod scenario;
mod signals;
mod table;
mod trial;
mod variants;

pub use config::Config;
pub use error::RunError;
pub(crate) use instance::{ANY_PORT, Blueprint, Instance};
pub(crate) use load::{Load, drive};
pub use masters::LockStore;
pub(crate) use masters::Masters;
pub use mode::Mode;
pub use report::{Answers, Report, Row};
pub use scenario::{Progress, run};
pub use signals::{Signal, SignalWatcher};
pub use trial::{TrialReport, TrialRow, try_out};
pub(crate) use variants::overwrite;
