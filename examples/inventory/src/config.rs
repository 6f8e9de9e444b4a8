use std::{io, net::SocketAddr, ops::RangeInclusive, time::Duration};

use lock_axum::ConnectError;

use crate::{Mode, problem::ShopError};

/// What [`run`](crate::run) does. Starts from [`Config::default`], the table of the README.
#[derive(Debug, Clone)]
pub struct Config {
    /// Units on stock at the start of each mode. Defaults to 100; see [`Config::STOCK`].
    pub stock: u32,
    /// Buyers of one unit each. Defaults to 300; see [`Config::BUYERS`].
    pub buyers: u32,
    /// Instances of the service. Defaults to 3; see [`Config::INSTANCES`].
    pub instances: u32,
    /// How many buyers are at it at the same time. Defaults to 60; at least 1.
    pub concurrency: usize,
    /// How long the simulated payment takes. Defaults to 15 ms; at most 100 ms, a fraction of the
    /// shortest TTL.
    pub payment: Duration,
    /// URLs of Redis masters. Defaults to none: five masters in memory.
    pub redis: Vec<String>,
    /// Prefix of the keys on Redis. Defaults to `inventory:`. Every client that shares masters and
    /// prefix must be configured for the same set of masters.
    pub prefix: String,
    /// The modes to run, in this order. Defaults to [`Mode::ALL`].
    pub modes: Vec<Mode>,
}

impl Config {
    /// The valid range of [`Config::stock`].
    pub const STOCK: RangeInclusive<u32> = 1..=10_000;
    /// The valid range of [`Config::buyers`].
    pub const BUYERS: RangeInclusive<u32> = 1..=10_000;
    /// The valid range of [`Config::instances`]. Each one is a thread.
    pub const INSTANCES: RangeInclusive<u32> = 1..=16;

    const LONGEST_PAYMENT: Duration = Duration::from_millis(100);

    pub(crate) fn check(&self) -> Result<(), RunError> {
        let within = |name, value, range: RangeInclusive<u32>| {
            if range.contains(&value) {
                return Ok(());
            }
            let (from, to) = range.into_inner();
            Err(RunError::Config(format!("{name} must be {from} to {to}, not {value}")))
        };
        within("stock", self.stock, Self::STOCK)?;
        within("buyers", self.buyers, Self::BUYERS)?;
        within("instances", self.instances, Self::INSTANCES)?;
        if self.concurrency == 0 {
            return Err(RunError::Config("concurrency must be at least 1".into()));
        }
        if self.payment > Self::LONGEST_PAYMENT {
            return Err(RunError::Config(format!(
                "a payment takes at most {:?}, not {:?}",
                Self::LONGEST_PAYMENT,
                self.payment
            )));
        }
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            stock: 100,
            buyers: 300,
            instances: 3,
            concurrency: 60,
            payment: Duration::from_millis(15),
            redis: Vec::new(),
            prefix: "inventory:".to_owned(),
            modes: Mode::ALL.to_vec(),
        }
    }
}

/// Why a run or a service could not be carried out. That a mode oversold is no error: it is in the
/// [`Report`](crate::Report).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A value of the configuration is out of its range.
    #[error("{0}")]
    Config(String),
    /// The lock masters refused the configuration, or too few of them are reachable.
    #[error("cannot connect to the lock masters")]
    Connect(#[source] ConnectError),
    /// The masters are reachable, and too few of them grant locks.
    #[error("too few lock masters grant locks: {0}")]
    NoQuorum(String),
    /// The database cannot be created, opened or read.
    #[error("the database failed")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A thread or a runtime cannot be had, or the server failed.
    #[error("an instance of the service failed")]
    Instance(#[source] io::Error),
    /// An instance did not start or stop within its time.
    #[error("an instance of the service did not {0} in time")]
    Timeout(&'static str),
}

impl From<ShopError> for RunError {
    fn from(error: ShopError) -> Self {
        match error {
            ShopError::Database(error) => Self::Database(error.into()),
            ShopError::Thread(error) => Self::Database(error.into()),
            other => Self::Database(other.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_named() {
        let no_stock = Config { stock: 0, ..Config::default() };
        let error = no_stock.check().unwrap_err();
        assert_eq!(error.to_string(), "stock must be 1 to 10000, not 0");
        assert!(Config::default().check().is_ok());
    }
}
