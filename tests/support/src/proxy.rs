//! A TCP proxy in front of a server.

use std::time::Duration;

use lock_core::RedisNode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::redis::node_from_factory;

/// A port of its own that leads to a server. It can hold traffic back, and lead to another server from now on.
pub struct Proxy {
    port: u16,
    state: watch::Sender<State>,
    accepting: JoinHandle<()>,
}

#[derive(Clone)]
struct State {
    server: String,
    held: bool,
}

impl Proxy {
    /// Opens a proxy to the address of a server.
    pub async fn open(server: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = watch::Sender::new(State { server, held: false });
        let seen = state.subscribe();
        let accepting = tokio::spawn(accept(listener, move |client| relay(client, seen.clone())));
        Self { port, state, accepting }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of the server through this proxy.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The server as a node that has the name of its own address: clients with different proxies know it by one name.
    #[must_use]
    pub fn node(&self) -> RedisNode {
        node_from_factory(&self.state.borrow().server, &self.url())
    }

    /// Holds back everything that is sent in either direction. It arrives when traffic passes again, even if the sender has gone.
    pub fn hold(&self) {
        self.state.send_modify(|state| state.held = true);
    }

    /// Lets traffic pass again.
    pub fn pass(&self) {
        self.state.send_modify(|state| state.held = false);
    }

    /// Leads to another server from now on. Open connections are closed.
    pub fn lead_to(&self, server: String) {
        self.state.send_modify(|state| state.server = server);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts connections, and relays each on its own. Dropped, it ends them all.
pub async fn accept<F>(listener: TcpListener, relay: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut relays = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        while relays.try_join_next().is_some() {}
        relays.spawn(relay(client));
    }
}

async fn relay(client: TcpStream, mut state: watch::Receiver<State>) {
    let address = state.borrow().server.clone();
    let Ok(server) = TcpStream::connect(&address).await else { return };
    _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((requests, to_client), (replies, to_server)) = (client.into_split(), server.into_split());
    // Each ends independently, so that requests that were held back arrive although nobody waits for the reply.
    let (there, back) = (pump(requests, to_server, state.clone()), pump(replies, to_client, state.clone()));
    tokio::select! {
        _ = async { tokio::join!(there, back) } => {}
        _ = state.wait_for(|state| state.server != address) => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut state: watch::Receiver<State>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if state.wait_for(|state| !state.held).await.is_err() || to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    _ = to.shutdown().await;
}
