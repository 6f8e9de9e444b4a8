//! Do I need a lock here? Is it in the right place?
//!
//! A [`Trial`](crate::testing::Trial) answers that in a test of your service: it runs two requests in every relevant order of their steps, and reports the
//! orders in which your check fails. It needs the feature `testing`:
//!
//! ```toml
//! [dev-dependencies]
//! lock-axum = { version = "0.1", features = ["testing"] }
//! ```
//!
//! This page follows one handler. It sells a unit: it reads the stock, asks for a payment, and writes the stock and the order.
//!
//! # Without a lock
//!
//! State what must be true when all requests have ended. Here each unit is in stock, or an order has it:
//!
#![cfg_attr(all(feature = "testing", feature = "rusqlite"), doc = "```")]
#![cfg_attr(not(all(feature = "testing", feature = "rusqlite")), doc = "```ignore")]
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/do_i_need_a_lock/shop.rs"));
//! async fn try_out(handler: fn() -> MethodRouter<Db>) -> Outcome {
//!     Trial::new(|| async { Db::open() }) // what the instances share, fresh for each run
//!         .service(move |locks, db| Router::new().route("/deduct", handler()).layer(Extension(locks)).with_state(db))
//!         .request(|| request("/deduct"))
//!         .request(|| request("/deduct"))
//!         .check(|db, _answers| async move {
//!             let sum = "SELECT quantity + orders FROM stock";
//!             db.transaction(|tx| Ok(tx.query_row(sum, [], |row| row.get::<_, i64>(0))?)).await.unwrap() == 100
//!         })
//!         .run()
//!         .await
//! }
//!
//! async fn deduct(State(db): State<Db>) -> Result<(), ClaimError> {
//!     let quantity = db.transaction(|tx| read(tx)).await?;
//!     pay().await;
//!     db.transaction(move |tx| write(tx, quantity - 1)).await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let outcome = try_out(|| post(deduct)).await;
//! println!("{outcome}");
//! # is_shown(&outcome);
//! assert!(outcome.breaks(Question::Race));
//! # }
//! ```
//!
//! It prints:
//!
//! ```text
//! race: 2 requests, 8 schedules, 4 break the check
//!   A POST /deduct   step 2 of 3, after `SELECT quantity FROM stock`   held here
//!   B POST /deduct   ran to its end: 200
//!   A                went on: 200
//!   check: false
//!   No request takes a lock. Guard what has to happen alone: #[distributed_lock(resource = "..")], or let the database do it.
//! the check holds: hang-up: none of 6 schedules
//! no request takes a lock
//! 18 runs
//! ```
//!
//! A stood still after it had read the stock, and B sold the same unit. The handler needs a lock, or [another tool](super::when_not): for this one alone,
//! `UPDATE ... SET quantity = quantity - 1` is the better answer. With a payment between the read and the write, it is not enough.
//!
//! # With a lock
//!
#![cfg_attr(all(feature = "testing", feature = "rusqlite"), doc = "```")]
#![cfg_attr(not(all(feature = "testing", feature = "rusqlite")), doc = "```ignore")]
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/do_i_need_a_lock/shop.rs"));
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/do_i_need_a_lock/try_out.rs"));
//! #[distributed_lock(resource = "stock:42")]
//! async fn deduct(State(db): State<Db>) -> Result<(), ClaimError> {
//!     let quantity = db.transaction(|tx| read(tx)).await?;
//!     pay().await;
//!     db.transaction(move |tx| write(tx, quantity - 1)).await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let outcome = try_out(|| post(deduct)).await;
//! println!("{outcome}");
//! # is_shown(&outcome);
//! assert!(!outcome.breaks(Question::Race) && outcome.breaks(Question::Frozen));
//! # }
//! ```
//!
//! It prints:
//!
//! ```text
//! frozen: 2 requests, 6 schedules, 4 break the check
//!   A POST /deduct   step 2 of 3, after `SELECT quantity FROM stock`   stands still here for longer than its ttl
//!   B POST /deduct   ran to its end: 200
//!   A                went on: 200
//!   check: false
//!   A wrote after the next holder had read: no lock can prevent that. Claim the fence in each transaction, before it reads (lock_axum::fence).
//! the check holds: race: none of 26 schedules, hang-up: none of 6 schedules, lost: none of 6 schedules
//! without locks 4 of 8 schedules break it: the lock is needed
//! 60 runs
//! ```
//!
//! The race is gone: the lock is in the right place, and without it, some schedules break the check. What is left is a holder that stands still for longer
//! than its `ttl`. It may be a virtual machine that is suspended. Its lock ends, so that it blocks nobody, and the next holder begins; then the first one goes on.
//!
//! # With a claim in the wrong place
//!
//! The database has to refuse the late write: it compares the fencing tokens. To claim only where the handler writes looks sufficient:
//!
#![cfg_attr(all(feature = "testing", feature = "rusqlite"), doc = "```")]
#![cfg_attr(not(all(feature = "testing", feature = "rusqlite")), doc = "```ignore")]
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/do_i_need_a_lock/shop.rs"));
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/do_i_need_a_lock/try_out.rs"));
//! #[distributed_lock(resource = "stock:42")]
//! async fn deduct(State(db): State<Db>, lease: Lease) -> Result<(), ClaimError> {
//!     let quantity = db.transaction(|tx| read(tx)).await?;
//!     pay().await;
//!     db.transaction(move |tx| {
//!         claim(tx, &lease)?;
//!         write(tx, quantity - 1)
//!     })
//!     .await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let outcome = try_out(|| post(deduct)).await;
//! println!("{outcome}");
//! # is_shown(&outcome);
//! assert!(!outcome.breaks(Question::Race) && outcome.breaks(Question::Frozen));
//! # }
//! ```
//!
//! It prints:
//!
//! ```text
//! frozen: 2 requests, 8 schedules, 1 breaks the check
//!   A POST /deduct   step 1 of 3, after `lock.acquire stock:42`   stands still here for longer than its ttl
//!   B POST /deduct   step 2 of 3, after `SELECT quantity FROM stock`   held here
//!   A                went on: 200
//!   B                went on: 200
//!   check: false
//!   A wrote after the next holder had read: no lock can prevent that. Claim the fence in each transaction, before it reads (lock_axum::fence).
//! the check holds: race: none of 26 schedules, hang-up: none of 6 schedules, lost: none of 6 schedules
//! without locks 1 of 10 schedules breaks it: the lock is needed
//! 64 runs
//! ```
//!
//! B had read, and had not claimed yet, when A wrote with its older token. The trial finds that with a second switch.
//!
//! # Claim, then read, then write
//!
#![cfg_attr(all(feature = "testing", feature = "rusqlite"), doc = "```")]
#![cfg_attr(not(all(feature = "testing", feature = "rusqlite")), doc = "```ignore")]
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/do_i_need_a_lock/shop.rs"));
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/do_i_need_a_lock/try_out.rs"));
//! #[distributed_lock(resource = "stock:42")]
//! async fn deduct(State(db): State<Db>, lease: Lease) -> Result<(), ClaimError> {
//!     let first = lease.clone();
//!     db.transaction(move |tx| {
//!         claim(tx, &first)?;
//!         read(tx)
//!     })
//!     .await?;
//!     pay().await;
//!     db.transaction(move |tx| {
//!         claim(tx, &lease)?;
//!         let quantity = read(tx)?;
//!         write(tx, quantity - 1)
//!     })
//!     .await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let outcome = try_out(|| post(deduct)).await;
//! println!("{outcome}");
//! # is_shown(&outcome);
//! outcome.assert_holds();
//! # }
//! ```
//!
//! It prints:
//!
//! ```text
//! the check holds: race: none of 26 schedules, hang-up: none of 6 schedules, lost: none of 6 schedules, frozen: none of 24 schedules
//! without locks none of 26 schedules breaks it either: the data protects itself, by a claim or a constraint
//! 96 runs
//! ```
//!
//! # What to do about an answer
//!
//! | question | what was tried | when it breaks the check |
//! |---|---|---|
//! | `race` | one request is held at a step, and the other runs | guard both, with the same name, from before the first read until after the commit |
//! | `hang-up` | the client of one goes away | one transaction, or `on_disconnect = "finish"` |
//! | `lost` | one loses its lock, and is told | `on_lost = "cancel"`, and a claim |
//! | `frozen` | one stands still for longer than its `ttl` | [claim](super::fencing) in each transaction, before it reads |
//! | `unlocked` | as `race`, with locks that exclude nobody | nothing to do: the lock is needed. If none breaks, the data protects itself |
//!
//! Ask some of them with [`only`](crate::testing::Trial::only): a service without a fence may want the race alone, for now.
//!
//! # What a trial does not see
//!
//! A trial knows the steps of a request: where its future waits. Code between two awaits runs as one piece there, while two threads may interleave it in
//! production; [`testing::step`](crate::testing::step) adds a step by hand. Work that a handler spawns runs when it likes. Two requests find what two requests can do
//! wrong: add the ones that belong together, such as a sale and a refund. And a trial finds faults; that it finds none is no proof.
//!
//! It uses masters in memory. The database is yours: make its state in the closure of [`Trial::new`](crate::testing::Trial::new), under a name of its own, and not in
//! one that other tests use. Where a request waits for a lock of the database that another one holds, each such schedule takes 100 ms.
//!
//! Steps are told by the last `tracing` event or span of the request before them. sqlx logs its statements; other clients can be logged by hand, as here.
