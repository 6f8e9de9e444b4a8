use std::fs;

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::redis::{RedisServer, free_port};

/// Issues certificates. They are in files, as PEM.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    /// An authority of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let (mut params, key) = (CertificateParams::default(), KeyPair::generate().unwrap());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let root = params.self_signed(&key).unwrap();
        let authority = Self { issuer: Issuer::new(params, key), directory: TempDir::new().unwrap() };
        fs::write(authority.root_file(), root.pem()).unwrap();
        authority
    }

    /// The file with the authority's own certificate.
    #[must_use]
    pub fn root_file(&self) -> String {
        self.file("ca.pem")
    }

    /// The files with a certificate for a client, and with its key.
    #[must_use]
    pub fn client_files(&self) -> [String; 2] {
        self.issue("client")
    }

    /// A server with a certificate for a name, and the port on which it speaks TLS. It also has one on which it does not.
    pub async fn server(&self, name: &str, arguments: &[&str]) -> (RedisServer, u16) {
        let ([certificate, key], root, port) = (self.issue(name), self.root_file(), free_port());
        let number = port.to_string();
        let own = ["--tls-port", &number, "--tls-cert-file", &certificate, "--tls-key-file", &key];
        let own = [&own[..], &["--tls-ca-cert-file", &root], arguments].concat();
        (RedisServer::start_with(&own).await, port)
    }

    /// The files with a certificate for a name, and with its key.
    pub(crate) fn issue(&self, name: &str) -> [String; 2] {
        let (mut params, key) = (CertificateParams::new([name.to_owned()]).unwrap(), KeyPair::generate().unwrap());
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate: Certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = [self.file(&format!("{name}.pem")), self.file(&format!("{name}.key"))];
        for (file, text) in files.iter().zip([certificate.pem(), key.serialize_pem()]) {
            fs::write(file, text).unwrap();
        }
        files
    }

    fn file(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }
}
