//! TLS, which a client asks for before it logs in.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::classify::io_error;
use crate::node::tcp::Io;
use crate::node::tls::Tls;
use crate::node::{NodeError, Refusal};

/// `SSLRequest`: its length, and its number.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Asks the server for TLS, and shakes hands.
pub(super) async fn secure(tls: &Tls, mut stream: Box<dyn Io>) -> Result<Box<dyn Io>, NodeError> {
    stream.write_all(&SSL_REQUEST).await.map_err(|error| io_error(&error))?;
    // One byte, and no more: what follows it unencrypted may be from anybody.
    match stream.read_u8().await.map_err(|error| io_error(&error))? {
        b'S' => tls.shake_hands(stream).await,
        _ => {
            let detail =
                "the server does not speak TLS; set ssl = on there, or connect without it over a private network";
            Err(Refusal::Tls { detail: detail.into() }.into())
        }
    }
}
