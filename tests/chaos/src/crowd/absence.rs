use super::super::grants::Process;
use super::super::history::{Event, Record};
use super::super::windows::Window;
use super::MEMBERS;
use lock_history::Moment;

/// A time in which a process of the crowd could not take part in everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absence {
    pub(super) process: Process,
    pub(super) kind: Kind,
    pub(super) window: Window,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It never comes back.
    Killed,
    Frozen,
    /// Some of its connections were cut.
    Cut,
}

/// All absences, from the history of the nemesis.
pub(super) fn absences(nemesis: &[Record]) -> Vec<Absence> {
    let mut absences: Vec<Absence> = Vec::new();
    for Record { at, event } in nemesis {
        match event {
            Event::Fault { kind, service: Some(service), generation: Some(generation), .. }
                if MEMBERS.contains(service) =>
            {
                let process = (*service, *generation);
                absences.push(Absence { process, kind: Kind::of(kind), window: Window { from: *at, to: Moment::MAX } });
            }
            Event::Healed { kind, service: Some(service), .. } if Kind::of(kind) != Kind::Killed => {
                let of = |absence: &&mut Absence| absence.process.0 == *service && absence.kind == Kind::of(kind);
                let open = absences.iter_mut().filter(of).filter(|absence| absence.window.to == Moment::MAX);
                open.for_each(|absence| absence.window.to = *at);
            }
            _ => {}
        }
    }
    absences
}

impl Absence {
    /// Whether it overlaps with a window.
    pub(super) fn overlaps(&self, window: Window) -> bool {
        self.window.from < window.to && window.from < self.window.to
    }
}

impl Kind {
    fn of(fault: &str) -> Self {
        match fault {
            "kill_service" => Self::Killed,
            "stop_service" => Self::Frozen,
            _ => Self::Cut,
        }
    }
}
