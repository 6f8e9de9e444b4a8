//! Where connections come from: an address, or a factory of its user's.

use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConfig;

use super::address::Address;
use super::connect::reach;
use crate::node::credentials::with_causes;
use crate::node::tcp::Io;
use crate::node::{Credentials, NodeError};

type BoxError = Box<dyn Error + Send + Sync>;
type Dialed = BoxFuture<'static, Result<(Config, Box<dyn Io>), BoxError>>;

/// Where the connections of a node come from.
#[derive(Clone)]
pub(super) enum Source {
    Address(Box<Address>),
    Factory(Factory),
}

/// Opens a stream to a server, and says who logs in over it.
#[derive(Clone)]
pub(super) struct Factory {
    name: String,
    dial: Arc<dyn Fn() -> Dialed + Send + Sync>,
}

impl Factory {
    pub(super) fn new<F, Fut, S, E>(name: String, factory: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(Config, S), E>> + Send + 'static,
        S: Io,
        E: Into<BoxError>,
    {
        let factory = Arc::new(factory);
        let dial = move || {
            let factory = Arc::clone(&factory);
            // Called inside of the future, where a panic is caught.
            let dialed = async move {
                let (mut config, stream) = factory().await.map_err(Into::into)?;
                // What the factory returns is secure already, if it is to be.
                config.ssl_mode(SslMode::Disable);
                Ok((config, Box::new(stream) as Box<dyn Io>))
            };
            Box::pin(dialed) as Dialed
        };
        Self { name, dial: Arc::new(dial) }
    }
}

impl Source {
    /// The name of the server, for people.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Address(address) => &address.name,
            Self::Factory(factory) => &factory.name,
        }
    }

    /// Whether it names a login; nothing if a factory does.
    pub(super) fn has_login(&self) -> Option<bool> {
        match self {
            Self::Address(address) => Some(address.has_login()),
            Self::Factory(_) => None,
        }
    }

    /// The same server, with another login.
    pub(super) fn logging_in(&self, credentials: &Credentials) -> Self {
        match self {
            Self::Address(address) => Self::Address(Box::new(address.logging_in(credentials))),
            Self::Factory(factory) => Self::Factory(factory.clone()),
        }
    }

    /// The same server, by another configuration of TLS; nothing if it is not one with TLS.
    #[cfg(feature = "tls")]
    pub(super) fn with_tls(&self, config: &Arc<ClientConfig>) -> Option<Self> {
        let Self::Address(address) = self else { return None };
        let tls = address.tls.as_ref()?.with(config);
        Some(Self::Address(Box::new(Address { tls: Some(tls), ..(**address).clone() })))
    }

    /// Opens a stream. Nothing is said on it yet.
    pub(super) async fn dial(&self) -> Result<(Config, Box<dyn Io>), NodeError> {
        match self {
            Self::Address(address) => Ok((address.config.clone(), reach(address).await?)),
            Self::Factory(factory) => {
                let dialed = AssertUnwindSafe((factory.dial)()).catch_unwind().await;
                let failed = |reason| NodeError::Unreachable { reason };
                dialed
                    .map_err(|_| failed("the factory of connections panicked".into()))?
                    .map_err(|error| failed(format!("the factory of connections failed: {}", with_causes(&*error))))
            }
        }
    }
}
