//! What the nemesis can do, and the deck from which it draws.

use std::time::Duration;

use super::link::{Direction, Mode};
use super::{SERVERS, SERVICES};
use lock_support::Dice;

/// A fault, and what it hurts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    /// The server that it hurts, or that is at the other end of the link.
    pub(super) server: Option<usize>,
    /// The service that it hurts, or whose link; or all of whose links, if no server is named.
    pub(super) service: Option<usize>,
    /// How long it lasts, if it lasts.
    pub(super) lasts: Duration,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `SIGKILL`; later it is started without data.
    KillServer,
    /// `SIGKILL`, and at once it is started without data.
    RestartServer,
    /// `SIGKILL`, and at once it is started with the data that it had a moment ago.
    ReloadServer,
    /// `SIGSTOP`, later `SIGCONT`.
    StopServer,
    /// `FLUSHALL`.
    FlushServer,
    /// `SCRIPT FLUSH`.
    FlushScripts,
    /// `CLIENT PAUSE`.
    PauseClients,
    /// `SIGKILL`; later it is started again.
    KillService,
    /// `SIGSTOP`, later `SIGCONT`.
    StopService,
    CutLink,
    DelayLink,
    HoldRequests,
    HoldAnswers,
    LoseRequests,
    LoseAnswers,
    /// Those connections alone on which a service is called, by all servers.
    CutCalls,
    HoldCalls,
    LoseCalls,
}

impl Kind {
    pub(super) const ALL: [Self; 18] = [
        Self::KillServer,
        Self::RestartServer,
        Self::ReloadServer,
        Self::StopServer,
        Self::FlushServer,
        Self::FlushScripts,
        Self::PauseClients,
        Self::KillService,
        Self::StopService,
        Self::CutLink,
        Self::DelayLink,
        Self::HoldRequests,
        Self::HoldAnswers,
        Self::LoseRequests,
        Self::LoseAnswers,
        Self::CutCalls,
        Self::HoldCalls,
        Self::LoseCalls,
    ];

    /// Those after which a service does not hear when it is called. They cost time and can break nothing, so that all services
    /// may have them at once.
    pub(super) const OF_CALLS: [Self; 3] = [Self::CutCalls, Self::HoldCalls, Self::LoseCalls];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::KillServer => "kill_server",
            Self::RestartServer => "restart_server",
            Self::ReloadServer => "reload_server",
            Self::StopServer => "stop_server",
            Self::FlushServer => "flush_server",
            Self::FlushScripts => "flush_scripts",
            Self::PauseClients => "pause_clients",
            Self::KillService => "kill_service",
            Self::StopService => "stop_service",
            Self::CutLink => "cut_link",
            Self::DelayLink => "delay_link",
            Self::HoldRequests => "hold_requests",
            Self::HoldAnswers => "hold_answers",
            Self::LoseRequests => "lose_requests",
            Self::LoseAnswers => "lose_answers",
            Self::CutCalls => "cut_calls",
            Self::HoldCalls => "hold_calls",
            Self::LoseCalls => "lose_calls",
        }
    }

    /// Whether the server does not vote afterwards until it has been in quarantine.
    pub(super) fn forgets(self) -> bool {
        matches!(self, Self::KillServer | Self::RestartServer | Self::ReloadServer | Self::FlushServer)
    }

    /// How the fault makes a link behave, if it is one of a link.
    pub(super) fn mode(self, lasts: Duration) -> Option<Mode> {
        Some(match self {
            Self::CutLink | Self::CutCalls => Mode::Cut,
            Self::DelayLink => Mode::Delay(lasts / 8),
            Self::HoldRequests => Mode::HoldBack(Direction::ToServer),
            Self::HoldAnswers | Self::HoldCalls => Mode::HoldBack(Direction::ToService),
            Self::LoseRequests => Mode::Lose(Direction::ToServer),
            Self::LoseAnswers | Self::LoseCalls => Mode::Lose(Direction::ToService),
            _ => return None,
        })
    }
}

impl Fault {
    /// A fault of this kind, with what it hurts and for how long left to the dice.
    pub(super) fn draw(kind: Kind, dice: &mut Dice) -> Self {
        let (server, service) = (Some(dice.index(SERVERS)), Some(dice.index(SERVICES)));
        let (from, to) = match kind {
            Kind::RestartServer | Kind::ReloadServer | Kind::FlushServer | Kind::FlushScripts => (0, 1),
            // Longer than a lock lives, often enough.
            Kind::StopService => (300, 2_500),
            Kind::KillService => (50, 800),
            _ => (100, 2_000),
        };
        let lasts = Duration::from_millis(from + dice.roll(to - from));
        match kind {
            Kind::KillService | Kind::StopService => Self { kind, server: None, service, lasts },
            _ if Kind::OF_CALLS.contains(&kind) => Self { kind, server: None, service, lasts },
            _ if kind.mode(lasts).is_some() => Self { kind, server, service, lasts },
            _ => Self { kind, server, service: None, lasts },
        }
    }
}

/// Kinds in an order left to the dice, each of them as often as every other; those of services, which do most, more often.
#[derive(Default)]
pub(super) struct Deck(Vec<Kind>);

impl Deck {
    pub(super) fn draw(&mut self, dice: &mut Dice) -> Kind {
        if self.0.is_empty() {
            let services = [Kind::KillService, Kind::KillService, Kind::StopService, Kind::StopService];
            self.0 = Kind::ALL.into_iter().chain(services).collect();
        }
        self.0.swap_remove(dice.index(self.0.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kind_is_forgotten() {
        let (mut dice, mut deck) = (Dice::new(1), Deck::default());
        let drawn: Vec<Kind> = (0..Kind::ALL.len() + 4).map(|_| deck.draw(&mut dice)).collect();
        assert!(Kind::ALL.iter().all(|kind| drawn.contains(kind)));
    }
}
