//! Acquisitions that count votes by a broken rule: each scenario passes with the shipped rules and catches the broken ones.

use std::time::Duration;

use lock_core::node::{Kind, Operation, OwnerId, QueuePosition, Reply};
use lock_core::quorum::{AcquireVote, Acquisition, ConfirmVote, Step, Terms, majority};
use lock_support::MemoryCluster;
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(1);

/// The rules by which votes are counted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Decider {
    /// The shipped rules.
    Shipped,
    /// A majority of the responders is enough.
    MajorityOfResponders,
    /// The token is the largest of those granted, without a confirmation.
    LargestGrant,
    /// Nodes confirm a token without checking who owns the key.
    ConfirmWithoutOwnerCheck,
}

/// An acquisition by one client. The scenario decides when each of its two rounds takes place.
struct Attempt {
    decider: Decider,
    owner: OwnerId,
    fences: Vec<Option<u64>>,
    shipped: Acquisition,
    confirm: Option<(u8, u64, Vec<usize>)>,
}

impl Attempt {
    fn new(decider: Decider, owner: u128) -> Self {
        let terms = Terms { ttl: TTL, min_validity: Duration::ZERO, tokens: 1 };
        let shipped = Acquisition::new(3, terms);
        Self { decider, owner: OwnerId::from_bits(owner), fences: vec![None; 3], shipped, confirm: None }
    }

    /// Sends the acquire to some nodes; the others do not reply. Returns the token if that decides the acquisition.
    async fn acquire(&mut self, cluster: &MemoryCluster, reached: &[usize]) -> Option<u64> {
        let mut last = None;
        for node in 0..3 {
            let vote = if reached.contains(&node) {
                let request = Operation::Acquire {
                    owner: self.owner,
                    ttl: TTL,
                    hint: 0,
                    tokens: 1,
                    since: None,
                    kind: Kind::Write,
                };
                match cluster.raw(node).await.send("r", request).await.unwrap() {
                    Reply::Granted { token } => AcquireVote::Granted { token },
                    Reply::Held { remaining, .. } => AcquireVote::Held { remaining },
                    other => panic!("{other:?}"),
                }
            } else {
                AcquireVote::NoReply
            };
            if let AcquireVote::Granted { token } = vote {
                self.fences[node] = Some(token);
            }
            match self.shipped.acquire_vote(node, vote, Duration::ZERO) {
                Step::Granted { token } => last = Some(token),
                Step::Confirm { round, token: fence, nodes } => self.confirm = Some((round, fence, nodes)),
                Step::Wait | Step::Failed(_) => {}
            }
        }
        let grants = || self.fences.iter().flatten();
        match self.decider {
            Decider::Shipped | Decider::ConfirmWithoutOwnerCheck => last,
            Decider::MajorityOfResponders => {
                if grants().count() < majority(reached.len()) {
                    None
                } else {
                    grants().max().copied()
                }
            }
            Decider::LargestGrant => {
                if grants().count() < majority(3) {
                    None
                } else {
                    grants().max().copied()
                }
            }
        }
    }

    /// Makes the second round trip, if one is due. Returns the token if the nodes confirm one.
    async fn confirm(&mut self, cluster: &MemoryCluster) -> Option<u64> {
        while let Some((round, fence, nodes)) = self.confirm.take() {
            for node in nodes {
                let vote = if self.decider == Decider::ConfirmWithoutOwnerCheck {
                    ConfirmVote::Confirmed
                } else {
                    match cluster
                        .raw(node)
                        .await
                        .send("r", Operation::Confirm { owner: self.owner, token: fence })
                        .await
                        .unwrap()
                    {
                        Reply::Confirmed => ConfirmVote::Confirmed,
                        Reply::Refused { fence } => ConfirmVote::Refused { fence },
                        other => panic!("{other:?}"),
                    }
                };
                match self.shipped.confirm_vote(node, round, vote, Duration::ZERO) {
                    Step::Granted { token } => return Some(token),
                    Step::Confirm { round, token: fence, nodes } => self.confirm = Some((round, fence, nodes)),
                    Step::Wait | Step::Failed(_) => {}
                }
            }
        }
        None
    }

    async fn release(&self, cluster: &MemoryCluster) {
        for node in 0..3 {
            cluster
                .raw(node)
                .await
                .send("r", Operation::Release { owner: self.owner, position: QueuePosition::None })
                .await
                .unwrap();
        }
    }
}

/// Three nodes with these fences for `r`.
async fn nodes_with_fences(fences: [u64; 3]) -> MemoryCluster {
    let cluster = MemoryCluster::new(3);
    assert!(cluster.manager().health().await.quorum);
    cluster.set_fences("r", &fences).await;
    cluster
}

/// A partitioned network: each client reaches its own side. Whether both acquired the lock.
async fn partition(decider: Decider) -> bool {
    let cluster = nodes_with_fences([1, 1, 1]).await;
    let (mut ours, mut theirs) = (Attempt::new(decider, 1), Attempt::new(decider, 2));
    let ours = ours.acquire(&cluster, &[0]).await;
    let theirs = theirs.acquire(&cluster, &[1, 2]).await;
    ours.is_some() && theirs.is_some()
}

// mutant: exclusion
#[tokio::test(start_paused = true)]
async fn a_majority_of_the_responders_is_caught() {
    assert!(!partition(Decider::Shipped).await);
    assert!(partition(Decider::MajorityOfResponders).await, "two holders at once");
}

/// Acquisitions one after the other, each on another majority, with fences that differ. Returns their tokens.
async fn skewed_fences(decider: Decider) -> Vec<u64> {
    let cluster = nodes_with_fences([1, 5, 3]).await;
    let mut tokens = Vec::new();
    for (owner, reached) in [(1, [0, 1]), (2, [0, 2]), (3, [0, 2])] {
        let mut attempt = Attempt::new(decider, owner);
        let token = match attempt.acquire(&cluster, &reached).await {
            Some(token) => Some(token),
            None => attempt.confirm(&cluster).await,
        };
        tokens.extend(token);
        attempt.release(&cluster).await;
    }
    tokens
}

// mutant: fencing
#[tokio::test(start_paused = true)]
async fn taking_the_largest_fence_as_the_token_is_caught() {
    let tokens = skewed_fences(Decider::Shipped).await;
    assert!(tokens.len() == 3 && tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    let tokens = skewed_fences(Decider::LargestGrant).await;
    assert!(!tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

/// An attempt whose keys expire before it confirms, and another attempt in between. Returns the token of the quick one,
/// and that of the slow one.
async fn overtaken_before_the_confirmation(decider: Decider) -> (Option<u64>, Option<u64>) {
    let cluster = nodes_with_fences([1, 3, 2]).await;
    let (mut slow, mut quick) = (Attempt::new(decider, 1), Attempt::new(decider, 2));
    assert_eq!(slow.acquire(&cluster, &[0, 1]).await, None, "a confirmation is due");
    sleep(TTL).await;
    let token = match quick.acquire(&cluster, &[0, 2]).await {
        Some(token) => Some(token),
        None => quick.confirm(&cluster).await,
    };
    (token, slow.confirm(&cluster).await)
}

// mutant: fencing
#[tokio::test(start_paused = true)]
async fn a_confirmation_without_the_owner_check_is_caught() {
    let (token, overtaken) = overtaken_before_the_confirmation(Decider::Shipped).await;
    assert!(token.is_some());
    assert_eq!(overtaken, None);
    let (_, overtaken) = overtaken_before_the_confirmation(Decider::ConfirmWithoutOwnerCheck).await;
    assert!(overtaken.is_some(), "a token for a lock that belongs to the other owner");
}
