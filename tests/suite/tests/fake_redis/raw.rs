//! The bytes that the two servers send on a connection, without redis-rs: to a subscriber, that is more than replies.

use std::fmt::Write as _;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::TcpStream;

use super::commands::words;

/// A connection to each server.
pub(crate) struct RawPair {
    real: TcpStream,
    fake: DuplexStream,
    asked: u32,
}

impl RawPair {
    pub(crate) fn new(real: TcpStream, fake: DuplexStream) -> Self {
        Self { real, fake, asked: 0 }
    }

    /// Chooses the protocol.
    pub(crate) async fn greet(&mut self, protocol: &str) {
        // The replies differ: they name the connection.
        _ = self.ask(&words(&["HELLO", protocol])).await;
    }

    /// Waits until both servers have noticed that the subscribers of a channel have hung up.
    pub(crate) async fn until_nobody_listens(&mut self, channel: &str) {
        let publish = words(&["PUBLISH", channel, "anybody?"]);
        while !self.ask(&publish).await.is_ok_and(|count| count.starts_with(":0\r\n")) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    /// What both servers send up to the end of their reply to a command. `Err` names the difference.
    pub(crate) async fn ask(&mut self, words: &[String]) -> Result<String, String> {
        self.asked += 1;
        let mark = format!("mark-{}", self.asked);
        let ping = ["PING".to_owned(), mark.clone()];
        let bytes = packed(words) + &packed(&ping);
        self.real.write_all(bytes.as_bytes()).await.unwrap();
        self.fake.write_all(bytes.as_bytes()).await.unwrap();
        let end = format!("{mark}\r\n");
        let (real, fake) = (until(&mut self.real, &end).await, until(&mut self.fake, &end).await);
        if real == fake {
            Ok(real)
        } else {
            Err(format!("{words:?}: the real server sends {real:?}, the simulated one {fake:?}"))
        }
    }
}

fn packed(words: &[String]) -> String {
    let mut bytes = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| _ = write!(bytes, "${}\r\n{word}\r\n", word.len()));
    bytes
}

/// Reads until this comes last.
async fn until(stream: &mut (impl tokio::io::AsyncRead + Unpin), end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        let read = stream.read_buf(&mut bytes).await.unwrap();
        assert!(read > 0, "the connection was closed after {:?}", String::from_utf8_lossy(&bytes));
    }
    String::from_utf8(bytes).unwrap()
}
