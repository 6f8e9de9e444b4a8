//! What nodes have in common that connect over TLS: a configuration, the handshake, and what its errors mean.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls_native_certs::load_native_certs;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig, RootCertStore};

use super::tcp::Io;
use super::{NodeError, Refusal};

/// How long the handshake may take. Shorter than connecting may, so that the error can say what was waited for.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(750);

/// Trusts what the system trusts.
fn default_config() -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    let found = load_native_certs();
    // One certificate that cannot be read is no reason not to use the others.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(format!(
            "the system has no trusted certificates; install them (ca-certificates), name a file in SSL_CERT_FILE, or give a \
             configuration with tls {reasons:?}"
        ));
    }
    // `ClientConfig::builder` would panic if the process has not chosen between two providers that are built in.
    let provider = CryptoProvider::get_default().map_or_else(|| Arc::new(ring::default_provider()), Arc::clone);
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("the installed rustls CryptoProvider is of no use: {error}"))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()).into())
}

/// What went wrong in TLS, if that is why reading or writing failed. It is refused if it stays until somebody mends a certificate or a setting;
/// anything else may pass.
pub(super) fn refusal_in(error: &io::Error) -> Option<NodeError> {
    let error: &rustls::Error = error.get_ref()?.downcast_ref()?;
    let remedy = match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "; add its issuer to the certificates that the system trusts, or give a configuration that trusts it with tls"
        }
        rustls::Error::InvalidMessage(_) => "; is it a port for TLS?",
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::HandshakeFailure
            | AlertDescription::UnknownCA
            | AlertDescription::BadCertificate,
        ) => "; the server may want a certificate of the client: give a configuration that has one with tls",
        rustls::Error::InvalidCertificate(_) => "",
        _ => return Some(NodeError::Unreachable { reason: format!("TLS: {error}") }),
    };
    Some(Refusal::Tls { detail: format!("{error}{remedy}") }.into())
}

/// How to secure the connections to a server.
#[derive(Clone)]
pub(super) struct Tls {
    /// Or why the system trusts nobody. It need not if there will be another configuration.
    connector: Result<TlsConnector, String>,
    name: ServerName<'static>,
}

impl Tls {
    /// As the system trusts.
    pub(super) fn new(host: &str) -> Result<Self, String> {
        Ok(Self { connector: default_config(), name: name_of(host)? })
    }

    /// By this configuration, instead.
    pub(super) fn set_config(&mut self, config: &Arc<ClientConfig>) {
        self.connector = Ok(Arc::clone(config).into());
    }

    /// The same trust, for another host.
    pub(super) fn at(&self, host: &str) -> Result<Self, String> {
        Ok(Self { connector: self.connector.clone(), name: name_of(host)? })
    }

    /// What shakes hands; or why nobody is trusted, which is not worth a connection.
    pub(super) fn connector(&self) -> Result<&TlsConnector, NodeError> {
        self.connector.as_ref().map_err(|detail| Refusal::Tls { detail: detail.clone() }.into())
    }

    /// Secures a connection to the server.
    pub(super) async fn shake_hands(&self, stream: impl Io) -> Result<Box<dyn Io>, NodeError> {
        let connector = self.connector()?;
        match timeout(HANDSHAKE_TIMEOUT, connector.connect(self.name.clone(), stream)).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => {
                let failed = || NodeError::Unreachable { reason: format!("TLS handshake: {error}") };
                Err(refusal_in(&error).unwrap_or_else(failed))
            }
            Err(_) => {
                Err(NodeError::Unreachable { reason: "no answer to the TLS handshake; is it a port for TLS?".into() })
            }
        }
    }
}

fn name_of(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())
}
