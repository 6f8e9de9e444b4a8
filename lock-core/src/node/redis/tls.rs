//! TLS over the engine's own TCP stream: it is configured as without TLS, and redis-rs still writes to it in place.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, RedisError};
use rustls_native_certs::load_native_certs;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;

use super::classify::{connect_error, login_error};
use super::connect::{Connected, over, tcp};
use crate::node::{NodeError, Refusal};

/// How long the handshake may take. Shorter than connecting may, so that the error can say what was waited for.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(750);

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

    /// Connects to the server. Cancels `gone` when the connection is lost.
    pub(super) async fn connect(&self, gone: CancellationToken) -> Result<Connected, NodeError> {
        let stream = tcp(&self.host, self.port).await.map_err(|error| connect_error(&error.into()))?;
        let stream = self.shake_hands(stream).await?;
        // With TLS 1.3, this is where a client learns that the server does not accept its certificate.
        over(stream, self.info.redis_settings(), gone).await.map_err(|error| match tls_cause(&error) {
            Some(cause) => refusal(cause),
            None => login_error(&error),
        })
    }

    async fn shake_hands(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, NodeError> {
        match timeout(HANDSHAKE_TIMEOUT, self.connector.connect(self.name.clone(), stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(match cause_in(&error) {
                Some(cause) => refusal(cause),
                None => NodeError::Unreachable { reason: format!("TLS handshake: {error}") },
            }),
            Err(_) => {
                Err(NodeError::Unreachable { reason: "no answer to the TLS handshake; is it a port for TLS?".into() })
            }
        }
    }
}

/// Trusts what the system trusts.
pub(super) fn default_config() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let found = load_native_certs();
    // One certificate that cannot be read is no reason not to use the others.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(format!(
            "the system has no trusted certificates; install them (ca-certificates), name a file in SSL_CERT_FILE, or use \
             RedisNode::from_url_with_tls {reasons:?}"
        ));
    }
    // `ClientConfig::builder` would panic if the process has not chosen between two providers that are built in.
    let provider = CryptoProvider::get_default().map_or_else(|| Arc::new(ring::default_provider()), Arc::clone);
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("the installed rustls CryptoProvider is of no use: {error}"))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// An error that stays until somebody mends a certificate or a setting. Any other may pass.
fn refusal(error: &rustls::Error) -> NodeError {
    let remedy = match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "; add its issuer to the certificates that the system trusts, or use RedisNode::from_url_with_tls"
        }
        rustls::Error::InvalidMessage(_) => "; is it a port for TLS?",
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::HandshakeFailure
            | AlertDescription::UnknownCA
            | AlertDescription::BadCertificate,
        ) => "; the server may want a certificate of the client, see RedisNode::from_url_with_tls",
        rustls::Error::InvalidCertificate(_) => "",
        _ => return NodeError::Unreachable { reason: format!("TLS: {error}") },
    };
    Refusal::Tls { detail: format!("{error}{remedy}") }.into()
}

/// What went wrong in TLS, if that is why redis-rs failed.
fn tls_cause(error: &RedisError) -> Option<&rustls::Error> {
    let source = error.source()?;
    let source = source.downcast_ref::<Arc<dyn Error + Send + Sync>>().map_or(source, |shared| &**shared);
    cause_in(source.downcast_ref()?)
}

fn cause_in(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}
