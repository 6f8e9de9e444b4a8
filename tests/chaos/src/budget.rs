//! Which faults may be active at a time, so that the promises must hold.

use std::collections::HashSet;
use std::time::Duration;

use super::SERVICES;
use super::fault::{Fault, Kind};
use super::store::Store;
use lock_support::Dice;

/// The most servers that may fail while a majority is left.
pub(super) fn minority(servers: usize) -> usize {
    (servers - 1) / 2
}

/// Whether a fault may be added to the active ones, on this many servers.
///
/// For each service at most a minority of the servers may be unavailable: down, without data and not voting again, or
/// unreachable from this service. So every service always reaches a majority with its data. One server alone may be
/// unavailable, too: nobody gets a lock then, and who had one may keep it.
pub(super) fn allows<'a>(servers: usize, active: impl Iterator<Item = &'a Fault>, fault: &'a Fault) -> bool {
    let most = minority(servers).max(1);
    let (mut down, mut services) = (HashSet::new(), HashSet::new());
    let (mut links, mut wakeups) = (HashSet::new(), HashSet::new());
    for fault in active.chain([fault]) {
        let new = match (fault.server, fault.service) {
            _ if fault.kind.is_of_wakeups() => wakeups.insert(fault.service),
            (Some(server), None) => down.insert(server),
            (None, Some(service)) => services.insert(service),
            (server, service) => links.insert((server, service)),
        };
        if !new {
            return false;
        }
    }
    let unreachable = |service| {
        let by_link = links.iter().filter(|link| link.1 == Some(service)).filter_map(|link| link.0);
        by_link.chain(down.iter().copied()).collect::<HashSet<_>>().len()
    };
    (0..SERVICES).all(|service| unreachable(service) <= most) && services.len() < SERVICES
}

/// Faults that keep wake-ups from all services, of every kind.
pub(super) fn block_all_wakeups(store: Store, dice: &mut Dice, duration: Duration) -> Vec<Fault> {
    let kinds = store.faults_of_wakeups();
    let first = dice.index(kinds.len());
    let kinds = kinds.iter().copied().cycle().skip(first);
    let fault = |(service, kind)| Fault { kind, server: None, service: Some(service), duration };
    (0..SERVICES).zip(kinds).map(fault).collect()
}

/// The faults of a phase in which a majority is unavailable. No server loses its data there.
pub(super) fn majority_unavailable(servers: usize, stop: bool, first: usize, duration: Duration) -> Vec<Fault> {
    let unavailable = (0..=minority(servers)).map(|server| (first + server) % servers);
    if stop {
        unavailable
            .map(|server| Fault { kind: Kind::StopServer, server: Some(server), service: None, duration })
            .collect()
    } else {
        let links = unavailable.flat_map(|server| (0..SERVICES).map(move |service| (server, service)));
        let cut =
            |(server, service)| Fault { kind: Kind::CutLink, server: Some(server), service: Some(service), duration };
        links.map(cut).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: Kind, server: Option<usize>, service: Option<usize>) -> Fault {
        Fault { kind, server, service, duration: Duration::ZERO }
    }

    #[test]
    fn every_service_keeps_a_majority_with_its_data() {
        let active = [fault(Kind::FlushServer, Some(0), None), fault(Kind::CutLink, Some(1), Some(0))];
        let allowed = |fault: Fault| allows(5, active.iter(), &fault);
        assert!(!allowed(fault(Kind::StopServer, Some(2), None)), "the first service would reach two");
        assert!(!allowed(fault(Kind::CutLink, Some(2), Some(0))));
        assert!(allowed(fault(Kind::CutLink, Some(2), Some(1))));
        assert!(allowed(fault(Kind::CutLink, Some(0), Some(0))), "that server is down already");
        assert!(allowed(fault(Kind::RestartServer, Some(1), None)));
        assert!(!allowed(fault(Kind::RestartServer, Some(0), None)), "one fault at a time");
    }

    #[test]
    fn of_three_servers_one_may_be_unavailable_and_so_may_one_alone() {
        let (first, second) = (fault(Kind::StopServer, Some(0), None), fault(Kind::StopServer, Some(1), None));
        assert!(allows(3, [].iter(), &first) && !allows(3, [first].iter(), &second));
        assert!(allows(1, [].iter(), &first) && !allows(1, [first].iter(), &first));
        assert_eq!(majority_unavailable(3, true, 0, Duration::ZERO), [first, second]);
        assert_eq!(majority_unavailable(1, true, 0, Duration::ZERO), [first]);
    }

    #[test]
    fn one_service_keeps_running() {
        let active: Vec<Fault> = (1..SERVICES).map(|service| fault(Kind::KillService, None, Some(service))).collect();
        assert!(!allows(5, active.iter(), &fault(Kind::StopService, None, Some(0))));
        assert!(allows(5, active[1..].iter(), &fault(Kind::StopService, None, Some(0))));
    }

    #[test]
    fn services_get_no_wakeups_in_every_way() {
        for seed in 1..10 {
            let faults = block_all_wakeups(Store::Postgres, &mut Dice::new(seed), Duration::ZERO);
            assert!(Kind::OF_WAKEUPS.iter().all(|kind| faults.iter().any(|fault| fault.kind == *kind)), "{faults:?}");
        }
    }

    #[test]
    fn a_service_without_wakeups_still_reaches_every_server() {
        let mut active = block_all_wakeups(Store::Redis, &mut Dice::new(1), Duration::ZERO);
        active.push(fault(Kind::StopServer, Some(0), None));
        assert!(allows(5, active.iter(), &fault(Kind::CutLink, Some(1), Some(0))));
        assert!(allows(5, active.iter(), &fault(Kind::KillService, None, Some(0))));
        assert!(!allows(5, active.iter(), &fault(Kind::LoseWakeups, None, Some(0))), "it gets no wake-ups already");
    }
}
