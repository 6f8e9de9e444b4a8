use redis::{AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, FromRedisValue, Value};

use super::address::Address;
use super::classify::{connect_error, login_error, node_error};
use super::connect::{Connected, connect, expects_tls};
#[cfg(feature = "tls")]
use super::tls::TlsServer;
#[cfg(feature = "tls")]
use crate::node::tls::default_config;
use crate::node::{InvalidUrl, NodeError, Refusal};

/// A server of a URL: where it is, and how to log in, with or without TLS.
#[derive(Clone)]
pub(super) enum Server {
    Plain(ConnectionInfo),
    #[cfg(feature = "tls")]
    Tls(TlsServer),
}

impl Server {
    /// The server at an address. The errors name this URL.
    pub(super) fn new(address: Address, url: &str) -> Result<Self, InvalidUrl> {
        #[cfg(feature = "tls")]
        if address.uses_tls {
            let server = default_config().and_then(|config| TlsServer::new(address.info, config));
            return server.map(Self::Tls).map_err(|reason| InvalidUrl::new(url, reason));
        }
        _ = url;
        Ok(Self::Plain(address.info))
    }

    /// The same login and database, on another host.
    pub(super) fn at(&self, host: &str, port: u16) -> Result<Self, NodeError> {
        match self {
            Self::Plain(info) => Ok(Self::Plain(info.clone().set_addr(ConnectionAddr::Tcp(host.to_owned(), port)))),
            #[cfg(feature = "tls")]
            Self::Tls(server) => {
                server.at(host, port).map(Self::Tls).map_err(|reason| NodeError::Unreachable { reason })
            }
        }
    }

    /// Connects and logs in, by a configuration that is for one connection.
    pub(super) async fn connect(&self, config: AsyncConnectionConfig) -> Result<Connected, NodeError> {
        match self {
            Self::Plain(info) => match connect(info, config).await {
                Ok(connected) => Ok(connected),
                Err(error) if error.is_connection_dropped() && expects_tls(info).await => {
                    let detail = "the server expects TLS at this port; write rediss:// for redis://".into();
                    Err(Refusal::Tls { detail }.into())
                }
                Err(error) => Err(login_error(&error)),
            },
            #[cfg(feature = "tls")]
            Self::Tls(server) => server.connect(config).await,
        }
    }
}

impl Connected {
    /// Sends a command and waits for its answer, before anybody else uses the connection.
    pub(super) async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, NodeError> {
        let answer = tokio::select! {
            biased;
            answer = self.connection.send_packed_command(command) => answer.map_err(|error| connect_error(&error))?,
            () = &mut self.driver => return Err(NodeError::Unreachable { reason: "connection lost".into() }),
        };
        match answer {
            Value::ServerError(error) => Err(node_error(&error.into())),
            answer => redis::from_redis_value(answer).map_err(|error| NodeError::Protocol { reply: error.to_string() }),
        }
    }
}
