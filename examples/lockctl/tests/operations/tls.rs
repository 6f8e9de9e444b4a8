//! Masters that are connected to over TLS.

use lock_support::{Authority, RedisServer};

use crate::lockctl::{command, lockctl};

const HOST: &str = "127.0.0.1";

/// A master over TLS, its list, and the authority that signed its certificate.
async fn master(arguments: &[&str]) -> (RedisServer, Vec<String>, Authority) {
    let authority = Authority::new("ours");
    let (server, port) = authority.server(HOST, arguments).await;
    (server, vec![format!("rediss://{HOST}:{port}")], authority)
}

#[tokio::test]
async fn a_master_is_trusted_by_the_certificates_of_a_file() {
    let (_server, list, ours) = master(&["--tls-auth-clients", "no"]).await;
    let out = lockctl(&list, &format!("replace --timeout 30s --tls-ca {}", ours.root_file())).await.expect_done();
    assert!(out.contains(&list[0]["rediss://".len()..]), "{out}");
    lockctl(&list, &format!("health --tls-ca {}", ours.root_file())).await.expect_done();

    let stranger = Authority::new("another");
    let refused = lockctl(&list, &format!("health --tls-ca {}", stranger.root_file())).await.expect_not_done();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
}

#[tokio::test]
async fn a_master_is_trusted_by_what_the_system_trusts() {
    let (_server, list, ours) = master(&["--tls-auth-clients", "no"]).await;
    let output = command(&list, "replace --timeout 30s").env("SSL_CERT_FILE", ours.root_file()).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn a_master_that_asks_for_a_certificate_gets_that_of_the_files() {
    let (_server, list, ours) = master(&["--tls-auth-clients", "yes"]).await;
    let [certificate, key] = ours.client_files();
    let trusting = format!("--tls-ca {}", ours.root_file());
    lockctl(&list, &format!("replace --timeout 30s {trusting} --tls-cert {certificate} --tls-key {key}"))
        .await
        .expect_done();
    let refused = lockctl(&list, &format!("health {trusting}")).await.expect_not_done();
    assert!(refused.contains("certificate of the client"), "{refused}");
}
