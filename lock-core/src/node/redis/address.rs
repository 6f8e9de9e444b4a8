use redis::{ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion};
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

/// Where a Redis server is: for a connection, and for people.
pub(super) struct Address {
    pub(super) name: String,
    pub(super) info: ConnectionInfo,
}

impl Address {
    /// Parses a URL. Neither errors nor the name contain the password.
    pub(super) fn parse(url: &str) -> Result<Self, InvalidUrl> {
        let invalid = |reason: &str| InvalidUrl { url: without_password(url), reason: reason.to_owned() };
        let parsed = redis::parse_redis_url(url)
            .ok_or_else(|| invalid("expected redis://[user:password@]host[:port][/database] or unix:///path"))?;
        if matches!(parsed.scheme(), "rediss" | "valkeys") {
            return Err(invalid(
                "TLS is not built in; use redis:// over a private network or a tunnel, or redis_factory",
            ));
        }
        let info = parsed.into_connection_info().map_err(|error| invalid(error.category()))?;
        let database = info.redis_settings().db();
        let name = match database {
            0 => info.addr().to_string(),
            database => format!("{}/{database}", info.addr()),
        };
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        Ok(Self { name, info: info.set_redis_settings(settings) })
    }
}

/// The URL for an error message. Everything before the last `@` may be a password, however broken the URL is.
fn without_password(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}***{}", &url[..scheme + 3], &url[at..]),
        (None, Some(at)) => format!("***{}", &url[at..]),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_user_password_and_database_and_shows_no_password() {
        let address = Address::parse("redis://app:s3cret@10.0.0.1:7000/3").unwrap();
        assert_eq!(address.name, "10.0.0.1:7000/3");
        assert_eq!(address.info.redis_settings().username(), Some("app"));
        assert_eq!(address.info.redis_settings().password(), Some("s3cret"));
        assert_eq!(address.info.redis_settings().db(), 3);
        assert_eq!(Address::parse("redis://10.0.0.1").unwrap().name, "10.0.0.1:6379");
    }

    #[test]
    fn a_url_that_does_not_parse_is_named_without_its_password() {
        for url in
            ["http://u:s3cret@h", "u:s3cret@h:1", "redis://u:s3cret@h/x", "rediss://u:s3cret@h", "redis://u:s3c@ret@:x"]
        {
            let Err(error) = Address::parse(url) else { panic!("{url} was accepted") };
            let text = error.to_string();
            assert!(!text.contains("s3c") && text.contains("***@"), "{text}");
        }
    }
}
