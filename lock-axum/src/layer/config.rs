use std::sync::Arc;
use std::time::Duration;

use lock_core::LockManager;

use super::resource::ResourceSource;
use crate::log_once::LogOnce;
use crate::policy::{HoldUntil, Policy};
use crate::rejection::AnswerError;
use crate::upload::DEFAULT_TIMEOUT_MS;

/// How much of a request body is buffered by default, in bytes. The same limit as axum's own extractors have.
const DEFAULT_BODY_LIMIT: usize = 2 * 1024 * 1024;

/// The settings of a layer, shared with its services.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) locks: LockManager,
    pub(super) resource: ResourceSource,
    pub(super) policy: Policy,
    pub(super) on_error: Option<Arc<AnswerError>>,
    /// The most bytes of a request body that are buffered before the lock is acquired; `None` does not buffer the body.
    pub(super) body_limit: Option<usize>,
    /// How long that may take.
    pub(super) body_timeout: Duration,
    pub(super) no_path_parameter: LogOnce,
    pub(super) ambiguous_path_parameter: LogOnce,
    pub(super) upgrade_not_held: LogOnce,
}

impl Config {
    pub(super) fn new(locks: LockManager, resource: ResourceSource) -> Self {
        Self {
            locks,
            resource,
            policy: Policy::default(),
            on_error: None,
            body_limit: Some(DEFAULT_BODY_LIMIT),
            body_timeout: Duration::from_millis(DEFAULT_TIMEOUT_MS),
            no_path_parameter: LogOnce::default(),
            ambiguous_path_parameter: LogOnce::default(),
            upgrade_not_held: LogOnce::default(),
        }
    }

    /// Checks the settings of the lock, as the manager would for each request.
    #[track_caller]
    #[expect(clippy::panic, reason = "as axum panics on an invalid route: both are mistakes in the program")]
    pub(super) fn check(&self) {
        let adopts_session = self.policy.adopt && self.policy.hold == HoldUntil::SessionEnd;
        assert!(
            !adopts_session,
            "adopt_delegations cannot be combined with hold_until_session_end: the answer tells the holder that the work under \
             its lock is done"
        );
        let adopts_set = self.policy.adopt && matches!(self.resource, ResourceSource::Set(_));
        assert!(
            !adopts_set,
            "adopt_delegations cannot be combined with several resources: a delegation is of one lock"
        );
        let checked = self.policy.request(&self.locks, "").check_options();
        match (checked, self.policy.ttl) {
            (Ok(()), _) => {}
            (Err(error), Some(ttl)) if error.field == "min_validity" => {
                panic!("the manager's min_validity does not fit a ttl of {ttl:?}: {error}")
            }
            (Err(error), _) => panic!("{error}"),
        }
    }
}
