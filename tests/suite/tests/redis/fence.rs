//! Claims for data in Redis: the scripts on a real server.

use lock_axum::fence::redis::{CHECK, CLAIM, COMPARE, FencedScript, NOT_A_TOKEN, STALE};
use lock_axum::{Lease, LockManager};
use lock_support::{Dice, RedisServer};
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisResult, Script};

/// A value, and what protects it, on a server.
struct Data {
    redis: MultiplexedConnection,
    _server: RedisServer,
}

/// Redis commands that are appended to a check.
const READ: &str = "return redis.call('GET', KEYS[2])";
const WRITE: &str = "redis.call('SET', KEYS[2], ARGV[2])";

impl Data {
    /// A counter of five units.
    async fn start() -> Self {
        let server = RedisServer::start().await;
        let data = Self { redis: server.connect().await.unwrap(), _server: server };
        let () = redis::cmd("SET").arg("{stock}").arg(5).query_async(&mut data.redis.clone()).await.unwrap();
        data
    }

    /// Runs a script with the keys, `who`, and one more argument.
    async fn run<T: FromRedisValue>(&self, parts: &[&str], who: &str, value: i64) -> RedisResult<T> {
        let script = Script::new(&parts.concat());
        let mut invocation = script.key("{stock}:fence");
        invocation.key("{stock}").arg(who).arg(value);
        invocation.invoke_async(&mut self.redis.clone()).await
    }

    async fn get(&self, key: &str) -> i64 {
        redis::cmd("GET").arg(key).query_async(&mut self.redis.clone()).await.unwrap()
    }

    async fn mark(&self, who: &str) {
        let () = redis::cmd("SET").arg("{stock}:fence").arg(who).query_async(&mut self.redis.clone()).await.unwrap();
    }
}

/// The text behind the code, if the script refused.
fn refusal<T: std::fmt::Debug>(result: RedisResult<T>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.code(), Some(STALE), "{error}");
    error.detail().unwrap_or_default().to_owned()
}

// promise: claims
#[tokio::test]
async fn a_claim_refuses_the_paused_holder_and_tells_the_larger_token() {
    let data = Data::start().await;
    let paused: i64 = data.run(&[CLAIM, READ], "7", 0).await.unwrap();
    let next: i64 = data.run(&[CLAIM, READ], "9", 0).await.unwrap();
    // It resumes between the read and the write of the next holder, and again after them.
    assert_eq!(refusal(data.run::<()>(&[CLAIM, WRITE], "7", paused - 1).await), "9");
    assert_eq!(data.get("{stock}").await, 5);
    let () = data.run(&[CLAIM, WRITE], "9", next - 1).await.unwrap();
    assert_eq!(refusal(data.run::<()>(&[CLAIM, WRITE], "7", paused - 1).await), "9");
    assert_eq!(data.get("{stock}").await, 4);
}

#[tokio::test]
async fn a_token_that_is_only_checked_by_the_write_loses_an_update() {
    let data = Data::start().await;
    let (paused, next) = (data.get("{stock}").await, data.get("{stock}").await);
    let () = data.run(&[CLAIM, WRITE], "7", paused - 1).await.unwrap();
    let () = data.run(&[CLAIM, WRITE], "9", next - 1).await.unwrap();
    assert_eq!(data.get("{stock}").await, 4, "two writes, and one unit is gone");
}

// promise: claims
#[tokio::test]
async fn accepted_tokens_never_decrease_up_to_the_largest() {
    const LARGEST: u64 = (1 << 53) - 1;
    let (data, mut dice, mut seen) = (Data::start().await, Dice::new(1), 0);
    for _ in 0..300 {
        let token = LARGEST - dice.roll(20);
        let claimed = data.run::<()>(&[CLAIM], &token.to_string(), 0).await;
        if token < seen {
            assert_eq!(refusal(claimed), seen.to_string());
        } else {
            claimed.unwrap();
            seen = token;
        }
    }
    assert_eq!(seen, LARGEST);
}

// promise: claims
#[tokio::test]
async fn a_mark_lets_nobody_write_what_it_computed_before_another_marked() {
    let data = Data::start().await;
    data.mark("old").await;
    let paused = data.get("{stock}").await;
    data.mark("new").await;
    let next = data.get("{stock}").await;
    refusal(data.run::<()>(&[COMPARE, WRITE], "old", paused - 1).await);
    let () = data.run(&[COMPARE, WRITE], "new", next - 1).await.unwrap();
    refusal(data.run::<()>(&[COMPARE, WRITE], "old", paused - 1).await);
    assert_eq!(data.get("{stock}").await, 4);
}

// promise: claims
#[tokio::test]
async fn a_mark_lets_an_old_holder_in_that_comes_late_and_a_token_does_not() {
    let data = Data::start().await;
    data.mark("new").await;
    let next = data.get("{stock}").await;
    data.mark("old").await;
    refusal(data.run::<()>(&[COMPARE, WRITE], "new", next - 1).await);
    let late = data.get("{stock}").await;
    let () = data.run(&[COMPARE, WRITE], "old", late - 1).await.unwrap();
    assert_eq!(data.get("{stock}").await, 4, "no update is lost, but the old holder made it");

    let data = Data::start().await;
    let _: i64 = data.run(&[CLAIM, READ], "9", 0).await.unwrap();
    assert_eq!(refusal(data.run::<i64>(&[CLAIM, READ], "7", 0).await), "9");
}

// promise: claims
#[tokio::test]
async fn what_is_not_a_token_claims_nothing_and_shuts_nobody_out() {
    let data = Data::start().await;
    let wrong = [
        "",
        "0",
        "-1",
        "+7",
        "07",
        "7.0",
        "1e9",
        "7 ",
        " 7",
        "0x7",
        "abc",
        "nan",
        "inf",
        "7\n",
        "9007199254740992",
        "9007199254740993",
        "99999999999999999999",
        "1e300",
    ];
    let is_refused = |result: RedisResult<()>, what: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.code(), Some(NOT_A_TOKEN), "{what:?}: {error}");
    };
    for script in [CLAIM, CHECK] {
        for token in wrong {
            is_refused(data.run(&[script, WRITE], token, 0).await, token);
        }
    }
    assert_eq!(data.get("{stock}").await, 5);
    let () = data.run(&[CLAIM, WRITE], "1", 4).await.unwrap();
    // Nor is anything compared with what is no token.
    for stored in wrong {
        data.mark(stored).await;
        for script in [CLAIM, CHECK] {
            is_refused(data.run(&[script, WRITE], "9007199254740991", 0).await, stored);
        }
    }
    assert_eq!(data.get("{stock}").await, 4);
}

// promise: claims
#[tokio::test]
async fn a_check_refuses_a_reader_after_a_later_claim_and_raises_nothing() {
    let data = Data::start().await;
    let read: i64 = data.run(&[CHECK, READ], "7", 0).await.unwrap();
    assert_eq!(read, 5, "nobody has claimed");
    let () = data.run(&[CLAIM, WRITE], "6", 4).await.unwrap();
    let read: i64 = data.run(&[CHECK, READ], "7", 0).await.unwrap();
    assert_eq!(read, 4);
    let () = data.run(&[CLAIM, WRITE], "6", 3).await.unwrap();
    let () = data.run(&[CLAIM, WRITE], "8", 2).await.unwrap();
    assert_eq!(refusal(data.run::<i64>(&[CHECK, READ], "7", 0).await), "8");
}

// promise: claims
#[tokio::test]
async fn a_fenced_script_claims_under_the_name_of_the_lock_with_its_token() {
    let data = Data::start().await;
    let locks = LockManager::in_memory();
    let mut leases = Vec::new();
    for name in ["stock:42", "stock:42", "user:7"] {
        leases.push(locks.lock(name).run(async |lease: Lease| lease).await.unwrap());
    }
    let (read, write) = (FencedScript::claim(READ), FencedScript::claim(WRITE));
    let checked = FencedScript::check(READ);
    let redis = &mut data.redis.clone();
    let stock: i64 = read.of(&leases[1]).key("{stock}").invoke_async(redis).await.unwrap();
    let () = write.of(&leases[1]).key("{stock}").arg(stock - 1).invoke_async(redis).await.unwrap();
    refusal(write.of(&leases[0]).key("{stock}").arg(stock - 1).invoke_async::<()>(redis).await);
    refusal(checked.of(&leases[0]).key("{stock}").invoke_async::<i64>(redis).await);
    let () = write.of(&leases[2]).key("{stock}").arg(3).invoke_async(redis).await.unwrap();
    let fence: u64 = redis::cmd("GET").arg("{stock:42}:fence").query_async(redis).await.unwrap();
    assert_eq!(fence, leases[1].token().get(), "another lock has another fence");
}

#[tokio::test]
async fn a_mark_that_is_gone_and_a_fence_that_is_no_number_refuse() {
    let data = Data::start().await;
    refusal(data.run::<()>(&[COMPARE, WRITE], "old", 0).await);
    data.mark("a word").await;
    data.run::<()>(&[CLAIM, WRITE], "7", 0).await.unwrap_err();
    assert_eq!(data.get("{stock}").await, 5);
}
