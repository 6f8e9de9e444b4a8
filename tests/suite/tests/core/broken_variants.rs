//! The nearest wrong implementations fail: each scenario here passes with the shipped one, and catches a variant that is
//! broken in one place.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::node::{
    Establish, Inspection, Keyspace, NodeFuture, Operation, OwnerId, QueuePosition, Reply, ReplySender, Request,
};
use lock_core::quorum::{AcquireVote, Acquisition, ConfirmVote, Step, Terms, majority};
use lock_core::{LockManager, LockNode, MemoryNode, NodeError};
use lock_history::Referee;
use lock_support::{MemoryCluster, ask, eventually_async};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(1);

/// What a wrong master does in place of what it should.
#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    /// Nothing: the shipped rules.
    Nothing,
    /// Deletes the key whoever owns it.
    ReleaseWithoutOwner,
    /// Votes at once after it forgot everything.
    ForgetAndVote,
    /// Puts a key that a renewal misses back, and says that it is kept.
    CountReplaced,
}

/// A master that is wrong in one place.
struct WrongNode {
    node: MemoryNode,
    wrong: Wrong,
    /// Who owns the key at present, as the votes tell.
    owner: Arc<Mutex<Option<OwnerId>>>,
}

impl LockNode for WrongNode {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        self.node.inspect(keyspace)
    }

    fn establish(&self, keyspace: &Arc<Keyspace>, mut record: Establish) -> NodeFuture<Result<bool, NodeError>> {
        if self.wrong == Wrong::ForgetAndVote {
            record.quarantine = Duration::ZERO;
        }
        self.node.establish(keyspace, record)
    }

    fn submit(&self, mut request: Request, reply_to: ReplySender) {
        if let (Operation::Release { .. }, Wrong::ReleaseWithoutOwner) = (request.operation, self.wrong)
            && let Some(owner) = *self.owner.lock().unwrap()
        {
            request.operation = Operation::Release { owner, position: QueuePosition::None };
        }
        if let (Operation::Extend { owner, ttl }, Wrong::CountReplaced) = (request.operation, self.wrong) {
            drop(ask(&self.node, request.clone()));
            request.operation = Operation::Replace { owner, ttl, token: 0 };
        }
        let (owner, asked) = (Arc::clone(&self.owner), request.operation);
        let answered = ask(&self.node, request);
        tokio::spawn(async move {
            let reply = answered.await;
            if let (Operation::Acquire { owner: asked, .. }, Ok(Reply::Granted { .. })) = (asked, &reply) {
                *owner.lock().unwrap() = Some(asked);
            }
            reply_to.send(reply);
        });
    }

    fn disconnected(&self) -> NodeFuture<()> {
        self.node.disconnected()
    }
}

/// Two managers over masters that are wrong in the same way.
fn two_managers(cluster: &MemoryCluster, wrong: Wrong) -> [LockManager; 2] {
    let owners: Vec<Arc<Mutex<Option<OwnerId>>>> = cluster.nodes.iter().map(|_| Arc::default()).collect();
    [(); 2].map(|()| {
        let nodes = cluster.nodes.iter().zip(&owners);
        let nodes = nodes.map(|(node, owner)| WrongNode { node: node.clone(), wrong, owner: Arc::clone(owner) });
        LockManager::builder().nodes(nodes).ttl(TTL).max_ttl(TTL).connect_lazy().unwrap()
    })
}

/// A holder that is late releases after its successor has the lock; a third one tries.
async fn a_late_release(wrong: Wrong) -> Vec<String> {
    let cluster = MemoryCluster::new(5);
    let [ours, theirs] = two_managers(&cluster, wrong);
    let late = ours.lock("r").renew(false).acquire().await.unwrap();
    let successor = theirs.lock("r").wait(TTL * 2).acquire().await.unwrap();
    let referee = Referee::default();
    assert!(referee.enter(&successor));
    _ = late.release().await;
    if let Ok(third) = ours.lock("r").try_acquire().await {
        referee.enter(&third);
    }
    referee.violations()
}

#[tokio::test(start_paused = true)]
async fn a_release_without_the_owner_check_is_caught() {
    assert_eq!(a_late_release(Wrong::Nothing).await, Vec::<String>::new());
    assert_ne!(a_late_release(Wrong::ReleaseWithoutOwner).await, Vec::<String>::new());
}

/// One of the masters that granted forgets; another client reaches it, and those that were away.
async fn a_minority_forgets(wrong: Wrong) -> Vec<String> {
    let cluster = MemoryCluster::new(5);
    let [ours, theirs] = two_managers(&cluster, wrong);
    assert!(ours.health().await.quorum && theirs.health().await.quorum);
    cluster.nodes[3..].iter().for_each(|node| node.set_down(true));
    let holder = ours.lock("r").renew(false).acquire().await.unwrap();
    let referee = Referee::default();
    assert!(referee.enter(&holder));
    cluster.nodes[3..].iter().for_each(|node| node.set_down(false));
    cluster.nodes[2].forget();
    eventually_async("the lock can be had", async || {
        theirs.lock("r").try_acquire().await.is_ok_and(|guard| referee.enter(&guard))
    })
    .await;
    referee.violations()
}

#[tokio::test(start_paused = true)]
async fn a_master_that_forgets_and_votes_at_once_is_caught() {
    assert_eq!(a_minority_forgets(Wrong::Nothing).await, Vec::<String>::new());
    assert_ne!(a_minority_forgets(Wrong::ForgetAndVote).await, Vec::<String>::new());
}

/// How an acquisition is decided.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Decider {
    /// By the shipped rules.
    Shipped,
    /// By a majority of those that answered.
    MajorityOfResponders,
    /// The token is the largest of the grants, without a confirmation.
    LargestGrant,
    /// Confirmed by masters that do not check whose key it is.
    ConfirmWithoutOwner,
}

/// An acquisition by one client, with `await` between its steps left to the scenario.
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

    /// Asks some masters; the others do not answer. The token, if there is one.
    async fn acquire(&mut self, cluster: &MemoryCluster, reached: &[usize]) -> Option<u64> {
        let mut last = None;
        for node in 0..3 {
            let vote = if reached.contains(&node) {
                let request = Operation::Acquire { owner: self.owner, ttl: TTL, hint: 0, tokens: 1, since: None };
                match cluster.raw(node).await.vote("r", request).await.unwrap() {
                    Reply::Granted { token } => AcquireVote::Granted { token },
                    Reply::Held { remaining } => AcquireVote::Held { remaining },
                    other => panic!("{other:?}"),
                }
            } else {
                AcquireVote::NoReply
            };
            if let AcquireVote::Granted { token } = vote {
                self.fences[node] = Some(token);
            }
            match self.shipped.acquire_vote(node, vote, Duration::ZERO) {
                Step::Granted { token, .. } => last = Some(token),
                Step::Confirm { round, token: fence, nodes } => self.confirm = Some((round, fence, nodes)),
                Step::Wait | Step::Failed(_) => {}
            }
        }
        let grants = || self.fences.iter().flatten();
        match self.decider {
            Decider::Shipped | Decider::ConfirmWithoutOwner => last,
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

    /// The second round trip, if there is to be one. The token, if there is one.
    async fn confirm(&mut self, cluster: &MemoryCluster) -> Option<u64> {
        while let Some((round, fence, nodes)) = self.confirm.take() {
            for node in nodes {
                let vote = if self.decider == Decider::ConfirmWithoutOwner {
                    ConfirmVote::Confirmed
                } else {
                    match cluster
                        .raw(node)
                        .await
                        .vote("r", Operation::Confirm { owner: self.owner, token: fence })
                        .await
                        .unwrap()
                    {
                        Reply::Confirmed => ConfirmVote::Confirmed,
                        Reply::Refused { fence } => ConfirmVote::Refused { fence },
                        other => panic!("{other:?}"),
                    }
                };
                match self.shipped.confirm_vote(node, round, vote, Duration::ZERO) {
                    Step::Granted { token, .. } => return Some(token),
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
                .vote("r", Operation::Release { owner: self.owner, position: QueuePosition::None })
                .await
                .unwrap();
        }
    }
}

/// Three masters whose fencing numbers are these.
async fn masters(fences: [u64; 3]) -> MemoryCluster {
    let cluster = MemoryCluster::new(3);
    assert!(cluster.manager().health().await.quorum);
    cluster.set_fences("r", &fences).await;
    cluster
}

/// A network that is parted: each client reaches its own side.
async fn parted_network(decider: Decider) -> bool {
    let cluster = masters([1, 1, 1]).await;
    let (mut ours, mut theirs) = (Attempt::new(decider, 1), Attempt::new(decider, 2));
    let ours = ours.acquire(&cluster, &[0]).await;
    let theirs = theirs.acquire(&cluster, &[1, 2]).await;
    ours.is_some() && theirs.is_some()
}

#[tokio::test(start_paused = true)]
async fn a_majority_of_those_that_answered_is_caught() {
    assert!(!parted_network(Decider::Shipped).await);
    assert!(parted_network(Decider::MajorityOfResponders).await, "two holders at once");
}

/// Acquisitions one after the other, each on another majority, with counters that differ.
async fn skewed_counters(decider: Decider) -> Vec<u64> {
    let cluster = masters([1, 5, 3]).await;
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

#[tokio::test(start_paused = true)]
async fn the_largest_grant_as_a_token_is_caught() {
    let tokens = skewed_counters(Decider::Shipped).await;
    assert!(tokens.len() == 3 && tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    let tokens = skewed_counters(Decider::LargestGrant).await;
    assert!(!tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

/// An attempt whose keys expire before it confirms, while another one passes it.
async fn overtaken_before_the_confirmation(decider: Decider) -> (Option<u64>, Option<u64>) {
    let cluster = masters([1, 3, 2]).await;
    let (mut slow, mut quick) = (Attempt::new(decider, 1), Attempt::new(decider, 2));
    assert_eq!(slow.acquire(&cluster, &[0, 1]).await, None, "to be confirmed");
    sleep(TTL).await;
    let token = match quick.acquire(&cluster, &[0, 2]).await {
        Some(token) => Some(token),
        None => quick.confirm(&cluster).await,
    };
    (token, slow.confirm(&cluster).await)
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_without_the_owner_check_is_caught() {
    let (token, overtaken) = overtaken_before_the_confirmation(Decider::Shipped).await;
    assert!(token.is_some());
    assert_eq!(overtaken, None);
    let (_, overtaken) = overtaken_before_the_confirmation(Decider::ConfirmWithoutOwner).await;
    assert!(overtaken.is_some(), "a token for a lock that is another's");
}

/// A lock whose key a majority of masters has lost already, at the next renewal. Whether it came back to life.
async fn a_lock_that_had_ended_is_renewed(wrong: Wrong) -> bool {
    let cluster = MemoryCluster::new(5);
    let [ours, _] = two_managers(&cluster, wrong);
    let holder = ours.lock("r").acquire().await.unwrap();
    cluster.nodes[..3].iter().for_each(|node| node.advance_clock(TTL));
    sleep(TTL * 2).await;
    holder.is_valid()
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_counts_masters_where_the_key_was_put_back_is_caught() {
    assert!(!a_lock_that_had_ended_is_renewed(Wrong::Nothing).await);
    assert!(a_lock_that_had_ended_is_renewed(Wrong::CountReplaced).await);
}

#[tokio::test(start_paused = true)]
async fn the_referee_sees_two_holders_and_a_token_that_does_not_increase() {
    let one = LockManager::in_memory().lock("r").acquire().await.unwrap();
    sleep(TTL).await;
    let two = LockManager::in_memory().lock("r").acquire().await.unwrap();
    let referee = Referee::default();
    assert!(referee.enter(&two) && referee.enter(&one));
    let violations = referee.violations();
    assert_eq!(violations.len(), if one.token() > two.token() { 1 } else { 2 }, "{violations:?}");
    referee.leave(&one);
}
