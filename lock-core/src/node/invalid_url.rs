use thiserror::Error;

/// The URL of a server is not valid, or asks for something that is not supported.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid URL {url:?}: {reason}")]
#[non_exhaustive]
pub struct InvalidUrl {
    /// The URL, without its password.
    pub url: String,
    /// What is wrong with it.
    pub reason: String,
}

impl InvalidUrl {
    pub(super) fn new(url: &str, reason: impl Into<String>) -> Self {
        Self { url: without_password(url), reason: reason.into() }
    }
}

/// Whether these are several URLs in one text, as in a variable of the environment.
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(super) fn are_several(urls: &str) -> bool {
    let Some((scheme, _)) = urls.split_once("://") else { return false };
    let next = format!("{scheme}://");
    urls.split(',').skip(1).any(|url| url.trim_start().starts_with(&next))
}

/// The URL for an error message, without what may be a secret, however broken the URL is: what is before the last `@`, what follows
/// the host and is no port, and what follows a `?` or `#`. Nothing is left of settings, as `host=h password=secret`.
fn without_password(url: &str) -> String {
    let is_scheme = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'+');
    let (scheme, rest) = match url.find("://") {
        Some(at) if is_scheme(&url[..at]) => url.split_at(at + 3),
        _ => ("", url),
    };
    let is_setting = |name: &str| name.trim().bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if rest.split_once('=').is_some_and(|(name, _)| is_setting(name)) {
        return format!("{scheme}***");
    }
    // A password may contain any of the characters that end it, so what comes last decides.
    let after_login = rest.rfind('@').map_or(0, |at| at + 1);
    let query = rest.find(['?', '#']);
    if query.is_some_and(|query| query < after_login) {
        return format!("{scheme}***");
    }
    let address = &rest[after_login..query.unwrap_or(rest.len())];
    let login = if after_login > 0 { "***@" } else { "" };
    let query = if query.is_some() { "?***" } else { "" };
    if scheme.contains("unix") {
        return format!("{scheme}{login}{address}{query}");
    }
    let (hosts, path) = address.split_at(address.find('/').unwrap_or(address.len()));
    let mut start = 0;
    for host in hosts.split(',') {
        let port = host.rfind(':').filter(|colon| !host[*colon..].contains(']'));
        // `user:password` instead of a host.
        if let Some(colon) = port.filter(|colon| !host[colon + 1..].bytes().all(|byte| byte.is_ascii_digit())) {
            return format!("{scheme}{login}{}:***", &hosts[..start + colon]);
        }
        start += host.len() + 1;
    }
    format!("{scheme}{login}{hosts}{path}{query}")
}
