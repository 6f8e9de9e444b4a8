//! The last thing that happens to the masters: a majority of them is lost for good, the set is formed again with others, one service is
//! forgotten and not stopped, and the lost masters come back empty. That service must not form a set of its own with them.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::super::masters::builder;
use super::super::store::Store;
use super::super::{MAX_TTL, NODE_TIMEOUT, SERVERS, SERVICES};
use super::arena::Arena;
use super::master::Master;
use lock_support::Dice;

/// The phase in which it happens.
pub(super) const FORMED_AGAIN: &str = "a set is formed again";
/// How long a set may take to be formed and to vote: more than its quarantine, on a busy machine.
const FORMED_IN: Duration = Duration::from_secs(20);
/// How often it looks whether the masters vote.
const TICK: Duration = Duration::from_millis(20);
/// How long all services run side by side then: a set that the forgotten one formed would have sat out its quarantine, and voted.
const SIDE_BY_SIDE: Duration = MAX_TTL.saturating_mul(4);

/// Loses a majority, forms the set again, and lets the lost masters come back. The new masters live as long as the result.
pub(super) async fn form_again(arena: &Arena<'_>, dice: &mut Dice) -> Vec<Master> {
    arena.phase(FORMED_AGAIN);
    let first = dice.index(SERVERS);
    let lost: Vec<usize> = (0..=SERVERS / 2).map(|more| (first + more) % SERVERS).collect();
    let (forgotten, mut new) = (dice.index(SERVICES), Vec::new());
    for seat in &lost {
        arena.masters[*seat].lock().await.server.kill();
        let master = Master::blank().await;
        arena.list(*seat, &master);
        new.push(master);
    }
    for service in (0..SERVICES).filter(|service| *service != forgotten) {
        arena.fleet.end_one(service).await;
    }
    // What `lockctl form` does.
    let forming = builder(Store::Redis, &arena.addresses(), false).form_with_missing(true).connect_lazy().unwrap();
    let began = Instant::now();
    while !forming.health().await.nodes.iter().all(|node| node.admitted) {
        if began.elapsed() > FORMED_IN {
            arena.problem(format!("the set that was formed again does not vote after {FORMED_IN:?}"));
            break;
        }
        sleep(TICK).await;
    }
    forming.shutdown(NODE_TIMEOUT).await;
    for service in (0..SERVICES).filter(|service| *service != forgotten) {
        arena.fleet.deploy(service, arena.addresses()).await;
    }
    for seat in lost {
        let mut master = arena.masters[seat].lock().await;
        let mut back = Master::blank().await;
        back.server.take_address_of(&master.server).await;
        *master = back;
    }
    sleep(SIDE_BY_SIDE).await;
    new
}
