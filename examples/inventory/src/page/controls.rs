//! The buttons. Each is a POST without a body.

use std::{io, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::post,
};
use serde::Deserialize;
use serde_json::json;
use tokio::{sync::Mutex, task::spawn_blocking};

use super::{
    access::{Access, Refusal},
    books::{self, SKU},
    instances,
    live::Live,
    masters::Action,
    rush::Running,
    switches::Pause,
};
use crate::{
    proof::{RunError, try_out},
    shop::ShopError,
};

const BUYERS: u32 = 300;
/// Enough that some of them buy while one of them stands still.
const FEW_BUYERS: u32 = 12;

/// Why a button did nothing.
#[derive(Debug, thiserror::Error)]
enum ControlError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("buyers are in the shop; wait until they have left")]
    Busy,
    #[error("a trial is running; wait for its end")]
    TrialRuns,
    #[error("everything is sold; refill the stock first")]
    SoldOut,
    #[error("there is no such in-memory master")]
    NoSuchMaster,
    #[error("there is no such instance, or it is dead")]
    NoSuchInstance,
    #[error("the instance failed: {0}")]
    Instance(#[from] RunError),
    #[error("the database failed")]
    Shop(#[from] ShopError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnOff {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MasterAction {
    Kill,
    Hang,
    Empty,
    Revive,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum InstanceAction {
    Freeze,
    Kill,
    Revive,
}

/// The routes below `/control`.
pub(crate) fn routes(live: Arc<Live>, access: Access) -> Router {
    Router::new()
        .route("/rush", post(rush))
        .route("/freeze", post(freeze))
        .route("/slow", post(slow))
        .route("/refill", post(refill))
        .route("/trial", post(trial))
        .route("/lock/{to}", post(lock))
        .route("/fence/{to}", post(fence))
        .route("/instances/{number}/{action}", post(instance))
        .route("/masters/{number}/{action}", post(master))
        .layer(middleware::from_fn_with_state(access, check))
        .with_state(live)
}

async fn check(State(access): State<Access>, request: Request, next: Next) -> Response {
    match access.check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => ControlError::from(refusal).into_response(),
    }
}

async fn rush(State(live): State<Arc<Live>>) -> Result<StatusCode, ControlError> {
    live.rush.start(BUYERS)?;
    live.board.buyers_come(BUYERS);
    Ok(StatusCode::ACCEPTED)
}

/// Lets the next holder stand still for longer than its TTL.
async fn freeze(State(live): State<Arc<Live>>) -> Result<StatusCode, ControlError> {
    pause(&live, Pause::Freeze).await
}

/// Lets the next holder wait for a slow payment, and renew its lease.
async fn slow(State(live): State<Arc<Live>>) -> Result<StatusCode, ControlError> {
    pause(&live, Pause::SlowPayment).await
}

/// Pauses the next purchase, for which there are buyers or some are sent.
async fn pause(live: &Live, pause: Pause) -> Result<StatusCode, ControlError> {
    if books::read(&live.store, SKU).await?.stock == 0 {
        return Err(ControlError::SoldOut);
    }
    live.switches.pause_next(pause);
    if live.rush.start(FEW_BUYERS).is_ok() {
        live.board.buyers_come(FEW_BUYERS);
    }
    Ok(StatusCode::ACCEPTED)
}

async fn refill(State(live): State<Arc<Live>>) -> Result<StatusCode, ControlError> {
    // A purchase under way would write what it read before.
    if live.rush.is_running() || live.board.is_busy() {
        return Err(ControlError::Busy);
    }
    books::refill(&live.store).await?;
    live.board.control("the stock is refilled");
    Ok(StatusCode::NO_CONTENT)
}

/// Tries the handlers on databases and masters of their own: nothing of the running shop is touched.
async fn trial() -> Result<String, ControlError> {
    static RUNNING: Mutex<()> = Mutex::const_new(());
    let _running = RUNNING.try_lock().map_err(|_| ControlError::TrialRuns)?;
    let tried = spawn_blocking(try_out).await.map_err(io::Error::other).and_then(|tried| tried);
    let report = tried.map_err(|error| ControlError::Instance(RunError::Instance(error)))?;
    Ok(report.to_string())
}

async fn lock(State(live): State<Arc<Live>>, Path(to): Path<OnOff>) -> StatusCode {
    live.switches.set_lock(to == OnOff::On);
    live.board.control(if to == OnOff::On { "the lock is on" } else { "the lock is off" });
    StatusCode::NO_CONTENT
}

async fn fence(State(live): State<Arc<Live>>, Path(to): Path<OnOff>) -> StatusCode {
    live.switches.set_fence(to == OnOff::On);
    live.board.control(if to == OnOff::On { "the fence is on" } else { "the fence is off" });
    StatusCode::NO_CONTENT
}

async fn master(
    State(live): State<Arc<Live>>,
    Path((number, action)): Path<(usize, MasterAction)>,
) -> Result<StatusCode, ControlError> {
    let (action, done) = match action {
        MasterAction::Kill => (Action::Kill, "is killed"),
        MasterAction::Hang => (Action::Hang, "hangs"),
        MasterAction::Empty => (Action::Empty, "lost its data"),
        MasterAction::Revive => (Action::Revive, "is back"),
    };
    let name = live.tiles.act(number, action).ok_or(ControlError::NoSuchMaster)?;
    live.board.control(format!("{name} {done}"));
    Ok(StatusCode::NO_CONTENT)
}

async fn instance(
    State(live): State<Arc<Live>>,
    Path((number, action)): Path<(usize, InstanceAction)>,
) -> Result<StatusCode, ControlError> {
    let action = match action {
        InstanceAction::Freeze => instances::Action::Freeze,
        InstanceAction::Kill => instances::Action::Kill,
        InstanceAction::Revive => instances::Action::Revive,
    };
    let done = live.instances.act(number, action).await?;
    if done { Ok(StatusCode::NO_CONTENT) } else { Err(ControlError::NoSuchInstance) }
}

impl From<Running> for ControlError {
    fn from(_: Running) -> Self {
        Self::Busy
    }
}

impl IntoResponse for ControlError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Refused(_) => StatusCode::FORBIDDEN,
            Self::Busy | Self::SoldOut | Self::TrialRuns => StatusCode::CONFLICT,
            Self::NoSuchMaster | Self::NoSuchInstance => StatusCode::NOT_FOUND,
            Self::Instance(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Shop(error) => return error.into_response(),
        };
        let body = json!({
            "type": "about:blank",
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": self.to_string(),
        });
        (status, [(header::CONTENT_TYPE, "application/problem+json")], Json(body)).into_response()
    }
}
