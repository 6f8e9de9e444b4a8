//! How much the nemesis may hurt at a time, so that what is promised must hold.

use std::collections::HashSet;
use std::time::Duration;

use super::fault::{Fault, Kind};
use super::{SERVERS, SERVICES};
use lock_support::Dice;

/// What may be hurt at a time: for each service, a minority of the servers, counted together whether they are away, or have
/// lost their memory and do not vote yet, or can not be reached by this service. So every service always reaches a majority
/// that remembers.
const MINORITY: usize = (SERVERS - 1) / 2;

/// Whether a fault may be added to those that last.
pub(super) fn allows<'a>(lasting: impl Iterator<Item = &'a Fault>, fault: &'a Fault) -> bool {
    let (mut servers, mut services) = (HashSet::new(), HashSet::new());
    let (mut links, mut ears) = (HashSet::new(), HashSet::new());
    for fault in lasting.chain([fault]) {
        let new = match (fault.server, fault.service) {
            _ if Kind::OF_CALLS.contains(&fault.kind) => ears.insert(fault.service),
            (Some(server), None) => servers.insert(server),
            (None, Some(service)) => services.insert(service),
            (server, service) => links.insert((server, service)),
        };
        if !new {
            return false;
        }
    }
    let out_of_reach = |service| {
        let by_link = links.iter().filter(|link| link.1 == Some(service)).filter_map(|link| link.0);
        by_link.chain(servers.iter().copied()).collect::<HashSet<_>>().len()
    };
    (0..SERVICES).all(|service| out_of_reach(service) <= MINORITY) && services.len() < SERVICES
}

/// What makes all services deaf: none of them hears when it is called.
pub(super) fn all_deaf(dice: &mut Dice, lasts: Duration) -> Vec<Fault> {
    let mut kind = || Kind::OF_CALLS[dice.index(Kind::OF_CALLS.len())];
    (0..SERVICES).map(|service| Fault { kind: kind(), server: None, service: Some(service), lasts }).collect()
}

/// The servers and links that are hurt in a phase in which a majority is away. Nothing is forgotten there.
pub(super) fn majority_away(stop: bool, first: usize, lasts: Duration) -> Vec<Fault> {
    let away = (0..=MINORITY).map(|server| (first + server) % SERVERS);
    if stop {
        away.map(|server| Fault { kind: Kind::StopServer, server: Some(server), service: None, lasts }).collect()
    } else {
        let links = away.flat_map(|server| (0..SERVICES).map(move |service| (server, service)));
        let cut =
            |(server, service)| Fault { kind: Kind::CutLink, server: Some(server), service: Some(service), lasts };
        links.map(cut).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: Kind, server: Option<usize>, service: Option<usize>) -> Fault {
        Fault { kind, server, service, lasts: Duration::ZERO }
    }

    #[test]
    fn no_service_is_left_without_a_majority_that_remembers() {
        let lasting = [fault(Kind::FlushServer, Some(0), None), fault(Kind::CutLink, Some(1), Some(0))];
        let allowed = |fault: Fault| allows(lasting.iter(), &fault);
        assert!(!allowed(fault(Kind::StopServer, Some(2), None)), "the first service would reach two");
        assert!(!allowed(fault(Kind::CutLink, Some(2), Some(0))));
        assert!(allowed(fault(Kind::CutLink, Some(2), Some(1))));
        assert!(allowed(fault(Kind::CutLink, Some(0), Some(0))), "that server is hurt already");
        assert!(allowed(fault(Kind::RestartServer, Some(1), None)));
        assert!(!allowed(fault(Kind::RestartServer, Some(0), None)), "one fault at a time");
    }

    #[test]
    fn one_service_goes_on() {
        let lasting: Vec<Fault> = (1..SERVICES).map(|service| fault(Kind::KillService, None, Some(service))).collect();
        assert!(!allows(lasting.iter(), &fault(Kind::StopService, None, Some(0))));
        assert!(allows(lasting[1..].iter(), &fault(Kind::StopService, None, Some(0))));
    }

    #[test]
    fn a_service_that_does_not_hear_reaches_every_server() {
        let mut lasting = all_deaf(&mut Dice::new(1), Duration::ZERO);
        lasting.push(fault(Kind::StopServer, Some(0), None));
        assert!(allows(lasting.iter(), &fault(Kind::CutLink, Some(1), Some(0))));
        assert!(allows(lasting.iter(), &fault(Kind::KillService, None, Some(0))));
        assert!(!allows(lasting.iter(), &fault(Kind::LoseCalls, None, Some(0))), "it is deaf already");
    }
}
