use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    access::Access,
    board::Board,
    books, front,
    instances::{Instances, stand_still_when_told},
    live::{Live, Pages},
    masters::Tiles,
    metrics::{self, Metrics},
    payment::PagePayments,
    proxy::Proxy,
    rush::Rush,
    sales::{self, Desk},
    switches::Switches,
};
use crate::{
    proof::{Blueprint, LockStore, Masters, RunError},
    shop::{Database, Shop, Store, serve_until},
};

const INSTANCES: usize = 3;
const GRACE: Duration = Duration::from_secs(10);

/// The configuration of [`serve`].
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Where the locks are kept.
    pub locks: LockStore,
    /// Prefix of the keys of the locks, as in [`Config::prefix`](crate::Config::prefix).
    pub prefix: String,
    /// The database. If `None`, a temporary SQLite file that is removed at the end.
    pub database: Option<Database>,
    /// Whether the controls may be used from other machines. If not, they work only if `listen` is a
    /// loopback address. The service has no authentication.
    pub public: bool,
    /// What `/metrics` shows: see [`install_recorder`](super::install_recorder).
    pub metrics: Metrics,
}

/// Runs three instances of the shop, and a page that shows them, until `stop` completes. Then shuts
/// down gracefully.
///
/// During shutdown, requests that hold a lock finish, requests that wait for one get 503, and all
/// locks are released.
///
/// `listening` is called with the address once the service accepts connections. Requests for the
/// shop go to the instances in turn.
///
/// | request | answer |
/// |---|---|
/// | `POST /stock/{sku}/deduct` with `{"quantity":1}` | 200 `{order_id, sku, quantity, remaining, token}`; 409 if sold out, stale or busy; 404; 422 |
/// | `GET /stock/{sku}` | 200 `{sku, quantity}`; 404 |
/// | `GET /readyz` | 200 if locks can be acquired, otherwise 503 with the reason |
/// | `GET /metrics` | the metrics of the locks of all instances, for Prometheus, with the feature `metrics`; 404 without |
/// | `GET /` | the page |
/// | `GET /events` | what the page shows, as server-sent events; 503 if 16 pages are open |
/// | `POST /control/rush`, `/freeze`, `/slow` | 202, and buyers come; 409 |
/// | `POST /control/refill` | 204, and the stock is full and all orders are gone; 409 while there are buyers |
/// | `POST /control/trial` | 200 and what trials of the handlers found, as text; 409 while one runs |
/// | `POST /control/lock/{on,off}`, `/fence/{on,off}` | 204 |
/// | `POST /control/instances/{1..3}/{freeze,kill,revive}` | 204; 404 |
/// | `POST /control/masters/{1..5}/{kill,hang,empty,revive}` | 204; 404 unless the masters are in memory |
///
/// Controls answer 403 to other sites, and to everybody if `listen` is not a loopback address and
/// [`public`](ServeConfig::public) is not set. With the lock or the fence off, the answer to a
/// purchase is `{sku, quantity}`.
///
/// # Errors
///
/// [`RunError`] if the masters, the database or the address are unavailable.
///
/// # Cancel safety
///
/// If the future is dropped, the service stops listening, without a graceful shutdown. To shut down
/// gracefully, complete `stop`.
pub async fn serve(
    config: ServeConfig,
    stop: impl Future<Output = ()> + Send + 'static,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), RunError> {
    let database_failed = |error: std::io::Error| RunError::Database(error.into());
    let (database, temporary) = match config.database {
        Some(database) => (database, None),
        None => {
            let directory = tempfile::tempdir().map_err(database_failed)?;
            (Database::Sqlite(directory.path().join("shop.sqlite")), Some(directory))
        }
    };
    let store = Store::open(&database).await?;
    books::open(&store).await?;

    let masters = Masters::new(&config.locks);
    let (switches, board) = (Arc::new(Switches::new()), Arc::new(Board::new()));
    let build = {
        let (masters, switches, board) = (masters.clone(), Arc::clone(&switches), Arc::clone(&board));
        let (prefix, durable) = (config.prefix.clone(), temporary.is_none());
        Box::new(move |instance, listen, freeze| {
            let (switches, board) = (Arc::clone(&switches), Arc::clone(&board));
            Blueprint {
                masters: masters.clone(),
                prefix: prefix.clone(),
                database: database.clone(),
                durable,
                listen,
                routes: Box::new(move |store, locks| {
                    tokio::spawn(stand_still_when_told(instance, freeze, Arc::clone(&board)));
                    let (pauses, events) = (Arc::clone(&switches), Arc::clone(&board));
                    let payments = PagePayments { instance, switches: pauses, board: events };
                    sales::routes(Shop::new(store, payments), locks, Desk { instance, switches, board })
                }),
            }
        })
    };
    let instances = Instances::start(INSTANCES, build, Arc::clone(&board)).await?;
    let addresses = instances.addresses();

    // A manager of its own, because the manager of an instance may stand still.
    let locks = masters.connect(&config.prefix).await?;

    let listen_failed = |source| RunError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(listen_failed)?;
    let address = listener.local_addr().map_err(listen_failed)?;
    listening(address);

    let access = Access { listens_on_loopback: address.ip().is_loopback(), public: config.public };
    let stopping = CancellationToken::new();
    let _stops_if_dropped = stopping.clone().drop_guard();
    let live = Arc::new(Live {
        store,
        switches,
        board,
        tiles: Tiles::new(&masters),
        rush: Rush::new(addresses.clone(), stopping.clone()),
        instances,
        controls: access.is_open(),
        stop: stopping.clone(),
        pages: Pages::new(),
    });
    let router = front::router(Arc::clone(&live), access, Proxy::new(&addresses));
    let router = router.merge(metrics::route(config.metrics.clone()));
    let announce = {
        let stopping = stopping.clone();
        async move {
            stop.await;
            stopping.cancel();
        }
    };
    let stop_instances = async {
        stopping.cancelled().await;
        live.instances.stop().await
    };
    let (served, stopped, (), (), ()) = tokio::join!(
        serve_until(announce, listener, router, &locks, GRACE),
        stop_instances,
        live.update(),
        live.ask_masters(&locks),
        metrics::upkeep(&config.metrics, &stopping),
    );
    live.rush.finish().await;
    stopped?;
    let report = served.map_err(RunError::Instance)?;
    tracing::info!(released = report.released, revoked = report.revoked, "stopped");
    drop(live);
    if let Some(directory) = temporary {
        directory.close().map_err(database_failed)?;
    }
    Ok(())
}
