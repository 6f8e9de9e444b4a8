//! Certificates, and servers and clients that have them.

use std::sync::Arc;

use lock_core::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use lock_core::rustls::{ClientConfig, RootCertStore};
use lock_support::{RedisServer, free_port};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// Issues certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
    directory: TempDir,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let (mut params, key) = (CertificateParams::default(), KeyPair::generate().unwrap());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let root = params.self_signed(&key).unwrap();
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("ca.pem"), root.pem()).unwrap();
        Self { issuer: Issuer::new(params, key), root: root.der().clone(), directory }
    }

    /// The file with the authority's own certificate.
    pub(crate) fn root_file(&self) -> String {
        self.file("ca.pem")
    }

    /// A server with a certificate for a name, and the port on which it speaks TLS. It also has one on which it does not.
    pub(crate) async fn server(&self, name: &str, arguments: &[&str]) -> (RedisServer, u16) {
        let (certificate, key) = self.issue(name);
        std::fs::write(self.file("server.pem"), certificate.pem()).unwrap();
        std::fs::write(self.file("server.key"), key.serialize_pem()).unwrap();
        let port = free_port();
        let number = port.to_string();
        let files = [self.file("server.pem"), self.file("server.key"), self.root_file()];
        let [certificate, key, root] = &files;
        let own = ["--tls-port", &number, "--tls-cert-file", certificate, "--tls-key-file", key];
        let own = [&own[..], &["--tls-ca-cert-file", root], arguments].concat();
        (RedisServer::start_with(&own).await, port)
    }

    /// A client that trusts this authority alone, and has no certificate.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        Arc::new(ClientConfig::builder().with_root_certificates(self.roots()).with_no_client_auth())
    }

    /// A client that also has a certificate of this authority.
    pub(crate) fn certified_client(&self) -> Arc<ClientConfig> {
        let (certificate, key) = self.issue("client");
        let (chain, key) = (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap());
        let config = ClientConfig::builder().with_root_certificates(self.roots()).with_client_auth_cert(chain, key);
        Arc::new(config.unwrap())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        roots
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let (mut params, key) = (CertificateParams::new([name.to_owned()]).unwrap(), KeyPair::generate().unwrap());
        params.distinguished_name.push(DnType::CommonName, name);
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    fn file(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }
}
