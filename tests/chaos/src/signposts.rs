//! The servers of a cluster name each other to their clients, by ports that lead past the links. These are replaced by those of the links.

use std::sync::Arc;

/// The ports of the servers of one cluster, as numbers of the protocol, each with the port of the link that leads there.
#[derive(Clone, Default)]
pub(super) struct Signposts(Arc<[(String, String)]>);

impl Signposts {
    /// Replaces the ports of these addresses. A server that is in one place names nobody.
    pub(super) fn new(addresses: &[String], links: &[u16]) -> Self {
        if addresses.len() < 2 {
            return Self::default();
        }
        let number = |port: &str| format!(":{port}\r\n");
        let ports = addresses.iter().map(|address| number(address.rsplit(':').next().unwrap_or_default()));
        let pairs: Arc<[_]> = ports.zip(links.iter().map(|link| number(&link.to_string()))).collect();
        // They are replaced where they stand. One that was left would lead past its link, and no fault of the network would hit it.
        assert!(pairs.iter().all(|(port, link)| port.len() == link.len()), "ports of different lengths: {pairs:?}");
        Self(pairs)
    }

    /// Replaces the ports in what a server sent, as far as they are whole: it sends what it knows of slots at once.
    pub(super) fn turn(&self, sent: &mut [u8]) {
        for (port, link) in &*self.0 {
            let mut from = 0;
            while let Some(at) = sent[from..].windows(port.len()).position(|bytes| bytes == port.as_bytes()) {
                from += at;
                sent[from..from + link.len()].copy_from_slice(link.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_of_servers_become_those_of_links() {
        let addresses = ["127.0.0.1:20001", "127.0.0.1:20002"].map(str::to_owned);
        let signposts = Signposts::new(&addresses, &[40_001, 40_002]);
        let mut sent = b"*2\r\n$9\r\n127.0.0.1\r\n:20002\r\n:20001\r\n:20003\r\n:12000".to_vec();
        signposts.turn(&mut sent);
        assert_eq!(sent, b"*2\r\n$9\r\n127.0.0.1\r\n:40002\r\n:40001\r\n:20003\r\n:12000");
        Signposts::new(&addresses[..1], &[40_001]).turn(&mut sent);
        assert!(sent.ends_with(b":20003\r\n:12000"));
    }
}
