//! What stands for PostgreSQL in a build without the feature `postgres`: types that have no values.

use std::{convert::Infallible, str::FromStr};

use lock_axum::{Lease, fence::StaleToken};
use tokio::runtime::Handle;

pub(crate) trait Value {}

impl<T> Value for T {}

pub(super) type Parameter<'a> = &'a dyn Value;

/// Never made: there are no connections that could fail.
#[derive(Debug, thiserror::Error)]
#[error("this build has no PostgreSQL")]
pub(crate) struct Error;

/// Parses no URL: this build has no client for PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Address {}

impl FromStr for Address {
    type Err = String;

    fn from_str(_: &str) -> Result<Self, String> {
        Err("this build has no PostgreSQL; run it with `--features postgres`".to_owned())
    }
}

#[derive(Debug)]
pub(super) enum Connection {}

impl Connection {
    pub(super) fn open(address: Address, _: Handle) -> Result<Self, Error> {
        match address {}
    }

    pub(super) fn begin(&mut self) -> Result<Transaction<'_>, Error> {
        match *self {}
    }
}

pub(crate) struct Transaction<'a>(&'a Infallible);

impl Transaction<'_> {
    pub(super) fn claim(&self, _: &Lease) -> Result<Result<(), StaleToken>, Error> {
        match *self.0 {}
    }

    pub(super) fn execute(&self, _: &str, _: &[Parameter<'_>]) -> Result<u64, Error> {
        match *self.0 {}
    }

    pub(super) fn numbers<const N: usize>(&self, _: &str, _: &[Parameter<'_>]) -> Result<Option<[i64; N]>, Error> {
        match *self.0 {}
    }

    pub(super) fn create(&self, _: &[&str], _: &str) -> Result<(), Error> {
        match *self.0 {}
    }

    pub(super) fn commit(self) -> Result<(), Error> {
        match *self.0 {}
    }
}
