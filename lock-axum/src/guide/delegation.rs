//! How another service can work under a lock that this one holds, with the same token.
//!
//! A purchase holds the lock of its order, and asks the warehouse to reserve the goods. Meanwhile the warehouse must not
//! reserve them for anybody else. It cannot take the lock itself, because the lock is held, so it adopts the lock of the purchase.
//!
//! ```
//! use std::time::Duration;
//!
//! use axum::extract::Path;
//! use axum::http::{HeaderValue, StatusCode};
//! use axum::routing::put;
//! use axum::{Extension, Router};
//! use lock_axum::delegation::Delegation;
//! use lock_axum::{Lease, LockManager, distributed_lock};
//!
//! // The warehouse. A request without a delegation acquires the lock.
//! #[distributed_lock(resource = "order:{order}", adopt = true)]
//! async fn reserve(Path(order): Path<u64>, lease: Lease) -> StatusCode {
//!     println!("reserving for {order}, with token {}", lease.token()); // which it claims with
//!     StatusCode::NO_CONTENT
//! }
//!
//! // The shop.
//! async fn buy(locks: &LockManager) -> Result<(), Box<dyn std::error::Error>> {
//!     let guard = locks.lock("order:42").acquire().await?;
//!     let delegation = guard.delegate().expires_in(Duration::from_secs(5)).audience("warehouse").create()?;
//!     let header = (delegation.name(), delegation.value());
//!     delegation.around(send("http://warehouse/42", header)).await?;
//!     guard.release().await?;
//!     Ok(())
//! }
//!
//! // An error unless the status is a success.
//! async fn send(url: &str, (name, value): (&str, HeaderValue)) -> Result<(), std::io::Error> {
//! #   _ = (url, name, value);
//! #   Ok(())
//! }
//! # let _: Router = Router::new().route("/{order}", put(reserve)).layer(Extension(LockManager::in_memory()));
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(buy(&LockManager::in_memory())).unwrap();
//! ```
//!
//! Both services are connected to the same masters, with the same prefix. The warehouse names itself with
//! [`audience("warehouse")`](crate::LockManagerBuilder::audience) on its builder. It then adopts delegations for this audience, and those without one.
//!
//! | | |
//! |---|---|
//! | `adopt = true`, [`LockLayer::adopt_delegations`](crate::LockLayer::adopt_delegations) | with the header `lock-delegation`, the handler runs under the lock of the sender; without it, under its own |
//! | [`Delegated`](crate::delegation::Delegated) | an extractor: only with the header. The handler looks after the resource, the kind and the loss itself |
//! | [`LockManager::adopt`](crate::LockManager::adopt) | for other protocols, and other headers |
//!
//! *When to use it.* The other service works on the same resource, on behalf of this one, which waits for the answer. If the other service
//! only has to refuse late requests, send it the [token](super::fencing) instead: that is cheaper, and needs no masters.
//!
//! *What it costs.* One look at all masters when a delegation is adopted, and another one at each third of what is left of the key's time
//! to live. Nothing for requests without the header. A lock that was delegated is not handed over inside the process: the next local
//! holder acquires it from the masters.
//!
//! # How long
//!
//! The adopter works for as long as a majority of the masters holds the lock for the sender, and no longer than
//! [`expires_in`](crate::delegation::Delegate::expires_in), the `ttl` by default. The sender renews the lock, as always. If it loses it, so does the
//! adopter: the handler is dropped, and the answer is 500 `lock-lost`. A delegation is not a promise to wait: if the sender dies, the
//! adopter has what is left of the `ttl`.
//!
//! The sender's lock is not deleted while the adopter may be at work. [`around`](crate::delegation::Delegation::around) says when it is not any more:
//! when the request was answered. After an error, such as a timeout, nobody knows, and the key of the lock is left to expire when it is
//! released: the next holder is up to a `ttl` late. So
//!
//! - make an error of every status that is not a success: a proxy that answers with 504 does not know either;
//! - read the response to its end inside of `around`, if the other service holds its lock until the end of the body;
//! - keep the `ttl` short, since it is the price of a timeout.
//!
//! # What a delegation is worth
//!
//! A delegation is a bearer credential: anyone who has it can use it, as often as they like, until it expires or the masters no longer have
//! the lock. A release deletes the lock there only if every delegation of it was answered. Otherwise the lock stays there for up to a
//! `ttl`, nobody else gets it, and the text remains valid for that long. It is signed with a secret of the holder and the masters, so nobody can make or change one. It is worth nothing on other masters,
//! for another resource, or for the next holder's lock. Send it over TLS, for a short time, and to an audience. It is in no log of this
//! library: [`value`](crate::delegation::Delegation::value) is marked as sensitive, so that HTTP clients hide it, too.
//!
//! Audiences are not secrets: they keep a service from accidentally using a delegation that was sent to another one. Access to the
//! masters is controlled by the masters.
//!
//! # What it cannot promise
//!
//! - Order between the two. Sender and adopter have one token, and the resource cannot tell them apart: a request of the adopter that is
//!   late may be carried out after the sender has gone on. Send idempotency keys, and wait for the answer before you go on.
//! - That a request is handled once. If a proxy sends it twice, both are under the lock, at the same time; and if the first is answered, and
//!   the lock released, the second goes on until it looks at the masters again, a third of the `ttl` later at most. The
//!   [claim](super::fencing) of the next holder shuts it out.
//! - Work after the answer. It tells the sender that the work is done, so a handler that adopts takes its lock into no
//!   [session](super::sessions), and spawns nothing that goes on.
//! - A chain. A service that adopted a lock cannot delegate it further; the holder can make as many delegations as it likes.
