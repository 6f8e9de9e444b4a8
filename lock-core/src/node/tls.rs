//! What nodes have in common that connect over TLS: a configuration, the handshake, and what its errors mean.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls_native_certs::load_native_certs;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig, RootCertStore};

use super::{NodeError, Refusal};

/// How long the handshake may take. Shorter than connecting may, so that the error can say what was waited for.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(750);

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
             from_url_with_tls {reasons:?}"
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
pub(super) fn refusal(error: &rustls::Error) -> NodeError {
    let remedy = match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "; add its issuer to the certificates that the system trusts, or use from_url_with_tls"
        }
        rustls::Error::InvalidMessage(_) => "; is it a port for TLS?",
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::HandshakeFailure
            | AlertDescription::UnknownCA
            | AlertDescription::BadCertificate,
        ) => "; the server may want a certificate of the client, see from_url_with_tls",
        rustls::Error::InvalidCertificate(_) => "",
        _ => return NodeError::Unreachable { reason: format!("TLS: {error}") },
    };
    Refusal::Tls { detail: format!("{error}{remedy}") }.into()
}

/// How to secure the connections to a server.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    pub(super) fn new(host: &str, config: Arc<ClientConfig>) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        Ok(Self { connector: TlsConnector::from(config), name })
    }

    /// The same trust, for another host.
    #[cfg(feature = "redis")]
    pub(super) fn at(&self, host: &str) -> Result<Self, String> {
        Self::new(host, Arc::clone(self.connector.config()))
    }

    /// Secures a connection to the server.
    pub(super) async fn shake_hands<S>(&self, stream: S) -> Result<TlsStream<S>, NodeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
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

/// What went wrong in TLS, if that is why reading or writing failed.
pub(super) fn cause_in(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}
