//! TLS over the engine's own TCP stream: it is configured as without TLS, and redis-rs still writes to it in place.

use std::error::Error;
use std::sync::Arc;

use redis::{AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, RedisConnectionInfo, RedisError, RedisResult};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig};

use super::classify::{connect_error, login_error};
use super::connect::{Connected, lacks_resp3, older, over, settings, tcp};
use crate::node::NodeError;
use crate::node::tls::{cause_in, refusal, shake_hands};

/// A server that is connected to over TLS.
#[derive(Clone)]
pub(super) struct TlsServer {
    info: ConnectionInfo,
    host: String,
    port: u16,
    name: ServerName<'static>,
    connector: TlsConnector,
}

impl TlsServer {
    pub(super) fn new(info: ConnectionInfo, config: Arc<ClientConfig>) -> Result<Self, String> {
        let ConnectionAddr::Tcp(host, port) = info.addr() else { return Err("expected a host".into()) };
        let (host, port) = (host.clone(), *port);
        let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
        Ok(Self { info, host, port, name, connector: TlsConnector::from(config) })
    }

    /// The same login, database and trust, on another host.
    pub(super) fn at(&self, host: &str, port: u16) -> Result<Self, String> {
        let info = self.info.clone().set_addr(ConnectionAddr::Tcp(host.to_owned(), port));
        Self::new(info, Arc::clone(self.connector.config()))
    }

    /// Connects to the server: in RESP3, if it speaks that.
    pub(super) async fn connect(&self, config: AsyncConnectionConfig) -> Result<Connected, NodeError> {
        let login = self.info.redis_settings();
        let connected = match self.connect_by(login, config).await? {
            Err(error) if lacks_resp3(&error) => self.connect_by(&older(login), settings()).await?,
            connected => connected,
        };
        // With TLS 1.3, this is where a client learns that the server does not accept its certificate.
        connected.map_err(|error| match tls_cause(&error) {
            Some(cause) => refusal(cause),
            None => login_error(&error),
        })
    }

    async fn connect_by(
        &self,
        login: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> Result<RedisResult<Connected>, NodeError> {
        let stream = tcp(&self.host, self.port).await.map_err(|error| connect_error(&error.into()))?;
        let stream = shake_hands(&self.connector, self.name.clone(), stream).await?;
        Ok(over(stream, login, config).await)
    }
}

/// What went wrong in TLS, if that is why redis-rs failed.
fn tls_cause(error: &RedisError) -> Option<&rustls::Error> {
    let source = error.source()?;
    let source = source.downcast_ref::<Arc<dyn Error + Send + Sync>>().map_or(source, |shared| &**shared);
    cause_in(source.downcast_ref()?)
}
