//! Who holds a lock, and how to take it from them.
//!
//! A holder that crashes needs none of this: its lock ends within its `ttl`. A holder that hangs and goes on renewing keeps its lock
//! until `max_hold`, a minute by default.
//!
//! # See who holds it
//!
//! [`LockManager::inspect`](crate::LockManager::inspect), or `lockctl inspect stock:42`, asks every master now, and changes nothing:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lock_axum::LockError> {
//! use lock_axum::inspection::LockVerdict;
//!
//! # let locks = lock_axum::LockManager::in_memory();
//! # let _guard = locks.lock("stock:42").acquire().await?;
//! let report = locks.inspect("stock:42").await?;
//! if report.verdict() == LockVerdict::Held {
//!     let waiting = report.nodes.iter().map(|node| node.waiters).max().unwrap_or(0);
//!     println!("held by {:?}, {waiting} processes wait", report.holder);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The report says how it was when the masters replied. Never decide by a report who may write: that is what the token is for.
//!
//! Holders are shown by tags of eight digits. A tag stands for one grant, so the same tag twice is the same hold. It is not the owner
//! id, with which anybody could release the lock. The masters do not know which process has it, but the logs of the services do: in
//! the span `lock.hold`.
//!
//! # Take it
//!
//! [`LockManager::force_release`](crate::LockManager::force_release), or `lockctl force-release stock:42`, evicts the holder.
//! The next caller has the lock 125 ms later. **The former holder is not stopped**: nothing can stop a process from afar. It cannot renew, so it
//! notices with its next renewal, at most a third of its `ttl` later, and may work until then. If it does not renew, or was renewed
//! for the last time before the end of its `max_hold`, it notices at the end of its validity: up to a `ttl` later. If the process is
//! frozen, it notices when it goes on. No other caller in its process gets the lock beside the next holder.
//!
//! So claim the token of the forced release at what the lock protects, as a holder would. From then on every write with a token of
//! the former holder is refused:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lock_axum::LockError> {
//! # let locks = lock_axum::LockManager::in_memory();
//! # let stuck = locks.lock("stock:42").acquire().await?;
//! let forced = locks.force_release("stock:42").await?;
//! // UPDATE stock SET fence = :token WHERE sku = 42 AND fence <= :token
//! let token = forced.token.as_i64();
//! # assert!(stuck.token().as_i64() < token);
//! # assert!(token < locks.lock("stock:42").acquire().await?.token().as_i64());
//! # Ok(())
//! # }
//! ```
//!
//! The token is larger than every token of the former holder, and smaller than the tokens of later holders, so the claim shuts
//! out nobody else. (There is one exception: a caller that acquires the lock while it is being taken by requests that take
//! longer than a `ttl`. It keeps the lock, and its writes are refused.) A resource that checks no tokens has two writers
//! for that moment: then stop the process first.
//!
//! # What it does not do
//!
//! - It never takes the lock from a successor. If somebody else acquired it in the meantime, the answer is
//!   [`Contended`](crate::LockError::Contended), and the former holder has lost it.
//! - It does not work without a majority of the masters.
//! - It bars the former *grant*, not the process, which may acquire the lock again like any other. If it should not, stop it.
