//! Statuses, outputs, secrets and signals.

use std::process::Stdio;

use lock_support::{RedisCluster, RedisServer};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::lockctl::{command, lockctl, urls};

#[tokio::test]
async fn the_status_says_whether_all_masters_vote() {
    let mut servers = RedisCluster::start(3).await.servers;
    let list = urls(&servers);
    lockctl(&list, "health").await.expect_done();
    servers[0].kill();
    lockctl(&list, "health").await.expect_not_done();
    lockctl(&list, "members").await.expect_not_done();
}

#[tokio::test]
async fn a_report_as_json_is_all_that_is_on_the_standard_output() {
    let servers = RedisCluster::start(3).await.servers;
    let out = lockctl(&urls(&servers), "replace --json --timeout 30s").await.expect_done();
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["quorum"], &report["complete"]), (&true.into(), &true.into()));
    assert_eq!(report["set"]["seats"][2]["address"], servers[2].address());
    assert_eq!(report["masters"][2]["member"], report["set"]["seats"][2]["member"]);
}

#[tokio::test]
async fn invalid_arguments_have_a_status_of_their_own() {
    for (list, arguments) in [
        ("redis://127.0.0.1:1,redis://127.0.0.1:2", "health"),
        ("http://127.0.0.1:1", "health"),
        ("redis://127.0.0.1:1", "max-ttl soon"),
        ("redis://127.0.0.1:1", "max-ttl 1ms"),
        ("redis://127.0.0.1:1", "form --yes"),
        ("redis://127.0.0.1:1", "remove"),
    ] {
        let ended = lockctl(&[list.to_owned()], arguments).await;
        assert_eq!((ended.status, ended.out.as_str()), (Some(2), ""), "{arguments}: {ended:?}");
    }
}

#[tokio::test]
async fn no_password_is_printed() {
    let server = RedisServer::start_with(&["--requirepass", "sesame"]).await;
    let url = |password: &str| vec![format!("redis://:{password}@{}", server.address())];
    lockctl(&url("sesame"), "members").await.expect_done();
    for arguments in ["members", "health", "health --json", "replace --timeout 1s", "health --help", "help"] {
        for url in [url("sesame"), url("open-sesame"), vec!["redis://:sesame@127.0.0.1:1".into(), "sesame@".into()]] {
            let ended = lockctl(&url, arguments).await;
            assert!(!format!("{ended:?}").contains("sesame"), "{arguments}: {ended:?}");
        }
    }
}

#[tokio::test]
async fn a_signal_ends_it_gracefully() {
    for (signal, status) in [(rustix::process::Signal::INT, 130), (rustix::process::Signal::TERM, 143)] {
        let mut command = command(&["redis://127.0.0.1:1".to_owned()], "replace");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.next_line().await.unwrap().unwrap().starts_with("waiting until"));
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(status));
    }
}
