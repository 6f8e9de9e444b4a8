//! Claims for data in Redis: Lua scripts that check and write in one step.
//!
//! They are for any client library. Both refuse with an error reply whose code is [`STALE`]. Append the commands of a write to them:
//! Redis runs a script as a whole, so nothing comes between the check and the write.
//!
//! # Which one
//!
//! | | [`CLAIM`] | [`COMPARE`] |
//! |---|---|---|
//! | the store has to | compare numbers | compare for equality: compare-and-set, `If-Match` |
//! | the lock has to give | tokens that grow | any value that is unique: a random one, or the token |
//! | an old holder that comes late | is refused | is let in, and the holder whose mark it replaced is refused |
//! | no update of the data is lost | yes | yes |
//! | updates are made in the order of the lock's holders | yes | no |
//!
//! Use [`CLAIM`] wherever it is possible. [`COMPARE`] is what Sanfilippo answers in *Is Redlock safe?* (2016) to the demand
//! for fencing tokens: for one value that is read, changed and written, a random mark protects as well as an order. It does not
//! protect what several stores do together, nor an effect that must not come after a later one, such as "switched off"
//! after "switched on". It is right for stores that cannot order: write an object with `If-Match` of a version that was
//! read **under the lock**.
//!
//! The key of the token is beside the data: on the same server, in the same hash slot of a cluster, without an expiry, and
//! where `maxmemory-policy` is `noeviction`. A server that loses it accepts old tokens again, and a replica that is promoted may
//! have lost the last claims.
//!
//! # Examples
//!
//! ```no_run
//! use lock_axum::Lease;
//! use lock_axum::fence::{self, StaleToken};
//! use redis::aio::MultiplexedConnection;
//! use redis::{RedisError, Script};
//!
//! enum ShopError {
//!     Stale(StaleToken),
//!     Redis(RedisError),
//! }
//!
//! async fn sell(redis: &mut MultiplexedConnection, lease: &Lease) -> Result<(), ShopError> {
//!     let failed = |error: RedisError| match error.code() {
//!         Some(fence::redis::STALE) => ShopError::Stale(StaleToken::report("redis", lease.resource(), lease.token(), None)),
//!         _ => ShopError::Redis(error),
//!     };
//!     let (fence, stock, token) = ("{stock:42}:fence", "{stock:42}", lease.token().get());
//!
//!     // Claim, and read.
//!     let read = Script::new(&[fence::redis::CLAIM, "return redis.call('GET', KEYS[2])"].concat());
//!     let quantity: i64 = read.key(fence).key(stock).arg(token).invoke_async(redis).await.map_err(failed)?;
//!     // Claim again, and write.
//!     let write = Script::new(&[fence::redis::CLAIM, "redis.call('SET', KEYS[2], ARGV[2])"].concat());
//!     write.key(fence).key(stock).arg(token).arg(quantity - 1).invoke_async(redis).await.map_err(failed)
//! }
//! ```

/// A script that claims a resource: `KEYS[1]` is where the largest token is kept, `ARGV[1]` the token.
///
/// If a larger token has claimed, it replies with the error [`STALE`], followed by that token, and what is appended to it
/// does not run. Otherwise it remembers the token. A token that has claimed may claim again.
///
/// Claim before you read, and in every script that writes. For an example see the [module](self).
pub const CLAIM: &str = include_str!("claim.lua");

/// A script that checks that nobody else has marked a resource: `KEYS[1]` is where the mark is kept, `ARGV[1]` the caller's.
///
/// Before it reads, a holder marks the resource with a plain `SET` of a value that nobody else uses. Every script that writes
/// begins with `COMPARE`. If there is another mark, or none, it replies with the error [`STALE`], and what is appended to it does
/// not run.
///
/// The fencing token can be the value. For when this is enough see the [module](self).
///
/// # Examples
///
/// ```no_run
/// use lock_axum::fence::redis::COMPARE;
/// use redis::aio::MultiplexedConnection;
/// use redis::{AsyncCommands as _, RedisResult, Script};
///
/// async fn sell(redis: &mut MultiplexedConnection, random: &str) -> RedisResult<()> {
///     let (mark, stock) = ("{stock:42}:mark", "{stock:42}");
///     let () = redis.set(mark, random).await?;
///     let quantity: i64 = redis.get(stock).await?;
///     let write = Script::new(&[COMPARE, "redis.call('SET', KEYS[2], ARGV[2])"].concat());
///     write.key(mark).key(stock).arg(random).arg(quantity - 1).invoke_async(redis).await
/// }
/// ```
pub const COMPARE: &str = include_str!("compare.lua");

/// The code of the error with which [`CLAIM`] and [`COMPARE`] refuse: the first word of the reply, `RedisError::code` in redis-rs.
pub const STALE: &str = "STALETOKEN";
