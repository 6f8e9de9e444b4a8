//! Claims for data in Redis: the scripts on a real server.

use lock_axum::fence::redis::{CLAIM, COMPARE, STALE};
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

#[tokio::test]
async fn a_mark_that_is_gone_and_a_fence_that_is_no_number_refuse() {
    let data = Data::start().await;
    refusal(data.run::<()>(&[COMPARE, WRITE], "old", 0).await);
    data.mark("a word").await;
    data.run::<()>(&[CLAIM, WRITE], "7", 0).await.unwrap_err();
    assert_eq!(data.get("{stock}").await, 5);
}
