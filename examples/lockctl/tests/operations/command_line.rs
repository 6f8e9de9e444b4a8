//! Statuses, outputs, secrets and signals.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use lock_support::{PostgresServer, RedisCluster, RedisServer, Sentinel, SlotCluster, ZooKeeperServer};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::time::timeout;

use crate::lockctl::{command, lockctl, urls};

#[tokio::test]
async fn the_status_says_whether_all_masters_vote() {
    let mut servers = RedisCluster::start(3).await.servers;
    let list = urls(&servers);
    lockctl(&list, "replace --timeout 30s").await.expect_done();
    lockctl(&list, "health").await.expect_done();
    servers[0].kill();
    lockctl(&list, "health").await.expect_not_done();
    lockctl(&list, "members").await.expect_not_done();
}

#[tokio::test]
async fn masters_in_postgresql_are_named_by_their_urls() {
    let server = PostgresServer::start().await;
    let out = lockctl(&[server.url()], "replace --timeout 30s").await.expect_done();
    assert!(out.contains(&format!("127.0.0.1:{}/postgres", server.port())), "{out}");
}

#[tokio::test]
async fn an_ensemble_is_named_by_all_its_servers() {
    let server = ZooKeeperServer::start().await;
    let servers = format!("{0},{0}/locks", server.address());
    let out = lockctl(&[format!("zookeeper://{servers}")], "replace --timeout 30s").await.expect_done();
    assert!(out.contains(&servers), "{out}");
}

/// What the program reports of a set of this many shards.
async fn report_of(list: &[String], named: &str, shards: usize) -> serde_json::Value {
    let out = lockctl(list, &format!("replace --json --timeout 30s {named}")).await.expect_done();
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let further = report["further_shards"].as_array().unwrap();
    assert!(further.len() == shards - 1 && further.iter().all(|set| set["seats"].is_array()), "{report}");
    report
}

#[tokio::test]
async fn every_shard_is_shown_with_its_members() {
    let (server, cluster) = (RedisServer::start().await, SlotCluster::start(3, 0).await);
    let report = report_of(&[server.url()], "--shards 4", 4).await;
    assert_eq!(report["masters"][3]["address"], format!("{}#3", server.address()));
    report_of(&[], &format!("--shards 4 --redis-cluster {}", cluster.url()), 4).await;
    let refused = lockctl(&[server.url()], "health --shards 8").await;
    assert!(format!("{refused:?}").contains("shards is 8 here, but 4"), "{refused:?}");
}

#[tokio::test]
async fn sets_of_servers_are_named_one_after_another() {
    let [one, other] = [RedisServer::start().await, RedisServer::start().await];
    let named = format!("--set {} --set {}", one.url(), other.url());
    let report = report_of(&[], &named, 2).await;
    assert_eq!(report["further_shards"][0]["seats"][0]["address"], other.address());
    let reversed = lockctl(&[], &format!("health --set {} --set {}", other.url(), one.url())).await;
    assert!(format!("{reversed:?}").contains("shards is set 1 of 2 here, but set 2 of 2"), "{reversed:?}");
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
async fn every_report_as_json_has_the_masters_and_what_is_wrong() {
    let mut servers = RedisCluster::start(3).await.servers;
    let list = urls(&servers);
    lockctl(&list, "replace --timeout 30s").await.expect_done();
    servers[1].kill();
    for arguments in ["--json health", "members --json", "replace --json --timeout 1s", "watch --json --timeout 1s"] {
        let ended = lockctl(&list, arguments).await;
        assert_eq!(ended.status, Some(1), "{ended:?}");
        let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!((&report["quorum"], &report["complete"]), (&true.into(), &false.into()));
        assert!(report["masters"][1]["problem"].as_str().unwrap().contains("not reachable"), "{report}");
    }
}

#[tokio::test]
async fn masters_are_named_before_or_after_the_command_or_in_the_environment() {
    let server = RedisServer::start().await;
    lockctl(&[server.url()], "replace --timeout 30s").await.expect_done();
    for arguments in [format!("--redis {} health", server.url()), format!("health --redis {}", server.url())] {
        let mut command = command(&[], &arguments);
        command.env_remove("LOCK_URLS").stdout(Stdio::null());
        assert!(command.status().await.unwrap().success(), "{arguments}");
    }
    let mut unset = command(&[], "health");
    unset.env_remove("LOCK_URLS");
    for mut command in [unset, command(&[], "health")] {
        let none = command.output().await.unwrap();
        assert_eq!(none.status.code(), Some(2));
        let error = String::from_utf8(none.stderr).unwrap();
        assert!(error.contains("no masters: name each with --redis or --postgres"), "{error}");
    }
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
        ("", "health"),
        ("redis://127.0.0.1:1", "health --sentinel 127.0.0.1:1"),
        ("redis://127.0.0.1:1", "health --sentinel-master mymaster"),
    ] {
        let ended = lockctl(&[list.to_owned()], arguments).await;
        assert_eq!((ended.status, ended.out.as_str()), (Some(2), ""), "{arguments}: {ended:?}");
    }
}

#[tokio::test]
async fn no_password_is_printed() {
    let server = RedisServer::start_with(&["--requirepass", "sesame"]).await;
    let url = |password: &str| vec![format!("redis://:{password}@{}", server.address())];
    lockctl(&url("sesame"), "replace --timeout 30s").await.expect_done();
    for arguments in ["members", "health", "health --json", "replace --timeout 1s", "health --help", "help"] {
        for url in [url("sesame"), url("open-sesame"), vec!["redis://:sesame@127.0.0.1:1".into(), "sesame@".into()]] {
            let ended = lockctl(&url, arguments).await;
            assert!(!format!("{ended:?}").contains("sesame"), "{arguments}: {ended:?}");
        }
    }
}

fn send_signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[tokio::test]
async fn a_signal_ends_it_gracefully() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = command(&["redis://127.0.0.1:1".to_owned()], "replace");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.next_line().await.unwrap().unwrap().starts_with("waiting until"));
        send_signal(&child, signal);
        assert_eq!(child.wait().await.unwrap().code(), Some(status));
    }
}

/// A library with which every lookup of a name takes a minute.
fn slow_lookups(directory: &Path) -> PathBuf {
    let (source, library) = (directory.join("slow.c"), directory.join("slow.so"));
    let code = "#include <unistd.h>\nint getaddrinfo(void *n, void *s, void *h, void *r) { sleep(60); return -2; }\n";
    std::fs::write(&source, code).unwrap();
    let compiled = std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(compiled.expect("cc is installed, as Rust needs it").success());
    library
}

#[tokio::test]
async fn it_ends_in_time_and_by_a_signal_although_a_name_is_being_looked_up() {
    let directory = tempfile::tempdir().unwrap();
    let library = slow_lookups(directory.path());
    let start = |arguments| {
        let mut command = command(&["redis://master.invalid:1".to_owned()], arguments);
        command.env("LD_PRELOAD", &library).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut in_time = start("health --timeout 1s");
    let ended = timeout(Duration::from_secs(20), in_time.wait()).await.expect("it does not wait for the lookup");
    assert_eq!(ended.unwrap().code(), Some(1));
    let mut waiting = start("replace");
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines();
    lines.next_line().await.unwrap().unwrap();
    send_signal(&waiting, Signal::TERM);
    let ended = timeout(Duration::from_secs(20), waiting.wait()).await.expect("it does not wait for the lookup");
    assert_eq!(ended.unwrap().code(), Some(143));
}

#[tokio::test]
async fn what_nobody_reads_is_no_error_and_what_cannot_be_written_is() {
    let server = RedisServer::start().await;
    let list = [server.url()];
    lockctl(&list, "replace --timeout 30s").await.expect_done();
    let mut unread = command(&list, "max-ttl 1h").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    drop(unread.stderr.take());
    assert_eq!(unread.wait().await.unwrap().code(), Some(0));
    let full = File::options().write(true).open("/dev/full").unwrap();
    let forced = command(&list, "force-release r --json").stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let forced = forced.wait_with_output().await.unwrap();
    let error = String::from_utf8(forced.stderr).unwrap();
    assert_eq!(forced.status.code(), Some(1), "{error}");
    assert!(error.contains("No space left") && error.contains("\"token\": 1"), "{error}");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let watching = command(&list, "watch").stdout(full).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(watching.wait_with_output().await.unwrap().status.code(), Some(1));
}

#[tokio::test]
async fn watch_shows_each_change_once_until_a_signal_ends_it() {
    let mut servers = RedisCluster::start(3).await.servers;
    let list = urls(&servers);
    lockctl(&list, "replace --timeout 30s").await.expect_done();
    let mut child = command(&list, "watch --json").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || -> serde_json::Value {
        let line = timeout(Duration::from_secs(20), lines.next_line()).await.expect("a change").unwrap().unwrap();
        let mut report: serde_json::Value = serde_json::from_str(&line).unwrap();
        let at = report.as_object_mut().unwrap().remove("at").expect("a time");
        assert!(at.as_str().unwrap().ends_with('Z'), "{at}");
        for master in report["masters"].as_array_mut().unwrap() {
            master.as_object_mut().unwrap().remove("round_trip_us");
        }
        report
    };
    let mut report = next().await;
    assert_eq!(report["complete"], true, "{report}");
    for (killed, quorum) in [(0, true), (1, false)] {
        servers[killed].kill();
        while report["quorum"] != quorum || report["masters"][killed]["votes"] != false {
            let changed = next().await;
            assert_ne!(changed, report, "a line for each change, and only then");
            report = changed;
        }
    }
    send_signal(&child, Signal::INT);
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
}

#[tokio::test]
async fn watch_ends_in_time_or_when_nobody_reads_with_the_last_state_as_its_status() {
    let server = RedisServer::start().await;
    let list = [server.url()];
    lockctl(&list, "replace --timeout 30s").await.expect_done();
    let out = lockctl(&list, "watch --timeout 1s").await.expect_done();
    assert!(out.contains("Z  locks can be acquired\ngeneration 1") && out.contains(&server.address()), "{out}");
    let mut child = command(&list, "watch").stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = timeout(Duration::from_secs(20), child.wait()).await.expect("it ends when nobody reads");
    assert_eq!(ended.unwrap().code(), Some(0));
}

#[tokio::test]
async fn looking_with_a_wrong_prefix_writes_nothing_and_says_that_there_is_no_set() {
    let servers = RedisCluster::start(3).await.servers;
    let list = urls(&servers);
    for prefix in ["lock:", "other:"] {
        for looks in ["health", "members --json", "inspect stock:42", "force-release stock:42", "watch --timeout 1s"] {
            let ended = lockctl(&list, &format!("{looks} --prefix {prefix}")).await;
            assert_eq!(ended.status, Some(1), "{ended:?}");
            if !looks.starts_with("watch") {
                assert!(ended.err.contains(&format!("a set with the prefix {prefix:?}")), "{ended:?}");
            }
            for server in &servers {
                assert!(server.keys(&format!("{prefix}*")).await.is_empty(), "{looks}");
            }
        }
        let lowered = lockctl(&list, &format!("max-ttl 1s --timeout 5s --prefix {prefix}")).await;
        assert_eq!(lowered.status, Some(1), "{lowered:?}");
        assert!(servers[0].keys(&format!("{prefix}*")).await.is_empty());
        let formed = lockctl(&list, "replace --timeout 30s").await;
        let is_new = prefix == "lock:";
        assert_eq!(formed.err.contains("this forms one"), is_new, "{formed:?}");
        formed.expect_done();
    }
    lockctl(&list, "inspect stock:42").await.expect_done();
}

#[tokio::test]
async fn a_file_of_certificates_that_cannot_be_used_is_named() {
    let url = ["rediss://127.0.0.1:1".to_owned()];
    for (arguments, named) in [
        ("health --tls-ca /nowhere/ca.pem", "--tls-ca /nowhere/ca.pem: "),
        ("health --tls-cert /nowhere/cert.pem", "--tls-cert and --tls-key go together"),
    ] {
        let ended = lockctl(&url, arguments).await;
        assert_eq!((ended.status, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        // Without the feature, the argument does not exist.
        assert!(ended.err.contains(named) || ended.err.contains("unexpected argument"), "{ended:?}");
    }
}

#[tokio::test]
async fn a_master_of_sentinels_is_named_by_its_name() {
    let master = RedisServer::start().await;
    let sentinel = Sentinel::start("mymaster", &master, 0).await;
    let named = format!("--timeout 30s --sentinel {} --sentinel-master mymaster", sentinel.address());
    let out = lockctl(&[], &format!("replace {named}")).await.expect_done();
    assert!(out.contains("sentinel:mymaster"), "{out}");
    lockctl(&[], &format!("health {named}")).await.expect_done();
}
