//! What the environment says to the service.

use std::{env, ffi::OsString};

use lock_axum::{LockManager, LockManagerBuilder};

pub(crate) const HELP: &str = "\
The smallest useful service with a distributed lock: POST /stock/{sku}/deduct

Usage: quickstart        it takes no arguments, and its settings from the environment

  PORT=3000              the port on 127.0.0.1, from 0 to 65535; 3000 by default, and 0 takes a free one
  LOCK_URLS=..           where the locks are kept; without it, in memory:
      redis://a:6379,redis://b:6379,redis://c:6379
      postgres://user@host/database
      zookeeper://a:2181,b:2181,c:2181/locks
  DASHBOARD_PASSWORD=..  shows the locks to the user admin at /locks; without it, there is no such page
";

const DEFAULT_PORT: u16 = 3000;

/// A variable that the service cannot start with. No value of `LOCK_URLS` is shown, because it may have a password.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidSetting {
    #[error("PORT is {0:?}: give a number from 0 to 65535, as in PORT=8080, or unset it for {default}", default = DEFAULT_PORT)]
    Port(String),
    #[error(
        "LOCK_URLS is empty: name the masters, as in LOCK_URLS=redis://a:6379,redis://b:6379,redis://c:6379, or unset it to keep \
         the locks in memory"
    )]
    NoMasters,
    #[error("LOCK_URLS begins with no known store: name masters as redis://.., postgres://.. or zookeeper://..")]
    UnknownStore,
    #[error("{0} is not UTF-8: write it in UTF-8, or unset it")]
    NotUnicode(&'static str),
}

pub(crate) struct Settings {
    pub(crate) port: u16,
    /// `None` if the locks are kept in memory.
    pub(crate) masters: Option<LockManagerBuilder>,
    pub(crate) dashboard_password: Option<String>,
}

impl Settings {
    pub(crate) fn from_env() -> Result<Self, InvalidSetting> {
        Self::read(|name| env::var_os(name))
    }

    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, InvalidSetting> {
        let text = |name: &'static str| {
            let value = variable(name).map(OsString::into_string).transpose();
            value.map_err(|_| InvalidSetting::NotUnicode(name))
        };
        let port: u16 = match text("PORT")? {
            Some(port) => port.parse().map_err(|_| InvalidSetting::Port(port))?,
            None => DEFAULT_PORT,
        };
        let masters = text("LOCK_URLS")?.map(|urls| masters(&urls)).transpose()?;
        let dashboard_password = text("DASHBOARD_PASSWORD")?.filter(|password| !password.is_empty());
        Ok(Self { port, masters, dashboard_password })
    }
}

/// Where the locks are kept: on the masters that these URLs name, or in one ensemble.
fn masters(urls: &str) -> Result<LockManagerBuilder, InvalidSetting> {
    match urls.split_once("://") {
        Some(("zookeeper", ensemble)) => Ok(LockManager::builder().zookeeper(ensemble)),
        Some(("redis" | "rediss" | "postgres" | "postgresql", _)) => {
            let (postgres, redis): (Vec<&str>, Vec<&str>) =
                urls.split(',').partition(|url| url.starts_with("postgres"));
            Ok(LockManager::builder().redis(redis).postgres(postgres))
        }
        _ if urls.trim().is_empty() => Err(InvalidSetting::NoMasters),
        _ => Err(InvalidSetting::UnknownStore),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings when one variable has this value.
    fn with(name: &str, value: &str) -> Result<Settings, InvalidSetting> {
        Settings::read(|wanted| (wanted == name).then(|| value.into()))
    }

    fn error(name: &str, value: &str) -> InvalidSetting {
        with(name, value).err().unwrap_or_else(|| panic!("{name}={value} is accepted"))
    }

    #[test]
    fn nothing_has_to_be_set() -> Result<(), InvalidSetting> {
        let settings = Settings::read(|_| None)?;
        assert_eq!((settings.port, settings.dashboard_password), (3000, None));
        assert!(settings.masters.is_none(), "the locks are kept in memory");
        Ok(())
    }

    #[test]
    fn the_port_is_a_number_from_0_to_65535() -> Result<(), InvalidSetting> {
        assert_eq!(with("PORT", "8080")?.port, 8080);
        for value in ["", "-1", "65536", "80a", " 80"] {
            assert_eq!(error("PORT", value), InvalidSetting::Port(value.to_owned()));
        }
        let message = error("PORT", "http").to_string();
        assert_eq!(message, "PORT is \"http\": give a number from 0 to 65535, as in PORT=8080, or unset it for 3000");
        Ok(())
    }

    #[test]
    fn masters_that_are_not_named_are_not_taken_for_locks_in_memory() -> Result<(), InvalidSetting> {
        for value in ["", " "] {
            assert_eq!(error("LOCK_URLS", value), InvalidSetting::NoMasters);
        }
        assert_eq!(error("LOCK_URLS", "10.0.0.1:6379"), InvalidSetting::UnknownStore);
        let password = "mysql://app:secret@10.0.0.1";
        assert!(!error("LOCK_URLS", password).to_string().contains("secret"));
        for urls in ["redis://a,rediss://b,postgres://c/d", "postgresql://a/b", "zookeeper://a,b,c/locks"] {
            assert!(with("LOCK_URLS", urls)?.masters.is_some());
        }
        Ok(())
    }

    #[test]
    fn an_empty_password_is_no_password() -> Result<(), InvalidSetting> {
        assert_eq!(with("DASHBOARD_PASSWORD", "")?.dashboard_password, None);
        Ok(())
    }
}
