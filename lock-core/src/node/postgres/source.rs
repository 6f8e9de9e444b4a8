//! Where connections come from: an address, or a factory of its user's.

use std::error::Error;
use std::sync::Arc;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConfig;

use super::address::Address;
use super::connect::reach;
use crate::node::credentials::{CredentialsProvider, Login, answer_of};
use crate::node::tcp::Io;
use crate::node::{InvalidCredentials, InvalidUrl, NodeError, NodeFuture};

/// A configuration, and a stream on which nothing was said yet; or why there is none.
type Dialed = NodeFuture<Result<(Config, Box<dyn Io>), String>>;

/// What the connections of a node come from, and how they log in.
#[derive(Clone)]
pub(super) struct Source {
    /// The name of the server, for people.
    pub(super) name: String,
    pub(super) login: Login,
    dial: Dial,
}

#[derive(Clone)]
enum Dial {
    Address(Box<Address>),
    Factory(Arc<dyn Fn() -> Dialed + Send + Sync>),
}

impl Source {
    pub(super) fn from_url(url: &str) -> Result<Self, InvalidUrl> {
        let address = Address::parse(url)?;
        Ok(Self { name: address.name(), login: Login::default(), dial: Dial::Address(Box::new(address)) })
    }

    pub(super) fn from_factory<F, Fut, S, E>(name: String, factory: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(Config, S), E>> + Send + 'static,
        S: Io,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let factory = Arc::new(factory);
        let dial = move || -> Dialed {
            let factory = Arc::clone(&factory);
            Box::pin(async move {
                let (mut config, stream) = answer_of("the factory of connections", &*factory).await?;
                // What the factory returns is secure already, if it is to be.
                config.ssl_mode(SslMode::Disable);
                Ok((config, Box::new(stream) as Box<dyn Io>))
            })
        };
        Self { name, login: Login::default(), dial: Dial::Factory(Arc::new(dial)) }
    }

    /// Logs in with what a provider gives, unless the address or a factory says how.
    pub(super) fn log_in_by(&mut self, provider: CredentialsProvider) -> Result<(), InvalidCredentials> {
        let has_login = match &self.dial {
            Dial::Address(address) => Some(address.has_login()),
            Dial::Factory(_) => None,
        };
        self.login = Login::by(provider, &self.name, has_login)?;
        Ok(())
    }

    /// Secures the connections by another configuration of TLS. False if they are not to be secure.
    #[cfg(feature = "tls")]
    pub(super) fn set_tls(&mut self, config: &Arc<ClientConfig>) -> bool {
        let Dial::Address(address) = &mut self.dial else { return false };
        address.tls.as_mut().map(|tls| tls.set_config(config)).is_some()
    }

    /// Opens a stream. Nothing is said on it yet.
    pub(super) async fn dial(&self) -> Result<(Config, Box<dyn Io>), NodeError> {
        match &self.dial {
            Dial::Address(address) => Ok((address.config.clone(), reach(address).await?)),
            Dial::Factory(dial) => dial().await.map_err(|reason| NodeError::Unreachable { reason }),
        }
    }
}
