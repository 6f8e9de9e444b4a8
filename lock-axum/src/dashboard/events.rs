use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, StreamExt as _};
use http::{StatusCode, header};
use lock_core::LockManager;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval};

use super::board::Board;
use crate::problem::Problem;

/// How many pages may be open. Each is a connection that lasts, and is sent up to some 100 kB a second; more people than that do
/// not look at one process.
const MAX_PAGES: usize = 16;
/// How often a page is sent the state.
const EVERY: Duration = Duration::from_secs(1);

/// The open pages of a dashboard. They share what they show.
pub(super) struct Pages {
    pub(super) board: Board,
    free: Arc<Semaphore>,
}

impl Pages {
    pub(super) fn new(locks: LockManager, control: bool) -> Self {
        Self { board: Board::new(locks, control), free: Arc::new(Semaphore::new(MAX_PAGES)) }
    }
}

/// `GET /events`: the state now, and every second. A slow page gets it less often.
pub(super) async fn events(State(pages): State<Arc<Pages>>) -> Response {
    let Ok(page) = Arc::clone(&pages.free).try_acquire_owned() else {
        let detail = format!("{MAX_PAGES} pages are open, which is the limit; close one of them");
        return Problem::untyped(StatusCode::SERVICE_UNAVAILABLE, detail).into_response();
    };
    // An open page would hold up the shutdown of the server.
    let closed = pages.board.locks.closed();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let states = stream::unfold((ticks, pages, page), |(mut ticks, pages, page)| async {
        ticks.tick().await;
        let state = Event::default().data(pages.board.state());
        Some((Ok::<_, Infallible>(state), (ticks, pages, page)))
    });
    ([(header::CACHE_CONTROL, "no-store")], [("x-accel-buffering", "no")], Sse::new(states.take_until(closed)))
        .into_response()
}
