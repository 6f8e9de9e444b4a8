use std::fmt::Display;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// All bytes except `A-Za-z0-9-._~`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a value for a resource that is built by hand, as the templates of macro and layer do: every byte except
/// `A-Za-z0-9-._~`.
///
/// The separators of a resource (`:`, `/`, …) cannot occur in an encoded value, so a value such as `a:b` cannot forge another
/// resource. And the same values are the same lock, however it is acquired.
///
/// # Examples
///
/// A handler, a route and a job that exclude each other for every name of a file:
///
/// ```
/// use axum::Router;
/// use axum::body::Body;
/// use axum::extract::Path;
/// use axum::http::{Request, StatusCode};
/// use axum::routing::post;
/// use lock_axum::{LockLayer, LockManager, distributed_lock, encode_value};
/// use tower::ServiceExt as _;
///
/// #[distributed_lock(resource = "file:{name}", wait = "0s")]
/// async fn rename(Path(name): Path<String>) -> String {
///     format!("renaming {name}")
/// }
///
/// async fn replace(Path(name): Path<String>) -> String {
///     format!("replacing {name}")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = LockManager::in_memory();
/// let layer = LockLayer::new(locks.clone(), "file:{name}").wait(std::time::Duration::ZERO);
/// let app = Router::new()
///     .route("/rename/{name}", post(rename))
///     .route("/replace/{name}", post(replace).route_layer(layer))
///     .layer(axum::Extension(locks.clone()));
///
/// let name = "annual report/2026";
/// let guard = locks.lock(format!("file:{}", encode_value(name))).acquire().await?;
/// for path in ["/rename/annual%20report%2F2026", "/replace/annual%20report%2F2026"] {
///     let response = app.clone().oneshot(Request::post(path).body(Body::empty())?).await?;
///     assert_eq!(response.status(), StatusCode::CONFLICT);
/// }
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
pub fn encode_value(value: impl Display) -> String {
    let mut encoded = String::new();
    push_encoded(&mut encoded, &value);
    encoded
}

/// The value of a placeholder.
#[diagnostic::on_unimplemented(
    message = "a placeholder needs a value with `Display`, which `{Self}` does not have",
    label = "`{Self}` has no `Display`",
    note = "an `Option` has none, because it has to be said which lock `None` takes: take the value out of it before, or write \
            `key = …`, with `encode_value` for the value that is there"
)]
pub trait PlaceholderValue {
    /// Appends the value to a resource, percent-encoded.
    fn push_to(&self, resource: &mut String);
}

#[diagnostic::do_not_recommend]
impl<T: Display + ?Sized> PlaceholderValue for T {
    fn push_to(&self, resource: &mut String) {
        push_encoded_bytes(resource, self.to_string().as_bytes());
    }
}

/// Appends a value to a resource, percent-encoded. The separators of a template (`:`, `/`, …) cannot occur in an
/// encoded value, so a value such as `a:b` cannot forge another resource.
pub fn push_encoded(resource: &mut String, value: &(impl PlaceholderValue + ?Sized)) {
    value.push_to(resource);
}

/// [`push_encoded`] for a value that need not be UTF-8, such as a header.
pub(crate) fn push_encoded_bytes(resource: &mut String, value: &[u8]) {
    resource.extend(percent_encode(value, ENCODED));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_forge_another_resource() {
        let resource = |value: &str| format!("stock:{}", encode_value(value));
        assert_eq!(resource("a-Z.0_9~"), "stock:a-Z.0_9~");
        assert_eq!(resource("a:b"), "stock:a%3Ab");
        assert_eq!(resource("a%3Ab"), "stock:a%253Ab", "different from the one above");
        assert_eq!(resource("{ü}\n"), "stock:%7B%C3%BC%7D%0A");
        assert_eq!(resource(""), "stock:");
    }
}
