//! Trials without axum: jobs, consumers of messages, and anything else that is a future.
//!
//! [`Trial::tasks`](crate::testing::Trial::tasks) polls a function of yours, as [`request`](crate::testing::Trial::request) does with a handler. It gets a
//! [`LockManager`](crate::LockManager) of its own, as each process has, and a clone of what all share. Its output is the answer that the check sees, as `{:?}` writes it.
//!
//! A nightly job runs on two machines, and must send each invoice once:
//!
#![cfg_attr(feature = "testing", doc = "```")]
#![cfg_attr(not(feature = "testing"), doc = "```ignore")]
//! use std::collections::BTreeMap;
//! use std::sync::{Arc, Mutex};
//!
//! use lock_axum::LockManager;
//! use lock_axum::testing::{Outcome, Question, Trial, step};
//!
//! /// What the two machines share: how often each invoice was sent.
//! type Sent = Arc<Mutex<BTreeMap<u32, u32>>>;
//!
//! async fn send_invoices(sent: &Sent) {
//!     for invoice in 1..=2 {
//!         let is_due = !sent.lock().unwrap().contains_key(&invoice);
//!         step("between the look and the mail").await; // a trial may hold the job here
//!         if is_due {
//!             *sent.lock().unwrap().entry(invoice).or_default() += 1;
//!         }
//!     }
//! }
//!
//! async fn unguarded(_locks: LockManager, sent: Sent) {
//!     send_invoices(&sent).await;
//! }
//!
//! async fn guarded(locks: LockManager, sent: Sent) -> bool {
//!     locks.lock("invoices").run(async |_lease| send_invoices(&sent).await).await.is_ok()
//! }
//!
//! fn trial() -> Trial<Sent> {
//!     Trial::new(|| async { Sent::default() })
//!         .check(|sent, _answers| async move { sent.lock().unwrap().values().all(|times| *times == 1) })
//!         .only([Question::Race, Question::Lost])
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let outcome: Outcome = trial().tasks(2, unguarded).run().await;
//! assert!(outcome.breaks(Question::Race));
//! assert_eq!(outcome.broken[0].place.as_deref(), Some("step \"between the look and the mail\""));
//!
//! trial().tasks(2, guarded).run().await.assert_holds();
//! # }
//! ```
//! `frozen` is left out here: mail cannot be fenced. A job that stands still for longer than its lock lives may send an invoice that the next one has sent, and
//! no lock can prevent that; let the receiver recognize it, by its number.
//!
//! # Other services, and other frameworks
//!
//! Any `tower::Service` for requests of the `http` crate fits [`Trial::service`](crate::testing::Trial::service), with or without a router. For frameworks
//! with other types, call the function behind the handler as a task.
//!
//! What matters is that the trial polls the work itself. A request that is sent to a server over a socket has the steps of a client, and the
//! handler runs in a task of the server, where nothing can hold it.
//!
//! # Two locks, in both orders
//!
//! A trial finds two requests that wait for each other: it says that they are stuck, and where. Programs that never meet in a test are watched by
//! [`LockOrder`](crate::testing::LockOrder), an observer that warns once for each two templates that are nested in both orders anywhere in the process.
