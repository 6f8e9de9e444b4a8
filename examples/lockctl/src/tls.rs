//! Certificates for masters that are connected to over TLS.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use lock_core::rustls::pki_types::pem::PemObject as _;
use lock_core::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use lock_core::rustls::{ClientConfig, RootCertStore};

/// The files of certificates.
#[derive(Args)]
pub(crate) struct TlsArgs {
    /// File (PEM) with the certificates that sign the masters' certificates. All masters are then connected to over TLS, and what the
    /// system trusts does not count. Without it, `rediss://` trusts what the system trusts.
    #[arg(long = "tls-ca", value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
    /// File (PEM) with the certificate of this client, if the masters ask for one. Needs `--tls-key` and `--tls-ca`.
    #[arg(long = "tls-cert", value_name = "FILE", global = true)]
    cert: Option<PathBuf>,
    /// File (PEM) with the key of that certificate.
    #[arg(long = "tls-key", value_name = "FILE", global = true)]
    key: Option<PathBuf>,
}

/// Why the certificates cannot be used.
#[derive(Debug)]
pub(crate) enum TlsError {
    /// An argument needs others.
    Incomplete,
    /// A file cannot be used.
    File { argument: &'static str, path: PathBuf, reason: String },
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete => f.write_str("--tls-cert and --tls-key go together, and need --tls-ca"),
            Self::File { argument, path, reason } => write!(f, "{argument} {}: {reason}", path.display()),
        }
    }
}

impl Error for TlsError {}

impl TlsArgs {
    /// The configuration for all masters; `None` if no certificates are named.
    pub(crate) fn config(&self) -> Result<Option<Arc<ClientConfig>>, TlsError> {
        let (ca, client) = match (&self.ca, &self.cert, &self.key) {
            (None, None, None) => return Ok(None),
            (Some(ca), None, None) => (ca, None),
            (Some(ca), Some(cert), Some(key)) => (ca, Some((cert, key))),
            _ => return Err(TlsError::Incomplete),
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates("--tls-ca", ca)? {
            roots.add(certificate).map_err(|error| unusable("--tls-ca", ca, error))?;
        }
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let config = match client {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = certificates("--tls-cert", cert)?;
                let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("--tls-key", key, error))?;
                builder.with_client_auth_cert(chain, secret).map_err(|error| unusable("--tls-key", key, error))?
            }
        };
        Ok(Some(Arc::new(config)))
    }
}

fn certificates(argument: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| unusable(argument, path, error))?;
    if found.is_empty() { Err(unusable(argument, path, "it has no certificate in PEM")) } else { Ok(found) }
}

fn unusable(argument: &'static str, path: &Path, reason: impl fmt::Display) -> TlsError {
    TlsError::File { argument, path: path.to_owned(), reason: reason.to_string() }
}
