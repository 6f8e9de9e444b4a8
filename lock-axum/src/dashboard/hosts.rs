use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::uri::Authority;
use http::{StatusCode, header};

use crate::problem::Problem;

/// The names under which the page may be asked for.
///
/// A site that somebody visits can let its own name resolve to the address of this service, and then read from it what the page
/// shows: DNS rebinding. The browser sends the name that the site has. An address cannot be such a name.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    /// In lower case, without ports.
    names: Vec<Arc<str>>,
    /// Whether any name may be used.
    pub(super) any: bool,
}

/// A name for [`Dashboard::host`](super::Dashboard::host) that no request could have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "host {host:?} is not the name of a host; give the name alone, such as \"locks.example.com\", without scheme, port or path"
)]
#[non_exhaustive]
pub struct InvalidHost {
    /// What was given.
    pub host: String,
}

impl Hosts {
    pub(super) fn add(&mut self, host: &str) -> Result<(), InvalidHost> {
        let is_name = host
            .parse::<Authority>()
            .is_ok_and(|authority| authority.host() == host && !host.contains(['[', '@', '%', '*']));
        if !is_name {
            return Err(InvalidHost { host: host.to_owned() });
        }
        self.names.push(normalized(host).into());
        Ok(())
    }

    fn allow(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return self.any };
        let name = normalized(authority.host());
        let is_address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        self.any || is_address || name == "localhost" || self.names.iter().any(|allowed| **allowed == name)
    }
}

fn normalized(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Refuses requests for a name that is not the page's. What has no name at all comes from no browser.
pub(super) async fn check_host(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    // HTTP/2 has it in the URI.
    let host = match request.headers().get(header::HOST) {
        Some(host) => Some(host.to_str().unwrap_or("?")),
        None => request.uri().authority().map(Authority::as_str),
    };
    match host.filter(|host| !hosts.allow(host)) {
        None => next.run(request).await,
        Some(host) => {
            let detail = format!(
                "the Host of the request, {host:?}, is neither an IP address nor localhost nor a name of this page; open it under its address, \
                 or name the host in the service: `dashboard(locks).host(\"..\")?`, or `.behind_authentication()` if a layer checks who asks"
            );
            Problem::untyped(StatusCode::FORBIDDEN, detail).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_are_allowed() {
        let hosts = Hosts::default();
        for host in ["127.0.0.1", "10.0.0.7:3000", "[::1]:3000", "localhost", "LOCALHOST:80", "localhost.:80"] {
            assert!(hosts.allow(host), "{host}");
        }
    }

    #[test]
    fn other_names_are_refused_unless_the_service_gave_them() {
        let mut hosts = Hosts::default();
        let foreign = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "locks.example", "", "a b"];
        for host in foreign {
            assert!(!hosts.allow(host), "{host}");
        }
        hosts.add("Locks.Example").unwrap();
        assert!(hosts.allow("locks.example:8080") && hosts.allow("LOCKS.example."));
        assert!(!hosts.allow("evil.locks.example"));
        hosts.any = true;
        assert!(hosts.allow("evil.example"));
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_remedy() {
        for host in ["https://locks.example", "locks.example:80", "locks.example/locks", "", "user@locks", "*.example"]
        {
            let error = Hosts::default().add(host).unwrap_err();
            assert_eq!(error.host, host);
            assert!(error.to_string().contains("without scheme, port or path"), "{error}");
        }
    }
}
