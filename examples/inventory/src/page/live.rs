//! Everything that the page shows, as server-sent events.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::{StreamExt, stream};
use lock_axum::LockManager;
use serde::Serialize;
use tokio::{
    sync::{Semaphore, watch},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::{
    board::{Board, BoardView},
    books::{self, Books, SKU},
    instances::Instances,
    masters::{Tiles, TilesView},
    rush::{Rush, RushView},
    switches::Switches,
};
use crate::shop::{ShopError, Store};

/// How many pages may be open.
const MAX_PAGES: usize = 16;
/// How often the page is brought up to date, if anything has changed.
const EVERY: Duration = Duration::from_millis(100);
const ASK_MASTERS_EVERY: Duration = Duration::from_millis(500);

/// All that there is to show.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) store: Store,
    pub(crate) switches: Arc<Switches>,
    pub(crate) board: Arc<Board>,
    pub(crate) tiles: Tiles,
    pub(crate) rush: Rush,
    pub(crate) instances: Instances,
    pub(crate) controls: bool,
    pub(crate) stop: CancellationToken,
    pub(crate) pages: Pages,
}

/// The open pages, and what they were told last.
#[derive(Debug)]
pub(crate) struct Pages {
    newest: watch::Sender<String>,
    free: Arc<Semaphore>,
}

#[derive(Debug, Serialize)]
struct View {
    sku: &'static str,
    #[serde(flatten)]
    books: Books,
    lock: bool,
    fence: bool,
    instances: usize,
    /// Whether the buttons work.
    controls: bool,
    rush: RushView,
    #[serde(flatten)]
    board: BoardView,
    #[serde(flatten)]
    tiles: TilesView,
}

impl Live {
    /// Keeps the open pages up to date until the service stops.
    pub(crate) async fn update(&self) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.board.look();
            if self.pages.are_open() {
                match self.view().await {
                    Ok(view) => self.pages.show(view),
                    Err(error) => tracing::error!(%error, "cannot read the books"),
                }
            }
        }
    }

    /// Asks the masters how they are, while somebody looks, until the service stops.
    pub(crate) async fn ask_masters(&self, locks: &LockManager) {
        let mut ticks = interval(ASK_MASTERS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.stop.run_until_cancelled(ticks.tick()).await.is_some() {
            if self.pages.are_open() {
                self.stop.run_until_cancelled(self.tiles.ask(locks)).await;
            }
        }
    }

    async fn view(&self) -> Result<String, ShopError> {
        let view = View {
            sku: SKU,
            books: books::read(&self.store, SKU).await?,
            lock: self.switches.lock(),
            fence: self.switches.fence(),
            instances: self.instances.len(),
            controls: self.controls,
            rush: self.rush.view(),
            board: self.board.view(),
            tiles: self.tiles.view(),
        };
        // Numbers, strings, lists and maps with text keys: nothing that JSON cannot express.
        Ok(serde_json::to_string(&view).unwrap_or_default())
    }
}

impl Pages {
    pub(crate) fn new() -> Self {
        Self { newest: watch::Sender::default(), free: Arc::new(Semaphore::new(MAX_PAGES)) }
    }

    fn are_open(&self) -> bool {
        self.newest.receiver_count() > 0
    }

    /// Shows a state, if it is not what the pages show already.
    fn show(&self, view: String) {
        self.newest.send_if_modified(|newest| {
            let changed = *newest != view;
            *newest = view;
            changed
        });
    }
}

/// `GET /events`: the newest state, and each later one.
///
/// A slow page skips states. 503 if [`MAX_PAGES`] pages are open.
pub(crate) async fn events(State(live): State<Arc<Live>>) -> Response {
    let Ok(page) = Arc::clone(&live.pages.free).try_acquire_owned() else {
        let advice = [(header::RETRY_AFTER, "5")];
        return (StatusCode::SERVICE_UNAVAILABLE, advice, "too many pages are open").into_response();
    };
    // Subscribed first, so that no change falls between the two.
    let newest = live.pages.newest.subscribe();
    let first = match live.view().await {
        Ok(view) => view,
        Err(error) => return error.into_response(),
    };
    let later = stream::unfold((newest, page), |(mut newest, page)| async {
        newest.changed().await.ok()?;
        let state = newest.borrow_and_update().clone();
        Some((state, (newest, page)))
    });
    let states = stream::iter([first]).chain(later).map(|state| Ok::<_, Infallible>(Event::default().data(state)));
    // An open page would hold up the shutdown.
    let states = states.take_until(live.stop.clone().cancelled_owned());
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(5));
    ([("x-accel-buffering", "no")], Sse::new(states).keep_alive(keep_alive)).into_response()
}
