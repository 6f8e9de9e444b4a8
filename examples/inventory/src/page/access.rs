//! Who may press the buttons: people at this machine, on this page.

use std::net::IpAddr;

use axum::http::{HeaderMap, header, uri::Authority};

/// Why a button may not be pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the shop listens on an address that others can reach; start it with --public to allow the controls")]
    NotLoopback,
    #[error("the Host header does not name this machine")]
    ForeignHost,
    #[error("the request comes from another site")]
    ForeignOrigin,
}

/// Who may use the controls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) listens_on_loopback: bool,
    pub(crate) public: bool,
}

impl Access {
    /// Whether anybody may use the controls.
    pub(crate) fn is_open(self) -> bool {
        self.listens_on_loopback || self.public
    }

    /// Checks one request.
    ///
    /// Any site that somebody visits can make the browser send a POST to the loopback interface, and
    /// its own name can resolve to 127.0.0.1. Programs that are no browsers send neither `Origin` nor
    /// `Sec-Fetch-Site`.
    pub(crate) fn check(self, headers: &HeaderMap) -> Result<(), Refusal> {
        if !self.is_open() {
            return Err(Refusal::NotLoopback);
        }
        let text = |name| headers.get(name).map(|value: &header::HeaderValue| value.to_str().unwrap_or("?"));
        let host = text(header::HOST).unwrap_or_default();
        if !self.public && !is_loopback(host) {
            return Err(Refusal::ForeignHost);
        }
        let same_host = |origin: &str| origin.split_once("://").is_some_and(|(_, authority)| authority == host);
        let foreign_origin = text(header::ORIGIN).is_some_and(|origin| !same_host(origin));
        let foreign_site = headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin");
        if foreign_origin || foreign_site {
            return Err(Refusal::ForeignOrigin);
        }
        Ok(())
    }
}

fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: Access = Access { listens_on_loopback: true, public: false };

    fn check(access: Access, headers: &[(&'static str, &'static str)]) -> Result<(), Refusal> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        access.check(&headers.collect())
    }

    #[test]
    fn the_page_itself_and_programs_may() {
        for host in ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "localhost"] {
            assert_eq!(check(LOCAL, &[("host", host)]), Ok(()), "{host}");
        }
        let page = [("host", "localhost:1"), ("origin", "http://localhost:1"), ("sec-fetch-site", "same-origin")];
        assert_eq!(check(LOCAL, &page), Ok(()));
    }

    #[test]
    fn other_sites_may_not() {
        let host = ("host", "localhost:1");
        for header in [
            ("origin", "http://localhost:2"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(check(LOCAL, &[host, header]), Err(Refusal::ForeignOrigin), "{header:?}");
        }
    }

    #[test]
    fn a_name_that_resolves_to_this_machine_is_foreign() {
        for host in ["evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", ""] {
            assert_eq!(check(LOCAL, &[("host", host)]), Err(Refusal::ForeignHost), "{host}");
        }
    }

    #[test]
    fn other_machines_may_only_if_it_is_public() {
        let open = Access { listens_on_loopback: false, public: false };
        let host = [("host", "shop.example")];
        assert_eq!(check(open, &host), Err(Refusal::NotLoopback));
        assert_eq!(check(Access { public: true, ..open }, &host), Ok(()));
        let foreign = [host[0], ("origin", "https://evil.example")];
        assert_eq!(check(Access { public: true, ..open }, &foreign), Err(Refusal::ForeignOrigin));
    }
}
