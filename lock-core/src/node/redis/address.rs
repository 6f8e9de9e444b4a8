use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::node::tcp::Io;
use crate::node::tls::Tls;
use crate::node::{InvalidUrl, NodeError, NodeFuture, are_several};

const NOT_ENCODED: &str = "user and password must be percent-encoded: @ as %40, / as %2F, ? as %3F, # as %23";

/// A server of a URL: where it is, how to log in, and how to secure the connection if it is to be.
#[derive(Clone)]
pub(super) struct Server {
    /// For people.
    pub(super) name: String,
    /// Without TLS, which is not left to redis-rs.
    pub(super) info: ConnectionInfo,
    /// What it is in, if that is not TCP.
    pub(super) network: Option<Network>,
    pub(super) tls: Option<Tls>,
}

impl Server {
    /// Parses a URL. Neither errors nor the name contain the password.
    pub(super) fn parse(url: &str) -> Result<Self, InvalidUrl> {
        let invalid = |reason: &str| InvalidUrl::new(url, reason);
        if are_several(url) || has_several_hosts(url) {
            return Err(invalid("expected one server; give each server a URL of its own"));
        }
        let mut parsed = redis::parse_redis_url(url).ok_or_else(|| {
            invalid(match has_stray_at(url) {
                true => NOT_ENCODED,
                false => {
                    "expected redis://[user:password@]host[:port][/database], the same with rediss://, or unix:///path"
                }
            })
        })?;
        let uses_tls = matches!(parsed.scheme(), "rediss" | "valkeys");
        if uses_tls {
            if parsed.fragment().is_some() {
                return Err(invalid("certificates are always checked; remove what begins with #"));
            }
            parsed.set_scheme("redis").map_err(|()| invalid("expected a host"))?;
        }
        let is_socket = parsed.scheme().ends_with("unix");
        if !is_socket && has_stray_at(url) {
            // What follows the `@` would be taken for the host, and shown.
            return Err(invalid(NOT_ENCODED));
        }
        if !is_socket && parsed.host_str().is_none_or(str::is_empty) {
            return Err(invalid("the host is missing"));
        }
        let database = match is_socket {
            true => parsed.query_pairs().find(|(name, _)| name == "db").map(|(_, db)| db.into_owned()),
            false => Some(parsed.path().trim_matches('/').to_owned()).filter(|path| !path.is_empty()),
        };
        if database.is_some_and(|database| database.parse::<u32>().is_err()) {
            return Err(invalid("the database must be a number, such as 3 in redis://host/3 or unix:///path?db=3"));
        }
        // All others would have no effect, and nobody would hear of it. Not named: it may be a part of a password.
        let is_known = |(name, value): (Cow<'_, str>, Cow<'_, str>)| match &*name {
            "protocol" => value.ends_with('3'),
            "db" | "user" | "pass" => is_socket,
            _ => false,
        };
        if !parsed.query_pairs().all(is_known) {
            return Err(invalid(
                "expected no parameter behind the ? but protocol=resp3, and for unix:///path also db, user and pass",
            ));
        }
        // Without the detail of the error, which may be a part of the URL.
        let summary = |text: &str| invalid(text.split(" - ").next().unwrap_or_default());
        let info = parsed.into_connection_info().map_err(|error| summary(&error.to_string()))?;
        // The names of hosts are the same in any case, and two names for one server would be taken for two.
        let address = match info.addr() {
            ConnectionAddr::Unix(path) => path.display().to_string(),
            address => address.to_string().to_lowercase(),
        };
        let name = match info.redis_settings().db() {
            0 => address,
            database => format!("{address}/{database}"),
        };
        let tls = match info.addr() {
            ConnectionAddr::Tcp(host, _) if uses_tls => Some(Tls::new(host).map_err(|reason| invalid(&reason))?),
            _ => None,
        };
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        Ok(Self { name, info: info.set_redis_settings(settings), network: None, tls })
    }

    /// Its host, if it is at one.
    pub(super) fn host(&self) -> Option<String> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) => Some(host.clone()),
            _ => None,
        }
    }

    /// Whether the URL has a user or a password.
    pub(super) fn has_login(&self) -> bool {
        let settings = self.info.redis_settings();
        settings.username().is_some() || settings.password().is_some()
    }

    /// The same login, database and trust, on another host.
    pub(super) fn at(&self, host: &str, port: u16) -> Result<Self, NodeError> {
        let tls = self.tls.as_ref().map(|tls| tls.at(host)).transpose();
        Ok(Self {
            name: format!("{host}:{port}"),
            info: self.info.clone().set_addr(ConnectionAddr::Tcp(host.to_owned(), port)),
            network: self.network.clone(),
            tls: tls.map_err(|reason| NodeError::Unreachable { reason })?,
        })
    }
}

/// Another network than TCP, that of a simulation: opens streams to hosts and ports. Clones are the same network.
#[doc(hidden)]
#[derive(Clone)]
pub struct Network(Arc<Dial>);

type Dial = dyn Fn(&str, u16) -> NodeFuture<io::Result<Box<dyn Io>>> + Send + Sync;

impl Network {
    /// A network in which `dial` opens streams.
    pub fn new<F, Fut, S>(dial: F) -> Self
    where
        F: Fn(&str, u16) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self(Arc::new(move |host, port| {
            let dialing = dial(host, port);
            Box::pin(async move { Ok(Box::new(dialing.await?) as Box<dyn Io>) })
        }))
    }

    pub(super) async fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Io>> {
        (self.0)(host, port).await
    }
}

/// The login and the host of a URL, and what follows them.
fn split_authority(url: &str) -> (&str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()))
}

/// Whether a URL has another `@` than the one between login and host.
fn has_stray_at(url: &str) -> bool {
    let (authority, others) = split_authority(url);
    authority.matches('@').count() > 1 || others.contains('@')
}

/// Whether a URL has a comma between hosts. One with an `@` behind them has it in a password that is not encoded.
fn has_several_hosts(url: &str) -> bool {
    let (authority, others) = split_authority(url);
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    hosts.contains(',') && !others.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_user_password_and_database_and_shows_no_password() {
        let address = Server::parse("redis://app:s3cret@10.0.0.1:7000/3").unwrap();
        assert_eq!(address.name, "10.0.0.1:7000/3");
        assert_eq!(address.info.redis_settings().username(), Some("app"));
        assert_eq!(address.info.redis_settings().password(), Some("s3cret"));
        assert_eq!(address.info.redis_settings().db(), 3);
        assert_eq!(Server::parse("redis://10.0.0.1").unwrap().name, "10.0.0.1:6379");
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn a_url_with_tls_is_refused_with_the_feature_that_it_needs() {
        let Err(error) = Server::parse("rediss://10.0.0.1") else { panic!("accepted") };
        assert!(error.to_string().contains("feature `tls`"), "{error}");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn an_address_with_tls_is_as_one_without() {
        for scheme in ["rediss", "valkeys"] {
            let address = Server::parse(&format!("{scheme}://app:s3cret@redis.example:7000/3")).unwrap();
            assert!(address.tls.is_some());
            assert_eq!(address.name, "redis.example:7000/3");
            assert_eq!(address.info.redis_settings().password(), Some("s3cret"));
        }
        assert!(Server::parse("redis://10.0.0.1").unwrap().tls.is_none());
    }

    #[test]
    fn a_url_that_does_not_parse_is_named_without_its_password() {
        for url in [
            "http://u:s3cret@h",
            "u:s3cret@h:1",
            "redis://u:s3cret@h/x",
            "rediss://u:s3cret@h#x",
            "redis://u:s3c@ret@:x",
        ] {
            let Err(error) = Server::parse(url) else { panic!("{url} was accepted") };
            let text = error.to_string();
            assert!(!text.contains("s3c") && text.contains("***@"), "{text}");
        }
    }

    #[test]
    fn no_way_to_put_a_secret_into_a_url_shows_it() {
        for url in [
            "redis://:s3cret@h:x",
            "redis://u:s3cret@h/x",
            "redis://u:s3%40cret@h/x",
            "redis://u:s3/cret@h",
            "redis://u:s3?cret@h/x",
            "redis://u:s3#cret@h/x",
            "redis://u:s3cret@h:1:2/x",
            "redis://u:a@s3cret@h/x",
            "redis://h/x?password=s3cret",
            "redis://h/x?a=b@s3cret",
            "redis://h/x#s3cret",
            "redis://h?protocol=s3cret",
            "redis://u:s3cret@h:1/3?pass=s3cret",
            "redis://u:s3cret",
            "redis://:s3cret/0",
            "redis://u:s3cret@",
            "redis://u:s3cret@[::1]/x",
            "valkey://u:s3cret@h/x",
            "rediss://u:s3cret@h/x",
            "http://u:s3cret@h",
            "u:s3cret@h",
            "u:s3://cret@h",
            "u:s3cret",
            "unix:///run/redis.sock?db=x&user=u&pass=s3cret",
            "unix://run/redis.sock?pass=s3cret",
            "unix:///run/redis.sock?db=x&pass=a@s3cret",
            "redis+unix:///run/redis.sock?db=x&pass=s3cret",
            "valkey+unix:///run/redis.sock?db=x&pass=s3cret",
            "unix://u:s3cret@/run/redis.sock?db=x",
        ] {
            let Err(error) = Server::parse(url) else { panic!("{url} was accepted") };
            let text = format!("{error} {error:?}");
            assert!(!text.contains("s3") && !text.contains("cret") && text.contains("***"), "{url}: {text}");
        }
        let address = Server::parse("unix:///run/redis.sock?user=u&pass=s3cret&db=3").unwrap();
        assert_eq!(address.name, "/run/redis.sock/3");
    }

    #[test]
    fn a_password_that_is_not_percent_encoded_is_refused_and_shown_nowhere() {
        for url in [
            "redis://u:s3@cret@h",
            "redis://u:s3@cret?x@h",
            "redis://u:s3@cret#x@h:6379/0",
            "redis://u:s3@cret/1@h",
            "redis://u:s3@cret?@h",
            "redis://u:s3,cret/@h",
        ] {
            let Err(error) = Server::parse(url) else { panic!("{url} was accepted") };
            assert!(error.reason.contains("@ as %40"), "{url}: {error}");
            assert!(!error.to_string().contains("s3") && !error.to_string().contains("cret"), "{error}");
        }
        let address = Server::parse("redis://u:s3%40cret%3Fx@h").unwrap();
        assert_eq!((address.name.as_str(), address.info.redis_settings().password()), ("h:6379", Some("s3@cret?x")));
    }

    #[test]
    fn a_url_that_is_not_valid_says_what_is_wrong() {
        for (url, wrong) in [
            ("redis://h/abc", "the database must be a number"),
            ("redis://h/-1", "the database must be a number"),
            ("redis://h/1/2", "the database must be a number"),
            ("unix:///run/redis.sock?db=x", "the database must be a number"),
            ("redis:///3", "the host is missing"),
            ("redis://0.0.0.0", "wildcard"),
            ("redis://h?db=3", "no parameter behind the ?"),
            ("redis://h/3?timeout=5", "no parameter behind the ?"),
            ("redis://h?protocol=resp2", "protocol=resp3"),
            ("unix:///run/redis.sock?password=x", "db, user and pass"),
            ("h:6379", "expected redis://"),
            ("redis://a,b,c", "a URL of its own"),
            ("redis://a:1,b:2", "a URL of its own"),
            ("redis://a,redis://b", "a URL of its own"),
            ("redis://:p@a:1/0, redis://:p@b:1/0", "a URL of its own"),
            ("unix:///run/a.sock,unix:///run/b.sock", "a URL of its own"),
        ] {
            let Err(error) = Server::parse(url) else { panic!("{url} was accepted") };
            assert!(error.reason.contains(wrong), "{url}: {error}");
        }
    }

    #[test]
    fn a_server_has_one_name_however_its_address_is_written() {
        let name = |url: &str| Server::parse(url).unwrap().name;
        for url in [
            "redis://a?protocol=resp3",
            "redis://A",
            "redis://a/",
            "redis://a:6379",
            "redis://A:6379/0",
            "valkey://u:p@a//",
        ] {
            assert_eq!(name(url), "a:6379", "{url}");
        }
        assert_eq!(name("redis://LocalHost/3"), "localhost:6379/3");
        assert_eq!(name("redis://[0:0:0:0:0:0:0:1]"), name("redis://[::1]:6379/"));
        assert_eq!(name("unix:///run/A.sock?db=0"), "/run/A.sock", "the names of files differ by case");
        assert_ne!(name("redis://a"), name("redis://a:7000"));
    }
}
