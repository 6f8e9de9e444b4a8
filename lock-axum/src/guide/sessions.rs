//! How to hold a lock for longer than a handler runs: for a streamed body, or for the session of a WebSocket.
//!
//! | The lock is held until | Attribute | Layer |
//! |---|---|---|
//! | the handler has answered | the default | the default |
//! | the response's body has been sent | `hold = "body"` | [`hold_until_body_end`](crate::LockLayer::hold_until_body_end) |
//! | the session has ended | `hold = "session"`, `max_hold = "…"`, a parameter [`Hold`](crate::Hold) | [`hold_until_session_end`](crate::LockLayer::hold_until_session_end), the extractor [`Hold`](crate::Hold) |
//!
//! The default is right for nearly all handlers: what they do under the lock is done when they answer.
//!
//! # Until the body has been sent
//!
//! Use this for a response that is produced under the lock while it is sent: an export that is read page by page, or
//! server-sent events.
//!
//! ```
//! # use axum::body::Body;
//! # use axum::extract::Path;
//! # use lock_axum::distributed_lock;
//! #[distributed_lock(resource = "export:{tenant}", hold = "body", max_hold = "10m")]
//! async fn export(Path(tenant): Path<String>) -> Body {
//!     pages_of(tenant) // Body::from_stream(..)
//! }
//! # fn pages_of(tenant: String) -> Body { tenant.into() }
//! # axum::Router::<()>::new().route("/{tenant}", axum::routing::get(export));
//! ```
//!
//! The lock is released with the last part of the body, or when the client hangs up. A loss ends the body with an
//! error, so that the client does not take a part for the whole. The answer to `HEAD` and an empty body release
//! at once. The client decides how fast it reads, and the lock waits for it: `max_hold` is the limit, and it should be
//! written, because the manager's default is 60 seconds.
//!
//! # For a session
//!
//! The answer to an upgrade is sent before the session begins, and the session runs in a task that the lock does
//! not track. A [`Hold`](crate::Hold) takes the lock there:
//!
//! ```
//! use axum::extract::Path;
//! use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
//! use axum::response::Response;
//! use lock_axum::{Hold, Lease, distributed_lock};
//!
//! #[distributed_lock(resource = "document:{id}", hold = "session", max_hold = "1h", wait = "0s")]
//! async fn edit(Path(id): Path<String>, ws: WebSocketUpgrade, hold: Hold) -> Response {
//!     ws.on_upgrade(move |socket| hold.run(async |lease| type_along(id, socket, lease).await))
//! }
//!
//! async fn type_along(id: String, mut socket: WebSocket, lease: Lease) {
//!     while let Some(Ok(Message::Text(text))) = socket.recv().await {
//!         println!("{id}: {text}, with token {}", lease.token()); // every write claims with the token
//!     }
//! }
//! # axum::Router::<()>::new().route("/{id}", axum::routing::any(edit));
//! ```
//!
//! The first client has the document. Until it leaves, the others get 409 instead of an upgrade.
//!
//! *When to use it.* One client at a time, for as long as it is connected: one editor of a document, one operator of
//! a machine, one consumer of a feed. It is no reservation: a user who must be able to close the lid and come back needs a
//! [row that says so](super::when_not#locks-on-the-clients-behalf).
//!
//! *What it costs.* A renewal every third of the `ttl`, for each open session, on every master: 10,000 sessions with a
//! `ttl` of 10 seconds are 3,000 renewals a second, and each manager makes 1024 of them at once. A longer `ttl` costs
//! less, and makes the others wait longer if the process dies. `wait` should be short: a session does not end because
//! somebody waits.
//!
//! ## How a session ends
//!
//! | Event | What follows |
//! |---|---|
//! | the session's future ends | the lock is released |
//! | the lease is lost; `max_hold` is over | the future is dropped, the socket is closed without a closing frame |
//! | the client closes the socket, or its connection breaks | `recv` returns it, and the session's future decides: it should end |
//! | the client vanishes silently | nothing, until `max_hold`: send pings, and drop clients that do not answer |
//! | the client hangs up before the upgrade is complete | axum drops the callback of `on_upgrade`, and the lock is released |
//! | the session has not begun 10 seconds after its handler ended | the lock is released, with the event `lock.session_not_begun` |
//! | the handler answers without using its `Hold` | the lock is released with the answer; if that is an upgrade, with the event `lock.upgrade_not_held` |
//! | the task of the session panics or is aborted | its future is dropped, and then the lock is released |
//! | a shutdown | `shutdown` waits for the session for its grace, then revokes the lease, which cuts the session |
//!
//! `on_disconnect` concerns the handler only. After its answer, a client that leaves ends the session only through its
//! socket. `on_lost = "continue"` concerns both: the session goes on after a loss, and must look at its lease. That is
//! useful to say goodbye.
//!
//! ```
//! # use axum::extract::Path;
//! # use axum::extract::ws::{Message, WebSocketUpgrade};
//! # use axum::response::Response;
//! # use lock_axum::{Hold, distributed_lock};
//! #[distributed_lock(resource = "feed:{id}", hold = "session", max_hold = "1h", on_lost = "continue")]
//! async fn consume(Path(id): Path<String>, ws: WebSocketUpgrade, hold: Hold) -> Response {
//!     ws.on_upgrade(move |mut socket| {
//!         hold.run(async move |lease| {
//!             while let Some(Ok(_)) = tokio::select! { message = socket.recv() => message, () = lease.lost() => None } {
//!                 println!("{id}");
//!             }
//!             _ = socket.send(Message::Close(None)).await; // not under the lock any more
//!         })
//!     })
//! }
//! # axum::Router::<()>::new().route("/{id}", axum::routing::any(consume));
//! ```
//!
//! `close_on` does not notify sessions, and `axum::serve` does not wait for them: [`shutdown`](super::shutdown) does. To
//! end them before its grace is over, let them listen to the same signal.
//!
//! ## Inside another lock
//!
//! A handler inside the scope of the same lock, under a `LockLayer` of the same resource for example, shares the outer
//! lease. Its session keeps that lease when the outer one has answered, and the outer one's `ttl` and `max_hold`
//! apply: set its `max_hold`, too. A lock on another resource around the handler is released when the handler has
//! answered.
//!
//! ## What it cannot promise
//!
//! - That the client knows. It learns of a loss when its socket closes, which takes a round trip, and longer over a
//!   broken network. Meanwhile the next client may have its session. What matters is checked in the service, by the
//!   [token](super::fencing), and not in the browser.
//! - That a session survives a deployment. Clients reconnect, and another may be faster.
//! - Fairness between refused clients: with a `wait` of zero there is no queue. Clients try again, and one of them
//!   gets in.
