//! Clients that trust an authority.

use std::sync::Arc;

use lock_core::rustls::pki_types::pem::PemObject as _;
use lock_core::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use lock_core::rustls::{ClientConfig, RootCertStore};
use lock_support::Authority;

/// A client that trusts this authority alone, and has no certificate.
pub(crate) fn client_of(authority: &Authority) -> Arc<ClientConfig> {
    Arc::new(ClientConfig::builder().with_root_certificates(roots(authority)).with_no_client_auth())
}

/// A client that also has a certificate of this authority.
pub(crate) fn certified_client_of(authority: &Authority) -> Arc<ClientConfig> {
    let [certificate, key] = authority.client_files();
    let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots(authority)).with_client_auth_cert(chain, key);
    Arc::new(config.unwrap())
}

fn roots(authority: &Authority) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.root_file()).unwrap()).unwrap();
    roots
}
