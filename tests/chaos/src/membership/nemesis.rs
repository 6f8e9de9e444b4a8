//! Three lanes at a time: one replaces masters, one damages a master that keeps its address, and one kills and stops
//! services. The first two share a budget of masters that may be kept from voting, so a majority always votes.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::super::history::Event;
use super::super::{SERVERS, SERVICES};
use super::arena::Arena;
use super::faults::{Kind, Stopped, damage, millis, replace};

use lock_support::Dice;

/// How many masters are stopped while another one is about to be damaged, so that it is needed for a majority.
const STOPPED: usize = 2;

/// A run of this length has every kind of damage.
const EVERY_KIND: Duration = Duration::from_secs(30);

/// The phase that begins when each seat has another master than at the beginning.
pub(super) const ALL_REPLACED: &str = "all masters were replaced";

/// Injects faults for this long. What has begun is completed.
pub(super) async fn inject_faults(arena: &Arena<'_>, seed: u64, length: Duration) {
    arena.phase("faults");
    let mut dice = Dice::new(seed);
    let mut lane = || Dice::new(dice.roll(u64::MAX));
    let (done, over) = watch::channel(false);
    let (replacements, damages, services) = (lane(), lane(), lane());
    let replacing = async {
        replace_all(arena, replacements, length).await;
        done.send_replace(true);
    };
    tokio::join!(
        replacing,
        damage_one_after_another(arena, damages, length >= EVERY_KIND, over.clone()),
        hit_services(arena, services, over)
    );
}

/// Replaces all masters, in random order, again and again.
async fn replace_all(arena: &Arena<'_>, mut dice: Dice, length: Duration) {
    let began = Instant::now();
    loop {
        let mut seats: Vec<usize> = (0..SERVERS).collect();
        while !seats.is_empty() {
            if began.elapsed() >= length {
                return;
            }
            replace(arena, seats.swap_remove(dice.index(seats.len())), &mut dice).await;
            sleep(millis(&mut dice, 0, 500)).await;
        }
        arena.phase(ALL_REPLACED);
    }
}

/// Goes on until it is over, and, if it is to be so, until each kind has happened.
async fn damage_one_after_another(arena: &Arena<'_>, mut dice: Dice, each: bool, over: watch::Receiver<bool>) {
    // The shortest run has this one.
    let (mut deck, mut missing) = (vec![Kind::ReplicateCopy], Kind::ALL.to_vec());
    while !*over.borrow() || each && !missing.is_empty() {
        if deck.is_empty() {
            deck = Kind::ALL.to_vec();
        }
        let kind = deck.swap_remove(dice.index(deck.len()));
        // Two thirds of the time two others are stopped first, and no master is replaced meanwhile.
        let others = if dice.index(3) > 0 { STOPPED } else { 0 };
        let spare = arena.spare.acquire_many(u32::try_from(others.max(1)).unwrap()).await.unwrap();
        let first = dice.index(SERVERS);
        let seats = (0..SERVERS).map(|more| (first + more) % SERVERS);
        let mut free = seats.filter_map(|seat| Some((seat, arena.try_take(seat)?)));
        if let Some((seat, mut master)) = free.next() {
            let stopped = Stopped::stop(arena, free.take(others).collect());
            // Locks are acquired with the votes of the others meanwhile.
            sleep(millis(&mut dice, 100, 600)).await;
            damage(arena, kind, seat, &mut master, stopped, &mut dice).await;
            missing.retain(|other| *other != kind);
        }
        drop(spare);
        sleep(millis(&mut dice, 0, 500)).await;
    }
}

/// Kills and stops services, one at a time.
async fn hit_services(arena: &Arena<'_>, mut dice: Dice, over: watch::Receiver<bool>) {
    while !*over.borrow() {
        sleep(millis(&mut dice, 200, 2_000)).await;
        let (index, kill, pause) = (dice.index(SERVICES), dice.roll(2) == 0, millis(&mut dice, 100, 1_500));
        let Some(mut service) = arena.fleet.try_take(index) else { continue };
        let kind = if kill { "kill_service" } else { "stop_service" }.to_owned();
        let generation = Some(service.generation());
        arena.journal.write(Event::Fault { kind: kind.clone(), server: None, service: Some(index), generation });
        if kill {
            arena.fleet.restart(&mut service, pause).await;
        } else {
            service.stop();
            sleep(pause).await;
            service.cont();
        }
        arena.journal.write(Event::Healed { kind, server: None, service: Some(index) });
    }
}
