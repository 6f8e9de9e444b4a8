use std::io;

use tokio::io::{DuplexStream, copy, duplex, split};
use tokio::sync::{mpsc, oneshot};
use turmoil::net::TcpStream;

use super::client::PORT;
use super::plan::Plan;
use super::socket::End;
use super::world::World;

/// The way of a client's machine into the simulated network: a host of turmoil that opens connections for it.
pub(super) struct Dial {
    address: usize,
    reply: oneshot::Sender<io::Result<DuplexStream>>,
}

/// Opens a connection to a server. For a client, on its machine.
pub(super) async fn dial(world: &World, client: usize, address: usize) -> io::Result<DuplexStream> {
    let (reply, stream) = oneshot::channel();
    let no_network = || io::Error::from(io::ErrorKind::NetworkUnreachable);
    let uplink = world.uplink(client).ok_or_else(no_network)?;
    uplink.send(Dial { address, reply }).map_err(|_| no_network())?;
    stream.await.map_err(|_| no_network())?
}

/// The process on the host of a client.
pub(super) async fn serve_uplink(name: String, world: World, client: usize) -> turmoil::Result {
    let (sender, mut dials) = mpsc::unbounded_channel();
    world.set_uplink(client, sender);
    while let Some(Dial { address, mut reply }) = dials.recv().await {
        let (name, world) = (name.clone(), world.clone());
        tokio::spawn(async move {
            let server = world.behind(address);
            let stream = tokio::select! {
                biased;
                () = reply.closed() => return,
                stream = TcpStream::connect((Plan::server_name(server), PORT)) => stream,
            };
            // Where the address does not lead any more, nobody stays.
            let stream = stream.and_then(|stream| {
                if world.behind(address) == server { Ok(stream) } else { Err(io::ErrorKind::ConnectionReset.into()) }
            });
            let stream = stream.and_then(|stream| world.sockets().add(&name, stream, End::Client));
            match stream {
                Err(error) => _ = reply.send(Err(error)),
                Ok(stream) => {
                    let (near, far) = duplex(1 << 16);
                    if reply.send(Ok(near)).is_ok() {
                        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                            (split(far), split(stream));
                        // The end of either direction is the end of the connection.
                        tokio::select! {
                            biased;
                            _ = copy(&mut from_client, &mut to_server) => {}
                            _ = copy(&mut from_server, &mut to_client) => {}
                        }
                    }
                }
            }
        });
    }
    Ok(())
}
