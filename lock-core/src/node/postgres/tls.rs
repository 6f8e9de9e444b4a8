//! TLS, which a client asks for before it logs in.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_postgres::config::Host;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::classify::io_error;
use super::connect::Io;
use crate::node::tls::shake_hands;
use crate::node::{NodeError, Refusal};

/// `SSLRequest`: its length, and its number.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// How to secure the connections to a server.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    pub(super) fn new(host: &Host, config: Arc<ClientConfig>) -> Result<Self, String> {
        let Host::Tcp(host) = host else { return Err("TLS is not for sockets; leave sslmode out".into()) };
        let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
        Ok(Self { connector: TlsConnector::from(config), name })
    }

    /// Asks the server for TLS, and shakes hands.
    pub(super) async fn secure(&self, mut stream: Box<dyn Io>) -> Result<TlsStream<Box<dyn Io>>, NodeError> {
        stream.write_all(&SSL_REQUEST).await.map_err(|error| io_error(&error))?;
        // One byte, and no more: what follows it unencrypted may be from anybody.
        match stream.read_u8().await.map_err(|error| io_error(&error))? {
            b'S' => shake_hands(&self.connector, self.name.clone(), stream).await,
            _ => {
                let detail =
                    "the server does not speak TLS; set ssl = on there, or connect without it over a private network";
                Err(Refusal::Tls { detail: detail.into() }.into())
            }
        }
    }
}
