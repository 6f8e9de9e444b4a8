//! The faults, and the deck from which the nemesis draws them.

use std::time::Duration;

use super::SERVICES;
use super::link::{Direction, Mode};
use super::store::Store;
use lock_support::Dice;

/// A fault and its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    /// The server that it hits, or that is at the other end of the link.
    pub(super) server: Option<usize>,
    /// The service that it hits, or whose link; or all of whose links, if no server is given.
    pub(super) service: Option<usize>,
    /// How long it lasts; zero if it is instantaneous.
    pub(super) duration: Duration,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `SIGKILL`; later a restart, without data or with what it recovers.
    KillServer,
    /// `SIGKILL`, and at once such a restart.
    RestartServer,
    /// `SIGKILL`, and at once a restart with the data of a moment before.
    ReloadServer,
    /// `SIGSTOP`, later `SIGCONT`.
    StopServer,
    /// `FLUSHALL`.
    FlushServer,
    /// `REPLICAOF` its own copy of a moment before, and `REPLICAOF NO ONE`.
    ReplicateCopy,
    /// `SCRIPT FLUSH`.
    FlushScripts,
    /// `CLIENT PAUSE`.
    PauseClients,
    /// `SIGKILL` of a primary of a cluster, until its replica has taken its place; later a restart without data.
    LosePrimary,
    /// `SIGSTOP` of a primary of a cluster, often until its replica has taken its place; later `SIGCONT`.
    StopPrimary,
    /// A primary of a cluster is cut off from the other servers, until its replica has taken its place. Clients reach it all the time.
    CutOffPrimary,
    /// `CLUSTER FAILOVER`.
    FailOver,
    /// A slot with locks is moved to another primary of its cluster, key by key.
    MoveSlot,
    /// `pg_ctl stop -m immediate`; later a restart with what it recovers.
    CrashServer,
    /// `pg_ctl stop -m fast`; later a restart with its data.
    ShutDownServer,
    /// `pg_terminate_backend` of all.
    EndSessions,
    /// `CHECKPOINT`.
    Checkpoint,
    /// `DROP TABLE` of the locks, and the tables are created again.
    RecreateTable,
    /// `TRUNCATE` of the locks.
    TruncateTable,
    /// The clock is stepped forward, by more than any lock lives.
    StepClock,
    /// `SIGKILL`; later a restart.
    KillService,
    /// `SIGSTOP`, later `SIGCONT`.
    StopService,
    CutLink,
    /// The connection for requests only.
    CutRequests,
    DelayLink,
    HoldRequests,
    HoldReplies,
    LoseRequests,
    LoseReplies,
    /// On the connections for wake-ups only, of one service to all servers.
    CutWakeups,
    HoldWakeups,
    LoseWakeups,
    /// A service may not `PUBLISH` on any server: whom it should wake up is not woken up.
    DenyPublish,
}

impl Kind {
    /// The faults of services and links. Others depend on the [store](Store::faults).
    const OF_EVERY_STORE: [Self; 8] = [
        Self::KillService,
        Self::StopService,
        Self::CutLink,
        Self::DelayLink,
        Self::HoldRequests,
        Self::HoldReplies,
        Self::LoseRequests,
        Self::LoseReplies,
    ];

    /// The faults of connections for requests, and of wake-ups, alone.
    pub(super) const OF_ONE_TRAFFIC: [Self; 4] =
        [Self::CutRequests, Self::CutWakeups, Self::HoldWakeups, Self::LoseWakeups];

    /// The faults after which a service gets no wake-ups. They cost time but break nothing, so all services may have
    /// them at once.
    pub(super) const OF_WAKEUPS: [Self; 3] = [Self::CutWakeups, Self::HoldWakeups, Self::LoseWakeups];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::KillServer => "kill_server",
            Self::RestartServer => "restart_server",
            Self::ReloadServer => "reload_server",
            Self::StopServer => "stop_server",
            Self::FlushServer => "flush_server",
            Self::ReplicateCopy => "replicate_copy",
            Self::FlushScripts => "flush_scripts",
            Self::PauseClients => "pause_clients",
            Self::LosePrimary => "lose_primary",
            Self::StopPrimary => "stop_primary",
            Self::CutOffPrimary => "cut_off_primary",
            Self::FailOver => "fail_over",
            Self::MoveSlot => "move_slot",
            Self::CrashServer => "crash_server",
            Self::ShutDownServer => "shut_down_server",
            Self::EndSessions => "end_sessions",
            Self::Checkpoint => "checkpoint",
            Self::RecreateTable => "recreate_table",
            Self::TruncateTable => "truncate_table",
            Self::StepClock => "step_clock",
            Self::KillService => "kill_service",
            Self::StopService => "stop_service",
            Self::CutLink => "cut_link",
            Self::CutRequests => "cut_requests",
            Self::DelayLink => "delay_link",
            Self::HoldRequests => "hold_requests",
            Self::HoldReplies => "hold_replies",
            Self::LoseRequests => "lose_requests",
            Self::LoseReplies => "lose_replies",
            Self::CutWakeups => "cut_wakeups",
            Self::HoldWakeups => "hold_wakeups",
            Self::LoseWakeups => "lose_wakeups",
            Self::DenyPublish => "deny_publish",
        }
    }

    /// Whether nothing but wake-ups is missing.
    pub(super) fn is_of_wakeups(self) -> bool {
        Self::OF_WAKEUPS.contains(&self) || self == Self::DenyPublish
    }

    /// Whether the server loses data, and so does not vote until its quarantine is over.
    pub(super) fn forgets(self) -> bool {
        matches!(
            self,
            Self::KillServer
                | Self::RestartServer
                | Self::ReloadServer
                | Self::FlushServer
                | Self::ReplicateCopy
                | Self::LosePrimary
                | Self::StopPrimary
                | Self::CutOffPrimary
                | Self::FailOver
                | Self::MoveSlot
                | Self::CrashServer
                | Self::RecreateTable
                | Self::TruncateTable
        )
    }

    /// Whether the server goes on in the same process, and over the same connections, without what it had. So may a cluster.
    pub(super) fn may_go_unnoticed(self) -> bool {
        matches!(
            self,
            Self::FlushServer
                | Self::ReplicateCopy
                | Self::StopPrimary
                | Self::CutOffPrimary
                | Self::FailOver
                | Self::MoveSlot
                | Self::RecreateTable
                | Self::TruncateTable
        )
    }

    /// The mode of the link under this fault, if it is a fault of a link.
    pub(super) fn mode(self, duration: Duration) -> Option<Mode> {
        Some(match self {
            Self::CutLink | Self::CutRequests | Self::CutWakeups => Mode::Cut,
            Self::DelayLink => Mode::Delay(duration / 8),
            Self::HoldRequests => Mode::HoldBack(Direction::ToServer),
            Self::HoldReplies | Self::HoldWakeups => Mode::HoldBack(Direction::ToService),
            Self::LoseRequests => Mode::Lose(Direction::ToServer),
            Self::LoseReplies | Self::LoseWakeups => Mode::Lose(Direction::ToService),
            _ => return None,
        })
    }
}

impl Fault {
    /// A fault of this kind with a random target and duration.
    pub(super) fn draw(kind: Kind, servers: usize, dice: &mut Dice) -> Self {
        let (server, service) = (Some(dice.index(servers)), Some(dice.index(SERVICES)));
        let (from, to) = match kind {
            Kind::RestartServer
            | Kind::ReloadServer
            | Kind::FlushServer
            | Kind::FlushScripts
            | Kind::ReplicateCopy
            | Kind::FailOver
            | Kind::MoveSlot
            | Kind::Checkpoint
            | Kind::RecreateTable
            | Kind::TruncateTable
            | Kind::StepClock => (0, 1),
            // Until all have connected again, few others may be away.
            Kind::EndSessions => (300, 600),
            // Often longer than the time to live of a lock.
            Kind::StopService => (300, 2_500),
            Kind::KillService => (50, 800),
            // Its replica takes its place after some three seconds.
            Kind::LosePrimary | Kind::CutOffPrimary => (4_500, 5_500),
            Kind::StopPrimary => (1_000, 5_000),
            _ => (100, 2_000),
        };
        let duration = Duration::from_millis(from + dice.roll(to - from));
        match kind {
            Kind::KillService | Kind::StopService => Self { kind, server: None, service, duration },
            _ if kind.is_of_wakeups() => Self { kind, server: None, service, duration },
            _ if kind.mode(duration).is_some() => Self { kind, server, service, duration },
            _ => Self { kind, server, service: None, duration },
        }
    }
}

/// Kinds in random order, each as often as every other, except those of services: they have the most effect and come
/// more often.
pub(super) struct Deck {
    store: Store,
    kinds: Vec<Kind>,
}

impl Deck {
    pub(super) fn new(store: Store) -> Self {
        Self { store, kinds: Vec::new() }
    }

    /// Whether every kind was drawn.
    pub(super) fn was_dealt(&self) -> bool {
        self.kinds.is_empty()
    }

    pub(super) fn draw(&mut self, dice: &mut Dice) -> Kind {
        if self.kinds.is_empty() {
            let services = [Kind::KillService, Kind::KillService, Kind::StopService, Kind::StopService];
            self.kinds = [&self.store.faults()[..], &Kind::OF_EVERY_STORE, &services].concat();
        }
        self.kinds.swap_remove(dice.index(self.kinds.len()))
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_kind_that_a_store_has_is_drawn() {
        for store in Store::value_variants() {
            let (mut dice, mut deck) = (Dice::new(1), Deck::new(*store));
            let all: Vec<Kind> = store.faults().into_iter().chain(Kind::OF_EVERY_STORE).collect();
            let drawn: Vec<Kind> = (0..all.len() + 4).map(|_| deck.draw(&mut dice)).collect();
            assert!(all.iter().all(|kind| drawn.contains(kind)), "{store:?}");
        }
    }
}
