//! A server that speaks TLS.

use std::time::Duration;

use lock_core::masters::Refusal;
use lock_core::rustls::{ClientConfig, RootCertStore};
use lock_core::{ConfigError, ConnectError, LockManager, LockManagerBuilder, PostgresNode};
use lock_support::{PostgresServer, eventually_async};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};

fn certificate(name: &str) -> CertifiedKey<KeyPair> {
    generate_simple_self_signed([name.to_owned()]).unwrap()
}

async fn server(certificate: &CertifiedKey<KeyPair>) -> PostgresServer {
    PostgresServer::start_with_tls(&certificate.cert.pem(), &certificate.signing_key.serialize_pem()).await
}

/// Trusts this certificate alone.
fn over_tls(server: &PostgresServer, trusted: &CertifiedKey<KeyPair>) -> LockManagerBuilder {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.cert.der().clone()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let url = format!("{}?sslmode=require", server.url());
    LockManager::builder().postgres([url]).tls(config)
}

async fn refusal(builder: LockManagerBuilder) -> String {
    match builder.connect().await.unwrap_err() {
        ConnectError::Config(ConfigError::RefusedNode { refusal: Refusal::Tls { detail }, .. }) => detail,
        other => panic!("{other}"),
    }
}

// promise: postgresql
#[tokio::test]
async fn votes_and_wake_ups_go_over_tls() {
    let ours = certificate("127.0.0.1");
    let server = server(&ours).await;
    let (one, other) =
        (over_tls(&server, &ours).connect().await.unwrap(), over_tls(&server, &ours).connect().await.unwrap());
    let held = one.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("r").wait(Duration::from_secs(20)).acquire());
    eventually_async("two managers vote, and one listens", async || {
        let connections =
            "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'locks'";
        server.query(connections).await == "t\nt\nt"
    })
    .await;
    assert!(held.release().await.unwrap());
    assert!(waiting.await.unwrap().unwrap().release().await.unwrap());
}

// promise: postgresql
#[tokio::test]
async fn a_certificate_that_does_not_fit_and_a_server_without_tls_are_refused_with_the_reason() {
    let (ours, others) = (certificate("127.0.0.1"), certificate("postgres.example"));
    let stranger = server(&others).await;
    let detail = refusal(over_tls(&stranger, &ours)).await;
    assert!(detail.contains("a configuration that trusts it with tls"), "{detail}");
    let detail = refusal(over_tls(&stranger, &others)).await;
    assert!(detail.contains("postgres.example"), "{detail}");
    let plain = PostgresServer::start().await;
    let detail = refusal(over_tls(&plain, &ours)).await;
    assert!(detail.contains("ssl = on"), "{detail}");
}

#[test]
fn a_configuration_of_tls_is_only_for_urls_with_tls() {
    let config = ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let error = PostgresNode::from_url("postgres://u:s3cret@h/db").unwrap().tls(config).unwrap_err();
    assert!(error.to_string().contains("sslmode") && !error.to_string().contains("s3cret"), "{error}");
    let error = PostgresNode::from_url("postgres://u:s3cret@%2Frun%2Fpostgresql/db?sslmode=require").unwrap_err();
    assert!(error.to_string().contains("sslmode") && !error.to_string().contains("s3cret"), "{error}");
}
