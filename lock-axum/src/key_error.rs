use thiserror::Error;

/// The resource cannot be determined from the request.
///
/// Returned by the function given to [`LockLayer::with_key`](crate::LockLayer::with_key). The request is answered with
/// 400 `lock-key-invalid`, and the message is sent to the client as the `detail` of the problem document.
///
/// # Examples
///
/// ```
/// use axum::http::request::Parts;
/// use lock_axum::{KeyError, encode_value};
///
/// fn tenant(parts: &Parts) -> Result<String, KeyError> {
///     let header = parts.headers.get("x-tenant").ok_or_else(|| KeyError::new("the header x-tenant is missing"))?;
///     let tenant = header.to_str().map_err(|_| KeyError::new("the header x-tenant is not ASCII"))?;
///     Ok(format!("tenant:{}", encode_value(tenant)))
/// }
///
/// let (parts, ()) = axum::http::Request::new(()).into_parts();
/// assert_eq!(tenant(&parts).unwrap_err().to_string(), "the header x-tenant is missing");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct KeyError {
    message: String,
}

impl KeyError {
    /// Creates an error with a message for the client.
    ///
    /// # Examples
    ///
    /// ```
    /// let error = lock_axum::KeyError::new("the header x-tenant is missing");
    /// assert_eq!(error.to_string(), "the header x-tenant is missing");
    /// ```
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}
