//! A page that shows the locks of this process, live.
//!
//! | file | what it is |
//! |---|---|
//! | `dashboard` | the routes, and the page itself |
//! | `events` | the open pages, and what they are sent |
//! | `board` | what is held and waited for |
//! | `masters` | the state of the masters, while somebody looks |
//! | `hosts` | under which names the page may be asked for |
//! | `place` | the process and the machine whose locks these are |
//! | `control` | the button of a row, and whom it obeys |
//! | `page.html` | the page, in one file |

mod board;
mod control;
mod dashboard;
mod events;
mod hosts;
mod masters;
mod place;
mod shown;

pub use self::dashboard::{Dashboard, dashboard};
pub use self::hosts::InvalidHost;
