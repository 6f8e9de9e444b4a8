//! The bus of a cluster, over which its servers talk to each other, through proxies.

use futures_util::future::join_all;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{RedisServer, SlotCluster, free_port};
use crate::proxy::accept;

/// Where the port of the sender is in what a server says first: behind the signature, the length and the version.
const SENDER: std::ops::Range<usize> = 10..12;

/// The bus of a cluster. It can cut a server off from all others, which clients still reach.
pub struct Bus {
    cut_off: watch::Sender<Option<CutOff>>,
    /// Ends with it.
    _accepting: JoinSet<()>,
}

/// A server, by its place and its port.
#[derive(Clone, Copy)]
struct CutOff {
    place: usize,
    port: u16,
}

impl SlotCluster {
    /// Starts a cluster whose servers talk over a bus that can cut one off.
    pub async fn start_with_bus(primaries: usize, replicas: usize, arguments: &[&str]) -> (Self, Bus) {
        let (cut_off, mut accepting, mut ports) = (watch::Sender::new(None), JoinSet::new(), Vec::new());
        for place in 0..primaries * (1 + replicas) {
            let (own, listener) = (free_port(), TcpListener::bind(("127.0.0.1", 0)).await.unwrap());
            ports.push((own.to_string(), listener.local_addr().unwrap().port().to_string()));
            let seen = cut_off.subscribe();
            accepting.spawn(accept(listener, move |peer| relay(peer, own, place, seen.clone())));
        }
        let servers = ports.iter().map(|(own, announced)| async move {
            let bus = ["--cluster-port", own, "--cluster-announce-bus-port", announced];
            RedisServer::start_with(&Self::arguments(&[arguments, &bus].concat())).await
        });
        let cluster = Self { servers: join_all(servers).await, primaries };
        let first = format!("{} {}", cluster.servers[0].port(), ports[0].1);
        cluster.put_together(&first).await;
        cluster.add_replicas().await;
        (cluster, Bus { cut_off, _accepting: accepting })
    }
}

impl Bus {
    /// Cuts a server of the cluster off from all others.
    pub fn cut_off(&self, cluster: &SlotCluster, place: usize) {
        self.cut_off.send_replace(Some(CutOff { place, port: cluster.servers[place].port() }));
    }

    /// Lets all servers talk to each other again.
    pub fn heal(&self) {
        self.cut_off.send_replace(None);
    }
}

/// Passes on what a server says to the one in this place, and the answers, until one of the two is cut off.
async fn relay(mut peer: TcpStream, port: u16, place: usize, mut cut_off: watch::Receiver<Option<CutOff>>) {
    let mut beginning = [0; SENDER.end];
    while peer.peek(&mut beginning).await.is_ok_and(|count| (1..SENDER.end).contains(&count)) {
        tokio::task::yield_now().await;
    }
    let sender = u16::from_be_bytes([beginning[SENDER.start], beginning[SENDER.start + 1]]);
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let is_cut = |cut: &Option<CutOff>| cut.is_some_and(|cut| cut.place == place || cut.port == sender);
    tokio::select! {
        biased;
        _ = cut_off.wait_for(is_cut) => {}
        _ = copy_bidirectional(&mut peer, &mut server) => {}
    }
}
