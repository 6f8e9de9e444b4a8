//! The shop as a service with several instances, and its page: what the lock does, live, and buttons that break it.
//!
//! | file | what it is |
//! |---|---|
//! | `serve` | starts the instances and the public listener, and stops them |
//! | `front` | the routes of the public listener: page, events, controls, and the shop |
//! | `proxy` | sends the requests for the shop to the instances in turn |
//! | `sales` | the handlers of an instance, which follow the switches |
//! | `instances` | freezes, kills and starts instances |
//! | `switches`, `payment` | what the buttons set, and the payments that stop for longer than a lease |
//! | `board`, `visit`, `feed`, `lanes` | who holds and who waits, what happened, and when: told by the handlers |
//! | `books` | what the database says |
//! | `masters` | the state of the masters, and their faults |
//! | `rush` | the buyers |
//! | `live` | all of it as server-sent events |
//! | `metrics` | `/metrics`, for Prometheus, with the feature `metrics` |
//! | `controls`, `access` | the buttons, and who may press them |
//! | `page.html` | the page itself, in one file |

mod access;
mod board;
mod books;
mod controls;
mod feed;
mod front;
mod instances;
mod lanes;
mod live;
mod masters;
#[cfg_attr(not(feature = "metrics"), path = "without_metrics.rs")]
mod metrics;
mod payment;
mod proxy;
mod rush;
mod sales;
mod serve;
mod switches;
mod visit;

pub use metrics::{Metrics, install_recorder};
pub use serve::{ServeConfig, serve};
