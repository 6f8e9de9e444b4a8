//! Where connections come from: an address, or a factory of its user's.

use std::error::Error;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, Host, SslMode};
#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConfig;

use crate::node::credentials::{CredentialsProvider, Login, answer_of, with_causes};
use crate::node::tcp::{self, Io};
use crate::node::tls::Tls;
use crate::node::{InvalidSetting, InvalidUrl, NodeError, NodeFuture, Refusal, are_several};

/// The port of PostgreSQL.
const PORT: u16 = 5432;

/// `SSLRequest`: its length, and its number.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// A configuration, and a stream on which nothing was said yet; or why there is none.
type Dialed = NodeFuture<Result<(Config, Box<dyn Io>), String>>;

/// What the connections of a node come from, and how they log in.
#[derive(Clone)]
pub(super) struct Source {
    /// The name of the server, for people.
    pub(super) name: String,
    pub(super) login: Login,
    dial: Dial,
}

#[derive(Clone)]
enum Dial {
    Address(Box<Address>),
    Factory(Arc<dyn Fn() -> Dialed + Send + Sync>),
}

impl Source {
    pub(super) fn from_url(url: &str) -> Result<Self, InvalidUrl> {
        let address = Address::parse(url)?;
        Ok(Self { name: address.name(), login: Login::default(), dial: Dial::Address(Box::new(address)) })
    }

    pub(super) fn from_factory<F, Fut, S, E>(name: String, factory: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(Config, S), E>> + Send + 'static,
        S: Io,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let factory = Arc::new(factory);
        let dial = move || -> Dialed {
            let factory = Arc::clone(&factory);
            Box::pin(async move {
                let (mut config, stream) = answer_of("the factory of connections", &*factory).await?;
                // What the factory returns is secure already, if it is to be.
                config.ssl_mode(SslMode::Disable);
                Ok((config, Box::new(stream) as Box<dyn Io>))
            })
        };
        Self { name, login: Login::default(), dial: Dial::Factory(Arc::new(dial)) }
    }

    /// Logs in with what a provider gives, unless the address or a factory says how.
    pub(super) fn log_in_by(&mut self, provider: CredentialsProvider) -> Result<(), InvalidSetting> {
        let has_login = match &self.dial {
            Dial::Address(address) => Some(address.has_login()),
            Dial::Factory(_) => None,
        };
        self.login = Login::by(provider, &self.name, has_login)?;
        Ok(())
    }

    /// Secures the connections by another configuration of TLS. False if they are not to be secure.
    #[cfg(feature = "tls")]
    pub(super) fn set_tls(&mut self, config: &Arc<ClientConfig>) -> bool {
        let Dial::Address(address) = &mut self.dial else { return false };
        address.tls.as_mut().map(|tls| tls.set_config(config)).is_some()
    }

    /// Opens a stream. Nothing is said on it yet.
    pub(super) async fn dial(&self) -> Result<(Config, Box<dyn Io>), NodeError> {
        match &self.dial {
            Dial::Address(address) => Ok((address.config.clone(), address.reach().await?)),
            Dial::Factory(dial) => dial().await.map_err(|reason| NodeError::Unreachable { reason }),
        }
    }
}

/// Where a PostgreSQL server is: for a connection, and for people.
#[derive(Clone)]
struct Address {
    host: Host,
    port: u16,
    /// Without TLS, which is not left to tokio-postgres.
    config: Config,
    tls: Option<Tls>,
}

impl Address {
    /// Parses a URL. Neither errors nor the name contain the password.
    fn parse(url: &str) -> Result<Self, InvalidUrl> {
        let invalid = |reason: &str| InvalidUrl::new(url, reason);
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(invalid("expected postgres://[user[:password]@]host[:port]/database"));
        }
        if are_several(url) {
            return Err(invalid("expected one server; give each server a URL of its own"));
        }
        if url.contains("sslmode=verify-") {
            return Err(invalid("write sslmode=require: certificates and their names are always checked"));
        }
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            // Without the cause, which may be a part of the URL.
            invalid(error.to_string().split(':').next().unwrap_or_default())
        })?;
        if !config.get_hostaddrs().is_empty() {
            return Err(invalid("hostaddr is not supported; name the address as the host"));
        }
        let [host] = config.get_hosts() else {
            return Err(invalid("expected one host: each server is a node of its own"));
        };
        let host = host.clone();
        if matches!(&host, Host::Tcp(host) if host.contains('@')) {
            return Err(invalid("an @ in the user or the password must be written as %40"));
        }
        let port = config.get_ports().first().copied().unwrap_or(PORT);
        let uses_tls = config.get_ssl_mode() == SslMode::Require;
        if config.get_channel_binding() == ChannelBinding::Require {
            return Err(invalid(
                "channel binding is not supported; leave channel_binding out: certificates are always checked",
            ));
        }
        config.ssl_mode(SslMode::Disable);
        let tls = match &host {
            _ if !uses_tls => None,
            Host::Tcp(host) => Some(Tls::new(host).map_err(|reason| invalid(&reason))?),
            #[cfg(unix)]
            Host::Unix(_) => return Err(invalid("TLS is not for sockets; leave sslmode out")),
        };
        Ok(Self { host, port, config, tls })
    }

    /// Opens a connection to it, over TLS if it is to be. Nothing is said on it yet.
    async fn reach(&self) -> Result<Box<dyn Io>, NodeError> {
        let failed = |error: io::Error| NodeError::Unreachable { reason: with_causes(&error) };
        let Some(tls) = &self.tls else { return self.stream().await.map_err(failed) };
        tls.connector()?;
        let mut stream = self.stream().await.map_err(failed)?;
        stream.write_all(&SSL_REQUEST).await.map_err(failed)?;
        // One byte, and no more: what follows it unencrypted may be from anybody.
        match stream.read_u8().await.map_err(failed)? {
            b'S' => tls.shake_hands(stream).await,
            _ => {
                let detail =
                    "the server does not speak TLS; set ssl = on there, or connect without it over a private network";
                Err(Refusal::Tls { detail: detail.into() }.into())
            }
        }
    }

    async fn stream(&self) -> io::Result<Box<dyn Io>> {
        match &self.host {
            Host::Tcp(host) => Ok(Box::new(tcp::connect(host, self.port).await?)),
            #[cfg(unix)]
            Host::Unix(directory) => {
                let socket = directory.join(format!(".s.PGSQL.{}", self.port));
                Ok(Box::new(tokio::net::UnixStream::connect(socket).await?))
            }
        }
    }

    /// Whether the URL has a user or a password.
    fn has_login(&self) -> bool {
        self.config.get_user().is_some() || self.config.get_password().is_some()
    }

    /// The name for people: host, port and database.
    fn name(&self) -> String {
        let Self { host, port, config, .. } = self;
        // The names of hosts are the same in any case, and two names for one server would be taken for two.
        let address = match host {
            Host::Tcp(host) if host.contains(':') => format!("[{}]:{port}", host.to_lowercase()),
            Host::Tcp(host) => format!("{}:{port}", host.to_lowercase()),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{port}", path.display()),
        };
        match config.get_dbname().or(config.get_user()) {
            Some(database) => format!("{address}/{database}"),
            None => address,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_database_in_its_name_and_no_password() {
        let name = |url| Address::parse(url).unwrap().name();
        assert_eq!(name("postgres://app:s3cret@DB.example/shop"), "db.example:5432/shop");
        assert_eq!(name("postgresql://app@10.0.0.1:6000"), "10.0.0.1:6000/app");
        assert_eq!(name("postgres://app@%2Frun%2Fpostgresql/shop"), "/run/postgresql:5432/shop");
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn a_url_with_tls_is_refused_with_the_feature_that_it_needs() {
        let Err(error) = Address::parse("postgres://app@h/db?sslmode=require") else { panic!("accepted") };
        assert!(error.to_string().contains("feature `tls`"), "{error}");
    }

    #[test]
    fn several_urls_in_one_text_are_refused() {
        for urls in ["postgres://u@a/db,postgres://u@b/db", "postgres://u:p@a, postgres://u:p@b"] {
            let Err(error) = Address::parse(urls) else { panic!("{urls} was accepted") };
            assert!(error.reason.contains("a URL of its own"), "{error}");
        }
    }

    #[test]
    fn a_url_that_is_refused_is_named_without_its_password() {
        for url in [
            "redis://u:s3cret@h",
            "postgres://u:s3cret@h1,h2/db",
            "postgres://u:s3cret@h:x/db",
            "postgres://u:s3cret@h/db?sslmode=verify-full",
            "postgres://u:s3cret@h/db?sslmode=require&channel_binding=require",
            "postgres://u:s3cret@h/db?hostaddr=10.0.0.1",
            "postgres://u@h/db?password=s3cret&nonsense=1",
            "postgres://u:s3cret@/db",
            "postgres://u:p@s3cret@h/db",
            "host=h user=u password=s3cret",
            "password = 'p@s3cret' host=h",
            "host=h password=p/s3cret?s3cret",
        ] {
            let Err(error) = Address::parse(url) else { panic!("{url} was accepted") };
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
    }
}
