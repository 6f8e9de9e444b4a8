use std::{ops::RangeInclusive, time::Duration};

use super::{LockStore, Mode, RunError};
use crate::shop::Database;

/// The configuration of [`run`](crate::run). [`Config::default`] gives the table of the README.
#[derive(Debug, Clone)]
pub struct Config {
    /// Units in stock at the start of each mode. Defaults to 100. The range is [`Config::STOCK`].
    pub stock: u32,
    /// Buyers, of one unit each. Defaults to 300. The range is [`Config::BUYERS`].
    pub buyers: u32,
    /// Instances of the service. Defaults to 3. The range is [`Config::INSTANCES`].
    pub instances: u32,
    /// Buyers that are active at the same time, at least 1. Defaults to 60.
    pub concurrency: usize,
    /// How long the simulated payment takes, at most 100 ms: a fraction of the shortest TTL.
    /// Defaults to 15 ms.
    pub payment: Duration,
    /// Where the locks are kept. Defaults to five masters in memory.
    pub locks: LockStore,
    /// Prefix of the keys of the locks. Defaults to `inventory:`. All clients that share masters and
    /// prefix must be configured with the same set of masters.
    pub prefix: String,
    /// The database. Defaults to none, which means a temporary SQLite file.
    pub database: Option<Database>,
    /// The modes to run, in this order. Defaults to [`Mode::ALL`].
    pub modes: Vec<Mode>,
}

impl Config {
    /// The valid range of [`Config::stock`].
    pub const STOCK: RangeInclusive<u32> = 1..=10_000;
    /// The valid range of [`Config::buyers`].
    pub const BUYERS: RangeInclusive<u32> = 1..=10_000;
    /// The valid range of [`Config::instances`]. Each instance is a thread.
    pub const INSTANCES: RangeInclusive<u32> = 1..=16;

    const MAX_PAYMENT: Duration = Duration::from_millis(100);

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
            return Err(RunError::Config("concurrency must be at least 1, not 0".to_owned()));
        }
        if self.payment > Self::MAX_PAYMENT {
            let (max, value) = (Self::MAX_PAYMENT, self.payment);
            return Err(RunError::Config(format!("payment must be at most {max:?}, not {value:?}")));
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
            locks: LockStore::default(),
            prefix: "inventory:".to_owned(),
            database: None,
            modes: Mode::ALL.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_value_that_is_out_of_range() {
        let no_stock = Config { stock: 0, ..Config::default() };
        let error = no_stock.check().unwrap_err();
        assert_eq!(error.to_string(), "stock must be 1 to 10000, not 0");
        assert!(Config::default().check().is_ok());
    }
}
