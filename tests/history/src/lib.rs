//! What happened to a lock, and whether that breaks a promise.

mod referee;

pub use self::referee::Referee;
