use std::fmt;

use lock_core::quorum::{AcquireVote, ConfirmVote, RenewalVote};

use super::decider::Decider;
use super::event::Message;
use super::nodes::Nodes;

/// Three masters: the least of which a minority can fail.
pub const NODES: usize = 3;
/// The most attempts that a setting can have.
pub const CLIENTS: usize = 3;

/// Everything that decides how a run can go on. What was sent stays in here for good: a message may come at any time, more than
/// once, or never.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The time in ticks; 0 throughout where there is no time.
    pub now: u8,
    /// How many nodes have forgotten so far.
    pub forgets: u8,
    /// How many times another lock has moved a node's fence on so far.
    pub neighbours: u8,
    /// The nodes.
    pub nodes: [Node; NODES],
    /// Each makes one attempt.
    pub clients: [Client; CLIENTS],
    /// What must not happen, and did.
    pub breaches: Breaches,
}

/// A node: what its keys say of the one lock that there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// `L`.
    pub key: Option<Key>,
    /// `F`.
    pub fence: u8,
    /// Rises when the node forgets.
    pub epoch: u8,
    /// The tick in which the node may grant again; 0 if it may.
    pub quarantine: u8,
}

/// A lock key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The owner id.
    pub owner: usize,
    /// The tick in which it is gone.
    pub expires: u8,
}

/// A client, and what it has sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// What it is doing.
    pub phase: Phase,
    /// The token that it was granted, for good: the first of its block.
    pub token: Option<u8>,
    /// The cluster clock as it knew it when it began.
    pub hint: u8,
    /// Where it sent its acquire, and in which epoch of the node.
    pub acquires: [Option<u8>; NODES],
    /// The confirms of both rounds.
    pub confirms: [Proposal; 2],
    /// Where it sent an extend.
    pub extends: Nodes,
    /// Where it sent a replace, and in which epoch of the node.
    pub replaces: [Option<u8>; NODES],
    /// How many rounds of renewal it began.
    pub renewals: u8,
}

/// A confirm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// The number.
    pub fence: u8,
    /// Whom it was sent to.
    pub nodes: Nodes,
}

/// What a client is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has not begun.
    #[default]
    Idle,
    /// It is acquiring.
    Asking(Box<Asking>),
    /// It has the lock, and is valid until this tick.
    Holding {
        /// The first tick in which it is not.
        until: u8,
        /// The renewal under way.
        round: Option<Box<Round>>,
    },
    /// It failed, gave up, let go, or its validity ended. Its release is on its way, and whatever it sent before.
    Over,
}

/// An attempt under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Asking {
    /// What decides.
    pub decider: Decider,
    /// When it began.
    pub began: u8,
    /// The largest token of the acquisitions that had completed by then.
    pub floor: u8,
    /// The nodes that granted and answered.
    pub granted: Nodes,
    /// What it waits for.
    pub lines: [Line; NODES],
}

/// A renewal under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Round {
    /// What decides.
    pub decider: Decider,
    /// When it began.
    pub sent: u8,
    /// The epochs in which the extends were sent.
    pub epochs: [Option<u8>; NODES],
    /// The nodes on which the extend found the key of this lease.
    pub kept: Nodes,
    /// Whether it renewed.
    pub renewed: bool,
    /// What it waits for.
    pub lines: [Line; NODES],
}

/// What a client waits for from a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Line {
    /// Nothing.
    #[default]
    Closed,
    /// An answer, which may never come.
    Open(Question),
    /// It was given: it may come, or never.
    Answered(Answer),
}

/// What an answer is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// To the acquire.
    Acquire,
    /// To the confirm of this round.
    Confirm(u8),
    /// To the extend of the present round.
    Extend,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To an acquire.
    Acquire(AcquireVote),
    /// To the confirm of a round.
    Confirm(u8, ConfirmVote),
    /// To an extend.
    Extend(RenewalVote),
}

/// What must not happen. The deed is noted where it is done, so that the state need not remember what led to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Breaches {
    /// A token that is not larger than one granted before the attempt began.
    pub disorder: bool,
    /// A token, and no majority of nodes had granted.
    pub minority: bool,
    /// A message changed the key of another owner.
    pub trespass: bool,
    /// A renewal that rests on nodes that did not have the key any more.
    pub resurrection: bool,
}

impl Client {
    /// Drops a message that was executed and will not come again.
    pub(super) fn forget_message(&mut self, node: usize, message: Message) {
        match message {
            Message::Acquire => self.acquires[node] = None,
            Message::Confirm(round) => self.confirms[usize::from(round) - 1].nodes.remove(node),
            Message::Extend => self.extends.remove(node),
            Message::Replace => self.replaces[node] = None,
            Message::Release => {}
        }
    }

    /// The last token of its block, where a block has so many.
    pub(super) fn last_token(&self, tokens: u8) -> Option<u8> {
        self.token.map(|first| first + tokens - 1)
    }

    /// What it waits for.
    #[must_use]
    pub fn lines(&self) -> Option<&[Line; NODES]> {
        match &self.phase {
            Phase::Asking(asking) => Some(&asking.lines),
            Phase::Holding { round: Some(round), .. } => Some(&round.lines),
            _ => None,
        }
    }

    /// What it waits for.
    pub fn lines_mut(&mut self) -> Option<&mut [Line; NODES]> {
        match &mut self.phase {
            Phase::Asking(asking) => Some(&mut asking.lines),
            Phase::Holding { round: Some(round), .. } => Some(&mut round.lines),
            _ => None,
        }
    }

    /// Whether it waits for just this from a node, heard or not.
    #[must_use]
    pub fn waits_for(&self, node: usize, question: Question) -> bool {
        self.lines().is_some_and(|lines| lines[node].question() == Some(question))
    }
}

impl Line {
    /// What it waits for an answer to.
    #[must_use]
    pub fn question(self) -> Option<Question> {
        Some(match self {
            Self::Closed => return None,
            Self::Open(question) => question,
            Self::Answered(Answer::Acquire(_)) => Question::Acquire,
            Self::Answered(Answer::Confirm(round, _)) => Question::Confirm(round),
            Self::Answered(Answer::Extend(_)) => Question::Extend,
        })
    }

    /// What is heard if nothing comes, or comes in time.
    #[must_use]
    pub fn silence(self) -> Option<Answer> {
        Some(match self.question()? {
            Question::Acquire => Answer::Acquire(AcquireVote::NoReply),
            Question::Confirm(round) => Answer::Confirm(round, ConfirmVote::NoReply),
            Question::Extend => Answer::Extend(RenewalVote::NoReply),
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tick {}:", self.now)?;
        for (number, node) in self.nodes.iter().enumerate() {
            write!(f, " node {number} F={}", node.fence)?;
            if let Some(key) = node.key {
                write!(f, " L={} until {}", key.owner, key.expires)?;
            }
            if node.epoch > 0 {
                write!(f, " forgot")?;
            }
            if node.is_quarantined() {
                write!(f, " sits out until {}", node.quarantine)?;
            }
            write!(f, ";")?;
        }
        for (number, client) in self.clients.iter().enumerate() {
            match (&client.phase, client.token) {
                (Phase::Holding { until, .. }, Some(token)) => {
                    write!(f, " client {number} has {token} until {until};")?;
                }
                (_, Some(token)) => write!(f, " client {number} had {token};")?,
                _ => {}
            }
        }
        Ok(())
    }
}
