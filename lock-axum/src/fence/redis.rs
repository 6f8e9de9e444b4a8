//! Claims for data in Redis: Lua scripts that check and write in one step.
//!
//! They are for any client library; for redis-rs there is `FencedScript`, with the feature `redis`. They refuse with an error reply whose code is [`STALE`]. Append the commands of a write to them:
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
//! With redis-rs and the feature `redis`:
//!
#![cfg_attr(feature = "redis", doc = "```no_run")]
#![cfg_attr(not(feature = "redis"), doc = "```ignore")]
//! use lock_axum::Lease;
//! use lock_axum::fence::StaleToken;
//! use lock_axum::fence::redis::{FencedScript, STALE};
//! use redis::RedisError;
//! use redis::aio::MultiplexedConnection;
//!
//! enum ShopError {
//!     Stale(StaleToken),
//!     Redis(RedisError),
//! }
//!
//! async fn sell(redis: &mut MultiplexedConnection, lease: &Lease) -> Result<(), ShopError> {
//!     let failed = |error: RedisError| match error.code() {
//!         Some(STALE) => ShopError::Stale(StaleToken::report("redis", lease, None)),
//!         _ => ShopError::Redis(error),
//!     };
//!     let stock = format!("{{{}}}", lease.resource()); // in a cluster, in the slot of the fence
//!
//!     // Claim, and read.
//!     let read = FencedScript::claim("return redis.call('GET', KEYS[2])");
//!     let quantity: i64 = read.of(lease).key(&stock).invoke_async(redis).await.map_err(failed)?;
//!     // Claim again, and write.
//!     let write = FencedScript::claim("redis.call('SET', KEYS[2], ARGV[2])");
//!     write.of(lease).key(&stock).arg(quantity - 1).invoke_async(redis).await.map_err(failed)
//! }
//! ```

#[cfg(feature = "redis")]
use lock_core::Lease;
#[cfg(feature = "redis")]
use lock_core::redis::{Script, ScriptInvocation};

#[cfg(feature = "redis")]
use super::Claimant;

/// A script of redis-rs that begins with a claim or with a check. The lock and the token of each invocation are of one lease.
///
/// `KEYS[1]` and `ARGV[1]` belong to the claim; what the invocation adds begins with `KEYS[2]` and `ARGV[2]`. The fence of the resource
/// `stock:42` is in the key `{stock:42}:fence`, so that in a cluster all keys with the tag `{stock:42}` are in its slot.
///
/// For an example see the [module](self).
#[cfg(feature = "redis")]
#[derive(Debug)]
pub struct FencedScript(Script);

#[cfg(feature = "redis")]
impl FencedScript {
    /// Claims, as [`CLAIM`] does, and then runs `work`, which is Lua.
    pub fn claim(work: &str) -> Self {
        Self(Script::new(&[CLAIM, work].concat()))
    }

    /// Checks a reader, as [`CHECK`] does, and then runs `work`, which is Lua.
    pub fn check(work: &str) -> Self {
        Self(Script::new(&[CHECK, work].concat()))
    }

    /// An invocation for the holder of a lease. Add keys and arguments to it, and invoke it.
    pub fn of(&self, lease: &Lease) -> ScriptInvocation<'_> {
        self.of_claimant(&Claimant::of(lease))
    }

    /// As [`of`](Self::of), for work that has no lease.
    pub fn of_claimant(&self, claimant: &Claimant) -> ScriptInvocation<'_> {
        let mut invocation = self.0.prepare_invoke();
        invocation.key(format!("{{{}}}:fence", claimant.resource())).arg(claimant.token().get());
        invocation
    }
}

/// A script that claims a resource: `KEYS[1]` is where the largest token is kept, `ARGV[1]` the token, both of one lock.
///
/// If a larger token has claimed, it replies with the error [`STALE`], followed by that token, and what is appended to it
/// does not run. Otherwise it remembers the token. A token that has claimed may claim again.
///
/// A token is an integer from 1 to 2^53 − 1 in decimal digits, as [`FencingToken`](crate::FencingToken) is displayed. If the argument is
/// anything else, or the key holds anything else, the reply is the error [`NOT_A_TOKEN`], and nothing is written.
///
/// Claim before you read, and in every script that writes. For redis-rs there is `FencedScript`.
pub const CLAIM: &str = concat!(include_str!("check.lua"), include_str!("claim.lua"));

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

/// A script that checks a reader: with the keys, the arguments and the replies of [`CLAIM`], but it raises nothing.
///
/// What is appended to it runs in the same step, so nobody claims between the check and the read.
pub const CHECK: &str = include_str!("check.lua");

/// The code of the error with which [`CLAIM`] and [`CHECK`] refuse what is not a token.
pub const NOT_A_TOKEN: &str = "NOTATOKEN";

/// The code of the error with which [`CLAIM`], [`CHECK`] and [`COMPARE`] refuse: the first word of the reply, `RedisError::code` in redis-rs.
pub const STALE: &str = "STALETOKEN";
