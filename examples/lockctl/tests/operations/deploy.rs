//! The files in `docs/deploy`: what their page says of them, and a real Redis with their settings and the commands of their probes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use lock_core::LockManager;
use lock_support::{RedisServer, eventually_async};
use tempfile::TempDir;
use yaml_rust2::{Yaml, YamlLoader};

const SETTINGS: &str = "/etc/lock/";
const PASSWORD: &str = "change-me";

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/deploy").join(file).canonicalize().unwrap()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn documents(file: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(&read(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The one object of a kind.
fn object(kind: &str) -> Yaml {
    let found: Vec<Yaml> =
        documents("masters.yaml").into_iter().filter(|object| string(&object["kind"]) == kind).collect();
    <[Yaml; 1]>::try_from(found).unwrap_or_else(|found| panic!("{kind}: {found:?}"))[0].clone()
}

fn string(value: &Yaml) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value:?} is no string"))
}

fn strings(list: &Yaml) -> Vec<&str> {
    list.as_vec().unwrap_or_else(|| panic!("{list:?} is no list")).iter().map(string).collect()
}

/// What a service of the compose file has, itself or by `<<`.
fn of_service<'a>(service: &'a Yaml, key: &str) -> &'a Yaml {
    if service[key].is_badvalue() { &service["<<"][key] } else { &service[key] }
}

/// The words of a line of `redis.conf` that sets this.
fn setting(name: &str) -> Vec<String> {
    let conf = read("redis.conf");
    let lines: Vec<&str> = conf.lines().filter(|line| line.split(' ').next() == Some(name)).collect();
    assert_eq!(lines.len(), 1, "{name}: {lines:?}");
    lines[0].split(' ').skip(1).map(ToOwned::to_owned).collect()
}

#[test]
fn every_master_in_kubernetes_is_independent_and_starts_with_the_settings() {
    let (set, service, budget) = (object("StatefulSet"), object("Service"), object("PodDisruptionBudget"));
    let (spec, pod) = (&set["spec"], &set["spec"]["template"]["spec"]);
    assert_eq!(spec["replicas"].as_i64(), Some(3));
    assert_eq!(spec["podManagementPolicy"].as_str(), Some("Parallel"), "none is ready before all have answered");
    assert_eq!(spec["serviceName"], service["metadata"]["name"]);
    assert_eq!(service["spec"]["clusterIP"].as_str(), Some("None"), "each has a name of its own");
    assert_eq!(service["spec"]["publishNotReadyAddresses"].as_bool(), Some(true));
    assert_eq!(budget["spec"]["maxUnavailable"].as_i64(), Some(1));
    let labels = &spec["template"]["metadata"]["labels"];
    for selector in
        [&service["spec"]["selector"], &budget["spec"]["selector"]["matchLabels"], &spec["selector"]["matchLabels"]]
    {
        assert_eq!(selector, labels);
    }
    let apart = &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(apart["topologyKey"].as_str(), Some("kubernetes.io/hostname"));
    assert_eq!(&apart["labelSelector"]["matchLabels"], labels);
    assert_eq!(spec["volumeClaimTemplates"].as_vec().map(Vec::len), Some(1), "each has files of its own");

    let redis = &pod["containers"][0];
    assert_eq!(strings(&redis["command"]), ["redis-server", "/etc/lock/redis.conf", "--dir", "/data"]);
    assert!(redis["resources"]["limits"]["cpu"].is_badvalue(), "a master that is throttled votes late");
    let kustomization = &documents("kustomization.yaml")[0];
    let sources = &pod["volumes"][0]["projected"]["sources"];
    for (generator, source, files) in [
        ("configMapGenerator", &sources[0]["configMap"]["name"], vec!["redis.conf", "votes.sh"]),
        ("secretGenerator", &sources[1]["secret"]["name"], vec!["users.acl"]),
    ] {
        let generated = &kustomization[generator][0];
        assert_eq!(&generated["name"], source);
        assert_eq!(strings(&generated["files"]), files);
        files.iter().for_each(|file| assert!(path(file).is_file()));
    }
    assert_eq!(strings(&kustomization["resources"]), ["masters.yaml"]);
    assert_eq!(strings(&kustomization["secretGenerator"][0]["literals"]), [format!("password={PASSWORD}")]);
}

#[test]
fn every_master_in_compose_is_independent_and_starts_with_the_settings() {
    let compose = &documents("compose.yaml")[0];
    let services = compose["services"].as_hash().unwrap();
    assert_eq!(services.len(), 3);
    let (mut ports, mut volumes) = (Vec::new(), Vec::new());
    for (name, service) in services {
        assert_eq!(strings(of_service(service, "command")), ["redis-server", "/etc/lock/redis.conf", "--dir", "/data"]);
        assert_eq!(string(&of_service(service, "environment")["REDISCLI_AUTH"]), PASSWORD);
        let mounts = strings(&service["volumes"]);
        let (data, files) = mounts.split_first().unwrap();
        let volume = data.strip_suffix(":/data").unwrap();
        assert!(!compose["volumes"][volume].is_badvalue(), "{volume}");
        for (file, mounted) in ["redis.conf", "users.acl", "votes.sh"].iter().zip(files) {
            assert_eq!(*mounted, format!("./{file}:{SETTINGS}{file}:ro"), "{name:?}");
        }
        assert_eq!(files.len(), 3);
        volumes.push(volume);
        ports.extend(strings(&service["ports"]));
    }
    for values in [&mut ports, &mut volumes] {
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), 3, "{values:?}");
    }
    assert!(ports.iter().all(|port| port.starts_with("127.0.0.1:")), "{ports:?}");
}

#[test]
fn the_user_has_the_rights_that_operations_lists() {
    let rights = |text: &str| -> Vec<String> {
        let words = text.split([' ', '\n']).map(|word| word.trim_matches('\''));
        let mut rights: Vec<String> =
            words.filter(|word| word.starts_with(['+', '~', '&'])).map(ToOwned::to_owned).collect();
        rights.sort();
        rights
    };
    let operations = std::fs::read_to_string(path("../operations.md")).unwrap();
    let (_, command) = operations.split_once("ACL SETUSER app on").unwrap();
    let (command, _) = command.split_once("```").unwrap();
    let mut listed = rights(command);
    listed.push("+ping".into());
    listed.sort();
    assert!(listed.len() > 20, "{listed:?}");
    assert_eq!(rights(&read("users.acl")), listed);
    assert!(read("users.acl").contains(&format!(" >{PASSWORD} ")));
}

/// Runs the command of a probe, as it stands in a file, against a server.
fn probe(command: &[&str], server: &RedisServer, password: &str) -> Output {
    let port = server.port().to_string();
    let mut words: Vec<String> =
        command.iter().map(|word| word.replace(SETTINGS, &format!("{}/", path(".").display()))).collect();
    // redis-cli takes the port before its command, and the script takes arguments for redis-cli.
    let at = if words[0] == "redis-cli" { 1 } else { words.len() };
    words.splice(at..at, ["-p".to_owned(), port]);
    Command::new(&words[0]).args(&words[1..]).env("REDISCLI_AUTH", password).output().unwrap()
}

#[tokio::test]
async fn masters_with_these_settings_are_ready_while_they_vote_and_alive_while_they_answer() {
    assert_eq!(setting("maxmemory-policy"), ["noeviction"]);
    assert_eq!(setting("appendonly"), ["yes"]);
    assert_eq!(setting("appendfsync"), ["everysec"]);
    let set = object("StatefulSet");
    let redis = &set["spec"]["template"]["spec"]["containers"][0];
    let command = |name: &str| strings(&redis[name]["exec"]["command"]);
    let (ready, alive) = (command("readinessProbe"), command("livenessProbe"));
    let compose = &documents("compose.yaml")[0];
    let test = strings(&of_service(&compose["services"]["lock-1"], "healthcheck")["test"]);
    assert_eq!(test.split_first(), Some((&"CMD", &*alive)));

    // What follows the file replaces what only a container has.
    let (conf, users, folder) = (path("redis.conf"), path("users.acl"), TempDir::new().unwrap());
    let mut servers = Vec::new();
    for number in 0..3 {
        let data = folder.path().join(number.to_string());
        std::fs::create_dir(&data).unwrap();
        let paths = [&conf, &data, &users].map(|path| path.to_str().unwrap());
        let arguments = ["--include", paths[0], "--dir", paths[1], "--aclfile", paths[2], "--requirepass", PASSWORD];
        servers.push(RedisServer::start_with(&arguments).await);
    }
    for server in &servers {
        let memory: String = server.query("INFO memory").await;
        assert!(memory.contains("maxmemory_policy:noeviction") && memory.contains("maxmemory:268435456"), "{memory}");
        assert!(server.query::<String>("INFO persistence").await.contains("aof_enabled:1"));
        assert!(probe(&alive, server, PASSWORD).stdout.starts_with(b"PONG"));
        let too_early = probe(&ready, server, PASSWORD);
        assert!(!too_early.status.success(), "no service has admitted it: {too_early:?}");
    }

    let urls = servers.iter().map(|server| format!("redis://:{PASSWORD}@{}", server.address()));
    let max_ttl = Duration::from_secs(3);
    let locks = LockManager::builder().redis(urls).max_ttl(max_ttl).node_timeout(max_ttl / 4).connect().await.unwrap();
    let votes = async |server: &RedisServer| {
        eventually_async("the master votes", async || probe(&ready, server, PASSWORD).status.success()).await;
    };
    for server in &servers {
        votes(server).await;
    }
    assert!(!probe(&ready, &servers[0], "wrong").status.success());
    assert!(locks.lock("stock:42").acquire().await.is_ok());

    // With its data: the record still has the epoch, and is that of another run.
    servers[2].restart_with(&[]).await;
    assert!(probe(&alive, &servers[2], PASSWORD).status.success());
    let too_early = probe(&ready, &servers[2], PASSWORD);
    assert!(!too_early.status.success(), "it sits out a quarantine: {too_early:?}");
    votes(&servers[2]).await;
    assert!(locks.health().await.nodes.iter().all(|node| node.admitted));
    servers[1].kill();
    assert!(!probe(&alive, &servers[1], PASSWORD).status.success());
    assert!(!probe(&ready, &servers[1], PASSWORD).status.success());
}
