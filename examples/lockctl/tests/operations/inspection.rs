//! What is shown of a lock and its permits, and taking it from its holder.

use lock_support::{RedisCluster, RedisServer};

use crate::lockctl::{lockctl, urls};

async fn json_of(list: &[String], arguments: &str) -> serde_json::Value {
    let out = lockctl(list, arguments).await.expect_done();
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

#[tokio::test]
async fn a_lock_is_shown_and_taken_from_its_holder() {
    let cluster = RedisCluster::start(3).await;
    let list = urls(&cluster.servers);
    let service = cluster.builder().connect().await.unwrap();
    let json = async |arguments: &str| json_of(&list, arguments).await;
    assert_eq!(json("inspect stock:42 --json").await["verdict"], "free");

    let stuck = service.lock("stock:42").acquire().await.unwrap();
    let shown = json("inspect stock:42 --json").await;
    assert_eq!((&shown["verdict"], &shown["masters"][2]["holder"]), (&"held".into(), &shown["holder"]));
    assert!(shown["masters"][0]["fence"].as_u64() >= Some(stuck.token().get()), "{shown}");
    let text = lockctl(&list, "inspect stock:42").await.expect_done();
    assert!(text.starts_with("stock:42: held by ") && !text.contains("lock-"), "{text}");

    let forced = json("force-release stock:42 --json").await;
    assert_eq!(&forced["evicted"][0], &shown["holder"]);
    // A master that replies late is not waited for.
    assert!(forced["freed_on"].as_array().is_some_and(|freed| freed.len() >= 2), "{forced}");
    assert!(forced["token"].as_u64() > Some(stuck.token().get()), "{forced}");
    let next = service.lock("stock:42").try_acquire().await.unwrap();
    assert!(forced["token"].as_u64() < Some(next.token().get()), "{forced}");

    let reader = service.read("catalog").acquire().await.unwrap();
    let shown = json("inspect catalog --json").await;
    assert_eq!((&shown["verdict"], &shown["readers"]), (&"shared".into(), &1.into()), "{shown}");
    let tags = shown["masters"][0]["readers"].clone();
    assert!(lockctl(&list, "inspect catalog").await.expect_done().starts_with("catalog: shared by 1 reader\n"));
    assert_eq!(json("force-release catalog --json").await["evicted"], tags);
    assert!(service.lock("catalog").try_acquire().await.is_ok());
    drop(reader);
}

#[tokio::test]
async fn the_status_says_whether_a_lock_was_shown_or_taken() {
    let mut servers = RedisCluster::start(3).await.servers;
    let list = urls(&servers);
    lockctl(&list, "replace --timeout 30s").await.expect_done();
    for arguments in ["inspect {} --json", "force-release {}"] {
        let ended = lockctl(&list, arguments).await;
        assert_eq!((ended.status, ended.out.as_str()), (Some(2), ""), "{arguments}: {ended:?}");
    }
    servers[..2].iter_mut().for_each(RedisServer::kill);
    assert!(lockctl(&list, "inspect r").await.expect_not_done().starts_with("r: no quorum"));
    assert!(lockctl(&list, "force-release r").await.expect_not_done().contains("no majority"));
}

#[tokio::test]
async fn all_permits_of_a_resource_are_shown_at_once() {
    let cluster = RedisCluster::start(3).await;
    let list = urls(&cluster.servers);
    let service = cluster.builder().connect().await.unwrap();
    let json = async |arguments: &str| json_of(&list, arguments).await;
    assert_eq!(json("inspect export --json").await["permits"], serde_json::json!([]));
    assert!(!lockctl(&list, "inspect export").await.expect_done().contains("permits"));

    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(service.permits("export", 100).acquire().await.unwrap());
    }
    held.sort_by_key(|permit| permit.slot());
    let shown = json("inspect export --json").await;
    assert_eq!(shown["verdict"], "free", "the lock of that name is another one");
    let permits = shown["permits"].as_array().unwrap();
    assert_eq!(permits.len(), 3, "{shown}");
    for (permit, held) in permits.iter().zip(&held) {
        assert_eq!((&permit["resource"], &permit["verdict"]), (&held.resource().into(), &"held".into()));
        assert!(permit["masters"][0]["fence"].as_u64() >= Some(held.token().get()), "{permit}");
        assert_eq!(permit.get("permits"), None);
        assert_eq!(json(&format!("inspect {} --json", held.resource())).await["holder"], permit["holder"]);
    }
    let text = lockctl(&list, "inspect export").await.expect_done();
    assert!(text.contains("permits that are held: 3, and 0 processes wait\nPERMIT "), "{text}");
    for held in &held {
        let row = text.lines().find(|line| line.starts_with(held.resource())).unwrap_or_else(|| panic!("{text}"));
        assert!(row.contains(" held ") && row.ends_with("3 of 3"), "{text}");
    }
}
