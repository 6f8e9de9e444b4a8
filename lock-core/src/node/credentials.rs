//! Credentials that are not in a URL: a provider is asked for them at each connect.

use std::error::Error;
use std::fmt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::timeout;

use super::{InvalidSetting, NodeError, NodeFuture, Refusal};

/// How long a provider may take to answer. Less than an inspection may take, which connects.
const TIMEOUT: Duration = Duration::from_secs(1);

/// User and password for the login to a server.
///
/// [`Debug`](fmt::Debug) shows the user alone.
///
/// # Examples
///
/// ```
/// use lock_core::Credentials;
///
/// let credentials = Credentials::new("app", "s3cret");
/// assert_eq!(format!("{credentials:?}"), r#"Credentials { user: "app", .. }"#);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
}

impl Credentials {
    /// Credentials of this user. For a Redis server that has a password and no users (`requirepass`), the user is `default`.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), password: password.into() }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Who is asked for credentials.
#[derive(Clone)]
pub(crate) struct CredentialsProvider(Arc<dyn Fn() -> NodeFuture<Result<Credentials, String>> + Send + Sync>);

impl CredentialsProvider {
    pub(crate) fn new<F, Fut, E>(provider: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let provider = Arc::new(provider);
        Self(Arc::new(move || {
            let provider = Arc::clone(&provider);
            Box::pin(async move { answer_of("the provider", &*provider).await })
        }))
    }

    /// Asks for credentials. Whatever the provider does, there is an answer in time.
    async fn ask(&self) -> Result<Credentials, NodeError> {
        let answer = timeout(TIMEOUT, (self.0)()).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("the provider did not answer within {TIMEOUT:?}")));
        let failed = |reason| NodeError::Credentials { reason };
        let credentials = answer.map_err(failed)?;
        let empty = [("user", &credentials.user), ("password", &credentials.password)];
        match empty.iter().find(|(_, value)| value.is_empty()) {
            Some((field, _)) => Err(failed(format!("the provider gave an empty {field}"))),
            None => Ok(credentials),
        }
    }
}

/// How a node logs in: by its address, or with what a provider gives at each connect.
#[derive(Clone, Default)]
pub(super) struct Login(Option<CredentialsProvider>);

impl Login {
    /// With what a provider gives, if nothing else says how: `has_login` is whether the address does, or `None` if it has none.
    pub(super) fn by(
        provider: CredentialsProvider,
        node: &str,
        has_login: Option<bool>,
    ) -> Result<Self, InvalidSetting> {
        match has_login {
            None => Err(InvalidSetting::credentials(node)),
            Some(true) => Err(InvalidSetting::credentials_beside_url(node)),
            Some(false) => Ok(Self(Some(provider))),
        }
    }

    /// What to log in with at the next connect; `None` if the address says that.
    pub(super) async fn ask(&self) -> Result<Option<Credentials>, NodeError> {
        match &self.0 {
            Some(provider) => provider.ask().await.map(Some),
            None => Ok(None),
        }
    }

    /// The error of a connection with this login. That a server refuses what a provider gave may pass: it was about to change, or the
    /// server has not heard of the new password.
    pub(super) fn error(&self, error: NodeError) -> NodeError {
        match error {
            NodeError::Refused(Refusal::Login { detail }) if self.0.is_some() => {
                NodeError::Credentials { reason: format!("the server refused those of the provider: {detail}") }
            }
            other => other,
        }
    }
}

/// What a function of the user's returns, or why it returns nothing. It is called in here, where a panic is caught.
pub(super) async fn answer_of<T, E, Fut>(who: &str, function: &(impl Fn() -> Fut + Sync)) -> Result<T, String>
where
    Fut: Future<Output = Result<T, E>> + Send,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    match AssertUnwindSafe(async { function().await }).catch_unwind().await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{who} failed: {}", with_causes(&*error.into()))),
        Err(_) => Err(format!("{who} panicked")),
    }
}

/// The text of an error and of its causes.
pub(super) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let text = match error.downcast_ref::<io::Error>() {
        // Without the number of the system's error.
        Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    };
    match error.source() {
        Some(cause) => format!("{text}: {}", with_causes(cause)),
        None => text,
    }
}
