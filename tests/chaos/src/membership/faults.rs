//! What the nemesis does to one master, until it votes again.

use std::time::Duration;

use tokio::sync::MutexGuard;
use tokio::time::sleep;

use super::super::{MAX_TTL, SERVICES};
use super::arena::Arena;
use super::clock_steps;
use super::master::{ALWAYS, EVERY_SECOND, Master};
use lock_support::Dice;

/// What can happen to a master that keeps its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is stopped, and started from an older copy of its data.
    RestoreBackup,
    /// It is stopped, and an asynchronous standby takes its address.
    PromoteStandby,
    /// It becomes a replica of its own copy, and a master again, in the same process.
    ReplicateCopy,
    /// It loses its last second, and comes back with `appendfsync always`.
    ChangeDurability,
    /// It restarts with a wrong clock, which jumps ahead in its quarantine and is set right when it votes.
    WrongClock,
    /// Its clock steps forward and back while it votes.
    StepClock,
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::RestoreBackup,
        Self::PromoteStandby,
        Self::ReplicateCopy,
        Self::ChangeDurability,
        Self::WrongClock,
        Self::StepClock,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RestoreBackup => "restore_backup",
            Self::PromoteStandby => "promote_standby",
            Self::ReplicateCopy => "replicate_copy",
            Self::ChangeDurability => "change_durability",
            Self::WrongClock => "wrong_clock",
            Self::StepClock => "step_clock",
        }
    }
}

/// How long services with two lists run side by side at least, or until the new master votes.
const SIDE_BY_SIDE: Duration = MAX_TTL.saturating_mul(3);

/// The replacement of a master by a blank one with another address.
pub(super) const REPLACE: &str = "replace_master";
/// `SIGSTOP` of a master, until another one is damaged.
const STOP: &str = "stop_master";

pub(super) fn millis(dice: &mut Dice, from: u64, to: u64) -> Duration {
    Duration::from_millis(from + dice.roll(to - from))
}

/// A blank server takes the seat: one service after another is deployed with the new list, and the old server is
/// stopped before, meanwhile, or when the new one votes.
pub(super) async fn replace(arena: &Arena<'_>, seat: usize, dice: &mut Dice) {
    let mut master = arena.masters[seat].lock().await;
    let _spare = arena.spare.acquire().await.unwrap();
    arena.begin(REPLACE, seat);
    let new = Master::blank().await;
    let stopped = dice.index(3);
    if stopped == 0 {
        master.server.kill();
    }
    arena.list(seat, &new);
    let (first, observed) = (dice.index(SERVICES), dice.index(SERVICES));
    // Services with the old list and with the new one run side by side while the new master begins to vote.
    let lingers = dice.index(SERVICES);
    for step in 0..SERVICES {
        if step == observed {
            arena.observer.deploy(&arena.addresses()).await;
        }
        arena.fleet.deploy((first + step) % SERVICES, arena.addresses()).await;
        if step == lingers {
            arena.votes_within(seat, SIDE_BY_SIDE).await;
        }
        sleep(millis(dice, 50, 800)).await;
    }
    if stopped == 1 {
        master.server.kill();
    }
    arena.until_it_votes(seat, REPLACE).await;
    *master = new;
    arena.end(REPLACE, seat);
}

/// Does something to the master of a seat. The caller has it to itself.
///
/// The masters of `stopped` have been stopped, and go on just before something happens to this one: so there are locks
/// that only a bare majority has, with this master among it.
pub(super) async fn damage(
    arena: &Arena<'_>,
    kind: Kind,
    seat: usize,
    master: &mut Master,
    stopped: Stopped<'_>,
    dice: &mut Dice,
) {
    arena.begin(kind.name(), seat);
    match kind {
        Kind::RestoreBackup => restore_backup(master, stopped, dice).await,
        Kind::PromoteStandby => promote_standby(master, stopped, dice).await,
        Kind::ReplicateCopy => replicate_copy(master, stopped, dice).await,
        Kind::ChangeDurability => {
            let last_second = master.server.back_up().await;
            sleep(millis(dice, 100, 1_000)).await;
            stopped.go_on().await;
            master.server.restore(&last_second, &ALWAYS).await;
        }
        Kind::WrongClock => {
            stopped.go_on().await;
            let offset = restart_with_wrong_clock(arena, seat, master, dice).await;
            arena.until_it_votes(seat, kind.name()).await;
            sleep(millis(dice, 100, 600)).await;
            // With a clock that is behind, what it was started with lives for too long, and its holder may have been killed.
            clock_steps::mend(arena, master).await;
            clock_steps::set_right(arena, master, offset).await;
        }
        Kind::StepClock => {
            stopped.go_on().await;
            clock_steps::step(arena, master, dice).await;
        }
    }
    arena.until_it_votes(seat, kind.name()).await;
    arena.end(kind.name(), seat);
}

/// Masters that were stopped. They go on when this is dropped.
pub(super) struct Stopped<'a> {
    arena: &'a Arena<'a>,
    masters: Vec<(usize, MutexGuard<'a, Master>)>,
}

impl<'a> Stopped<'a> {
    pub(super) fn stop(arena: &'a Arena<'a>, masters: Vec<(usize, MutexGuard<'a, Master>)>) -> Self {
        for (seat, master) in &masters {
            arena.begin(STOP, *seat);
            master.server.stop();
        }
        Self { arena, masters }
    }

    /// Lets them go on, and waits until they vote.
    async fn go_on(self) {
        let (arena, seats) = (self.arena, self.masters.iter().map(|(seat, _)| *seat).collect::<Vec<_>>());
        drop(self);
        for seat in seats {
            arena.until_it_votes(seat, "it went on").await;
        }
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        for (seat, master) in &self.masters {
            master.server.cont();
            self.arena.end(STOP, *seat);
        }
    }
}

/// Returns by how much the clock is wrong.
async fn restart_with_wrong_clock(arena: &Arena<'_>, seat: usize, master: &mut Master, dice: &mut Dice) -> i64 {
    let offset = clock_steps::seconds(dice) - clock_steps::seconds(dice);
    master.server.kill();
    master.server.step_clock(offset);
    master.server.restart_with(&EVERY_SECOND).await;
    sleep(millis(dice, 0, 600)).await;
    clock_steps::jump_in_quarantine(arena, seat, master).await.unwrap_or(offset)
}

async fn restore_backup(master: &mut Master, stopped: Stopped<'_>, dice: &mut Dice) {
    let new = master.server.back_up().await;
    let backup = match master.old_backup.take() {
        Some(old) if dice.roll(2) == 0 => old,
        _ => new,
    };
    sleep(millis(dice, 300, 3 * u64::try_from(MAX_TTL.as_millis()).unwrap())).await;
    stopped.go_on().await;
    master.server.restore(&backup, if dice.roll(2) == 0 { &EVERY_SECOND } else { &ALWAYS }).await;
    master.old_backup = Some(backup);
}

async fn replicate_copy(master: &Master, stopped: Stopped<'_>, dice: &mut Dice) {
    let copy = master.server.start_copy().await;
    sleep(millis(dice, 50, 500)).await;
    stopped.go_on().await;
    master.server.replicate(&copy).await;
    master.server.promote().await;
    master.server.until_written().await;
}

async fn promote_standby(master: &mut Master, stopped: Stopped<'_>, dice: &mut Dice) {
    let mut standby = master.standby().await;
    sleep(millis(dice, 50, 500)).await;
    standby.server.promote().await;
    sleep(millis(dice, 50, 1_000)).await;
    if dice.roll(2) == 0 {
        standby.server.query::<String>("CONFIG SET appendfsync always").await;
    }
    stopped.go_on().await;
    master.server.kill();
    standby.server.take_address_of(&master.server).await;
    *master = standby;
}
