use std::time::Duration;

use lock_core::quorum::{KeyVote, Verdict, majority};
use stateright::{Model, Property};

use super::setting::{DelegationMutant, DelegationSetting};
use super::state::{Adopter, Delegation, DelegationState, HOLDER, Holder, Look, RIVAL, Renewal, Rival};
use crate::nodes::Nodes;
use crate::properties::MUTUAL_EXCLUSION;
use crate::state::{Key, NODES};

/// What an adopter may rely on.
pub const NO_UNGUARDED_ADOPTER: &str =
    "no adopter's lease is valid while that of another owner, or of the next local holder, is";

/// The model of delegations.
#[derive(Clone, Debug)]
pub struct DelegationModel {
    setting: DelegationSetting,
}

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DelegationAction {
    /// The holder sends a renewal.
    Renew,
    /// A node executes it.
    Extend { node: usize },
    /// The holder makes its delegation.
    Delegate,
    /// The holder learns that the adopter has answered.
    Finish,
    /// The holder ends, and its lock is released or left to expire.
    End,
    /// The holder ends, and a local caller has the lock.
    HandOver,
    /// A node executes the release.
    Release { node: usize },
    /// The adopter looks at the nodes: for the first time, again, or for a request that is replayed.
    Look,
    /// A node answers, or is not heard of.
    Vote { node: usize, arrives: bool },
    /// The adopter has done its work, or gives up.
    Answer,
    /// The rival sends its acquires.
    Begin,
    /// A node executes one.
    Acquire { node: usize },
    /// A tick passes.
    Tick,
}

impl DelegationModel {
    /// The model with this setting.
    #[must_use]
    pub fn new(setting: DelegationSetting) -> Self {
        Self { setting }
    }

    fn may_look(&self, state: &DelegationState) -> bool {
        let adopter = &state.adopter;
        let may = match state.holder.delegation {
            Delegation::None => false,
            Delegation::Unfinished => !adopter.answered,
            Delegation::Finished => state.is_gone(),
        };
        may && adopter.look.is_none() && adopter.looks < self.setting.looks
    }

    fn may_hand_over(&self, state: &DelegationState) -> bool {
        let may =
            state.holder.delegation == Delegation::None || self.setting.mutant == Some(DelegationMutant::HandedOver);
        may && state.holder_is_valid() && !state.holder.handed_over
    }

    /// The holder ends. Its release is sent, unless the adopter may be at work.
    fn end(&self, state: &mut DelegationState) {
        state.holder.ended = true;
        let at_work = state.holder.delegation == Delegation::Unfinished;
        if !at_work || self.setting.mutant == Some(DelegationMutant::ReleasedUnderAdopter) {
            state.holder.releases = Nodes::all();
        }
    }

    fn extend(&self, state: &mut DelegationState, node: usize) {
        let (now, ttl) = (state.now, self.setting.ttl);
        let held = state.key(node).is_some_and(|key| key.owner == HOLDER);
        let Some(renewal) = &mut state.holder.renewal else { return };
        renewal.open.remove(node);
        if !held {
            return;
        }
        renewal.kept.insert(node);
        state.keys[node] = Some(Key { owner: HOLDER, expires: now + ttl });
        if renewal.kept.are_majority() && now < state.holder.until {
            state.holder.until = state.holder.until.max(renewal.sent + ttl);
        }
    }

    fn vote(&self, state: &mut DelegationState, node: usize, arrives: bool) {
        let key = state.key(node);
        let is_signer = |key: &Key| key.owner == HOLDER || self.setting.mutant == Some(DelegationMutant::CodeUnchecked);
        let left = key.filter(is_signer).map(|key| key.expires - state.now);
        let Some(look) = &mut state.adopter.look else { return };
        look.votes[node] = Some(match left {
            _ if !arrives => KeyVote::NoReply,
            Some(left) => KeyVote::HeldFor(Duration::from_secs(left.into())),
            None => KeyVote::Gone,
        });
        let verdict = match self.setting.mutant {
            Some(DelegationMutant::MajorityOfReplies) => of_replies(look).or(look.verdict()),
            _ => look.verdict(),
        };
        let sent = look.sent;
        match verdict {
            Some((Verdict::Held, left)) => {
                let until = sent + u8::try_from(left.as_secs()).unwrap();
                // A lease that has ended is not extended.
                let is_over = state.adopter.until.is_some_and(|until| until <= state.now);
                let extended = state.adopter.until.unwrap_or_default().max(until);
                state.adopter.until = if is_over { state.adopter.until } else { Some(extended) };
                state.adopter.look = None;
            }
            Some((Verdict::Lost, _)) => state.adopter = Adopter { answered: true, ..over(&state.adopter) },
            Some((Verdict::Unknown, _)) => state.adopter.look = None,
            None => {}
        }
    }
}

/// The mutant's verdict, when no more replies come.
fn of_replies(look: &Look) -> Option<(Verdict, Duration)> {
    let votes = look.votes.iter().copied().collect::<Option<Vec<_>>>()?;
    let replied = votes.iter().filter(|vote| **vote != KeyVote::NoReply).count();
    let proven = votes.iter().filter_map(|vote| match vote {
        KeyVote::HeldFor(left) => Some(*left),
        _ => None,
    });
    (replied > 0 && proven.clone().count() >= majority(replied)).then_some((Verdict::Held, proven.min()?))
}

/// The adopter when it works no more.
fn over(adopter: &Adopter) -> Adopter {
    Adopter { until: None, look: None, ..adopter.clone() }
}

impl Model for DelegationModel {
    type State = DelegationState;
    type Action = DelegationAction;

    fn init_states(&self) -> Vec<DelegationState> {
        let expires = 1 + self.setting.ttl;
        let key = Some(Key { owner: HOLDER, expires });
        // On all nodes, or on a majority.
        let keys = [[key, key, key], [key, key, None]];
        let holder = Holder { until: expires, ..Holder::default() };
        let (adopter, rival) = (Adopter::default(), Rival::default());
        keys.map(|keys| DelegationState { now: 1, keys, holder: holder.clone(), adopter: adopter.clone(), rival })
            .into()
    }

    fn actions(&self, state: &DelegationState, actions: &mut Vec<DelegationAction>) {
        use DelegationAction::{
            Acquire, Answer, Begin, Delegate, End, Extend, Finish, HandOver, Look, Release, Renew, Tick, Vote,
        };
        let DelegationState { holder, adopter, rival, .. } = state;
        let possible = [
            (state.holder_is_valid() && holder.renewal.is_none() && holder.renewals < self.setting.renewals, Renew),
            (state.holder_is_valid() && holder.delegation == Delegation::None && !holder.handed_over, Delegate),
            (holder.delegation == Delegation::Unfinished && adopter.answered, Finish),
            (!holder.ended, End),
            (self.may_hand_over(state), HandOver),
            (self.may_look(state), Look),
            (holder.delegation == Delegation::Unfinished && !adopter.answered, Answer),
            (rival.began == 0, Begin),
            (state.now < self.setting.last_tick, Tick),
        ];
        actions.extend(possible.into_iter().filter_map(|(is_possible, action)| is_possible.then_some(action)));
        for node in 0..NODES {
            if holder.renewal.is_some_and(|renewal| renewal.open.contains(node)) {
                actions.push(Extend { node });
            }
            if holder.releases.contains(node) {
                actions.push(Release { node });
            }
            if adopter.look.is_some_and(|look| look.votes[node].is_none()) {
                actions.extend([true, false].map(|arrives| Vote { node, arrives }));
            }
            if rival.open.contains(node) {
                actions.push(Acquire { node });
            }
        }
    }

    fn next_state(&self, before: &DelegationState, action: DelegationAction) -> Option<DelegationState> {
        let mut state = before.clone();
        match action {
            DelegationAction::Renew => {
                state.holder.renewals += 1;
                state.holder.renewal = Some(Renewal { sent: state.now, open: Nodes::all(), kept: Nodes::default() });
            }
            DelegationAction::Extend { node } => self.extend(&mut state, node),
            DelegationAction::Delegate => state.holder.delegation = Delegation::Unfinished,
            DelegationAction::Finish => state.holder.delegation = Delegation::Finished,
            DelegationAction::End => self.end(&mut state),
            DelegationAction::HandOver => state.holder.handed_over = true,
            DelegationAction::Release { node } => {
                state.holder.releases.remove(node);
                state.keys[node].take_if(|key| key.owner == HOLDER);
            }
            DelegationAction::Look => {
                state.adopter.looks += 1;
                state.adopter.look = Some(Look { sent: state.now, votes: [None; NODES] });
            }
            DelegationAction::Vote { node, arrives } => self.vote(&mut state, node, arrives),
            DelegationAction::Answer => state.adopter = Adopter { answered: true, ..over(&state.adopter) },
            DelegationAction::Begin => state.rival = Rival { began: state.now, open: Nodes::all(), ..state.rival },
            DelegationAction::Acquire { node } => {
                state.rival.open.remove(node);
                if state.key(node).is_none() {
                    state.rival.granted.insert(node);
                    state.keys[node] = Some(Key { owner: RIVAL, expires: state.now + self.setting.ttl });
                }
            }
            DelegationAction::Tick => state.now += 1,
        }
        let state = state.normalized(self.setting.ttl);
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(NO_UNGUARDED_ADOPTER, |model, state| {
                let next_is_valid = state.holder.handed_over && state.holder_is_valid();
                !(state.adopter_is_valid() && (next_is_valid || state.rival_is_valid(model.setting.ttl)))
            }),
            Property::<Self>::always(MUTUAL_EXCLUSION, |model, state| {
                !(state.holder_is_valid() && state.rival_is_valid(model.setting.ttl))
            }),
        ]
    }
}
