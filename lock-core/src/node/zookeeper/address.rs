use crate::node::InvalidUrl;

/// The port of a server that is named without one.
const PORT: u16 = 2181;
/// Where everything is kept if no path is named.
const ROOT: &str = "/locks";

/// Where an ensemble is: for connections, and for people.
#[derive(Clone)]
pub(super) struct Address {
    /// The servers and the path, without the login.
    pub(super) name: String,
    /// `host:port,host:port`.
    pub(super) servers: String,
    /// The path below which everything is kept.
    pub(super) root: String,
    /// `user:password`.
    pub(super) login: Option<String>,
}

impl Address {
    /// Parses `[user:password@]host[:port][,host[:port]…][/path]`. Neither errors nor the name contain the password.
    pub(super) fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let invalid = |reason: &str| InvalidUrl::new(text, reason);
        if text.contains("://") {
            return Err(invalid("expected host:port,host:port/path, without a scheme"));
        }
        // A password may contain an @ or a slash, so the last @ decides.
        let (login, rest) = text.rsplit_once('@').map_or((None, text), |(login, rest)| (Some(login), rest));
        if login.is_some_and(|login| login.split_once(':').is_none_or(|(user, _)| user.is_empty())) {
            return Err(invalid("expected user:password before the @"));
        }
        let (hosts, root) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let root = root.strip_suffix('/').unwrap_or(root);
        if root.split('/').skip(1).any(|name| matches!(name, "" | "." | "..") || name.contains(char::is_control)) {
            return Err(invalid("the path has a part that no znode can have as its name"));
        }
        if root == "/zookeeper" || root.starts_with("/zookeeper/") {
            return Err(invalid("the path /zookeeper is the servers' own"));
        }
        let servers: Option<Vec<String>> = hosts.split(',').map(server).collect();
        let servers = servers.ok_or_else(|| invalid("expected host:port,host:port, such as zk-1:2181,zk-2:2181"))?;
        let servers = servers.join(",");
        Ok(Self {
            name: format!("{servers}{root}"),
            servers,
            root: if root.is_empty() { ROOT } else { root }.to_owned(),
            login: login.map(str::to_owned),
        })
    }
}

/// A server with its port. `None` if it is none.
fn server(text: &str) -> Option<String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok().filter(|port| *port > 0)?),
        _ => (text, PORT),
    };
    let is_ipv6 = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
    let is_name = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || matches!(c, ':' | '[' | ']' | '?'));
    (is_ipv6 || is_name).then(|| format!("{}:{port}", host.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_servers_and_a_path() {
        let address = Address::parse("app:s@c/ret@ZK-1,zk-2:2182,[::1]:2183/locks/shop/").unwrap();
        assert_eq!(address.name, "zk-1:2181,zk-2:2182,[::1]:2183/locks/shop");
        assert_eq!(address.root, "/locks/shop");
        assert_eq!(address.login.as_deref(), Some("app:s@c/ret"));
        let bare = Address::parse("zk").unwrap();
        assert_eq!((bare.servers.as_str(), bare.root.as_str(), bare.login), ("zk:2181", "/locks", None));
        assert_eq!(bare.name, "zk:2181");
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said_without_its_password() {
        for (text, reason) in [
            ("", "host:port"),
            ("zk:2181,", "host:port"),
            ("zk:0", "host:port"),
            ("zk:port", "host:port"),
            ("user@zk", "user:password"),
            ("zk/a//b", "znode"),
            ("zk/../b", "znode"),
            ("zk/zookeeper", "servers' own"),
            ("zookeeper://zk", "without a scheme"),
        ] {
            let error = Address::parse(text).err().unwrap_or_else(|| panic!("{text} is accepted"));
            assert!(error.reason.contains(reason), "{text}: {error}");
        }
        for text in
            ["app:secret@zk:port", "app:secret,zk-1:2181", "zk-1:2181,app:sec,secret,zk-2", "app:secret,zk/a//b"]
        {
            let error = Address::parse(text).err().unwrap_or_else(|| panic!("{text} is accepted")).to_string();
            assert!(!error.contains("sec"), "{error}");
        }
    }
}
