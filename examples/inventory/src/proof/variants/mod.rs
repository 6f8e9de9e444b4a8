//! The ways to sell a unit, one for each mode of the table.
//!
//! | file | what it does | oversells |
//! |---|---|---|
//! | `overwrite` | reads, pays, overwrites the stock | unless it runs alone |
//! | `checked_write` | the same, and the write refuses a token that is older than the last written one | if a holder outlives its lease |
//! | `atomic` | reads, pays, decrements in one SQL statement | never |
//!
//! The fourth is the shop's own [`Shop::purchase`](crate::shop::Shop::purchase), which claims the
//! fence. It never oversells either.

mod atomic;
mod checked_write;
pub(crate) mod overwrite;
mod routes;

pub(crate) use routes::router;
