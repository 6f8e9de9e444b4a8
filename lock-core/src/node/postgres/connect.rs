//! Opens connections.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_postgres::error::Severity;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls};
use tokio_util::io::InspectReader;
use tokio_util::sync::CancellationToken;

use super::classify::{connect_error, not_postgres, words};
use super::settings::SessionId;
use super::source::Source;
use crate::node::credentials::with_causes;
use crate::node::tcp::Io;
use crate::node::{Credentials, NodeError};

/// How long connecting may take, and how long an inspection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Where the server warns of something that concerns no commit: that transactions must be frozen soon (which it repeats with each new
/// one), or that its queue of notifications fills up. Unlike the message, the routine is not translated.
const HARMLESS: [&str; 3] = ["GetNewTransactionId", "GetNewMultiXactId", "asyncQueueFillWarning"];

/// What a server answers a startup packet with: a question for the login, an error, a notice, or other versions of the protocol.
const ANSWERS: [u8; 4] = *b"RENv";
/// How long a server may take to answer a ping.
const PING_TIMEOUT: Duration = Duration::from_millis(250);

/// The half of a connection that moves its bytes. Must be polled while its client is used.
pub(super) type Wire = Connection<Box<dyn Io>, NoTlsStream>;

/// A connection to a server that let us in. Whether the session is ours is not known yet: see [`SessionId::check`].
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) wire: Wire,
    pub(super) id: SessionId,
}

/// Connects to a server and logs in.
pub(super) async fn connect(source: &Source) -> Result<Connected, NodeError> {
    let (id, credentials) = (SessionId::draw(), source.login.ask().await?);
    let connecting = async {
        let ((mut config, stream), is_other) = (source.dial().await?, CancellationToken::new());
        let options = id.options(config.get_options());
        config.options(options);
        if let Some(Credentials { user, password }) = credentials {
            config.user(user).password(password);
        }
        if config.get_application_name().is_none() {
            config.application_name("locks");
        }
        let stream: Box<dyn Io> = Box::new(InspectReader::new(stream, check_first_byte(is_other.clone())));
        // tokio-postgres would take another answer for the beginning of a message, and wait for the rest.
        match is_other.run_until_cancelled(config.connect_raw(stream, NoTls)).await {
            Some(connected) if !is_other.is_cancelled() => connected.map_err(|error| connect_error(&error)),
            _ => Err(not_postgres()),
        }
    };
    if let Ok(connected) = timeout(CONNECT_TIMEOUT, connecting).await {
        let (client, wire) = connected.map_err(|error| source.login.error(error))?;
        return Ok(Connected { client, wire, id });
    }
    if let Ok(Ok((_, stream))) = timeout(CONNECT_TIMEOUT / 4, source.dial()).await
        && is_redis(stream).await
    {
        return Err(not_postgres());
    }
    Err(NodeError::Unreachable { reason: "no answer while connecting".into() })
}

/// Looks at the first byte that arrives. Cancels the token if no PostgreSQL server begins its answer with it.
fn check_first_byte(is_other: CancellationToken) -> impl FnMut(&[u8]) + Send + Unpin {
    let mut has_answered = false;
    move |bytes| {
        if let (Some(first), false) = (bytes.first(), has_answered) {
            has_answered = true;
            if !ANSWERS.contains(first) {
                is_other.cancel();
            }
        }
    }
}

/// Whether a server that says nothing during a login is a Redis server: that waits for the end of a line, which a login has not.
async fn is_redis(mut stream: Box<dyn Io>) -> bool {
    let answer = async {
        stream.write_all(b"PING\r\n").await?;
        stream.read_u8().await
    };
    matches!(timeout(PING_TIMEOUT, answer).await, Ok(Ok(b'+' | b'-')))
}

impl Connected {
    /// Prepares the session, if it is ours, and moves the bytes of its connection meanwhile. What the server says about itself when a session
    /// begins concerns no vote. If the connection ends, the statement under way learns why.
    pub(super) async fn prepare<T>(
        self,
        prepare: impl AsyncFnOnce(Client, SessionId) -> Result<T, NodeError>,
    ) -> Result<(T, Wire), NodeError> {
        let Self { client, mut wire, id } = self;
        let mut is_ours = false;
        let preparing = async {
            id.check(&client).await?;
            is_ours = true;
            prepare(client, id).await
        };
        let moving = async {
            while let Some(Ok(_)) = poll_fn(|cx| wire.poll_message(cx)).await {}
            pending::<Infallible>().await
        };
        let prepared = timeout(CONNECT_TIMEOUT, async {
            tokio::select! {
                biased;
                never = moving => match never {},
                prepared = preparing => prepared,
            }
        });
        match prepared.await {
            Ok(Ok(prepared)) => Ok((prepared, wire)),
            // No request was under way.
            Ok(Err(NodeError::ConnectionLost { reason })) => Err(NodeError::Unreachable { reason }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(NodeError::Unreachable { reason: unprepared(is_ours) }),
        }
    }
}

/// Why a session was not prepared in time. A pooler without a free session keeps the first statement waiting, and says nothing.
fn unprepared(is_ours: bool) -> String {
    let hint = match is_ours {
        true => "",
        false => {
            ", because the first statement had no answer: the server is overloaded, or this is a pooler whose pool is too small \
             (default_pool_size of PgBouncer); name the address of the PostgreSQL server itself"
        }
    };
    format!("connected, but the session was not prepared within {CONNECT_TIMEOUT:?}{hint}")
}

/// Why a connection is not used any more.
pub(super) struct Lost {
    pub(super) reason: String,
    /// Whether the server said so.
    pub(super) by_server: bool,
}

/// Moves the bytes of a connection until it is lost, or the server sends a warning: says which. After a warning, what it said to be
/// committed may not be: a wait for standbys that was cancelled ends with one, and then with success.
pub(super) async fn drive(wire: &mut Wire) -> Lost {
    loop {
        match poll_fn(|cx| wire.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notice(notice))) => {
                let is_warning = notice.parsed_severity() == Some(Severity::Warning);
                if is_warning && !notice.routine().is_some_and(|routine| HARMLESS.contains(&routine)) {
                    return Lost { reason: format!("the server warned: {}", notice.message()), by_server: true };
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                let words = words(&error);
                let by_server = words.is_some();
                return Lost { reason: words.unwrap_or_else(|| with_causes(&error)), by_server };
            }
            None => return Lost { reason: "the server closed it".into(), by_server: false },
        }
    }
}
